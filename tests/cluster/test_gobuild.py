import pytest

from tests.cluster.gobuild import (
    BuildError,
    build_go_mod,
    build_linker_flags,
    explain_failure,
    parse_go_version,
)

KUBERNETES_MOD = """\
module k8s.io/kubernetes

go 1.26.0

require (
\tk8s.io/api v0.0.0
\tk8s.io/klog/v2 v2.140.0
)

replace (
\tk8s.io/api => ./staging/src/k8s.io/api
\tk8s.io/kubectl => ./staging/src/k8s.io/kubectl
)

replace k8s.io/cri-api => ./staging/src/k8s.io/cri-api
"""


def test_go_mod_replaces_staging_modules_by_published_ones() -> None:
    assert (
        build_go_mod("1.37.2", KUBERNETES_MOD)
        == """\
module vkubelet.test/kubernetes

go 1.26.0

tool (
\tk8s.io/kubernetes/cmd/kube-apiserver
\tk8s.io/kubernetes/cmd/kube-controller-manager
\tk8s.io/kubernetes/cmd/kube-scheduler
\tk8s.io/kubernetes/cmd/kubectl
\tgo.etcd.io/etcd/server/v3
)

require k8s.io/kubernetes v1.37.2

replace (
\tk8s.io/api => k8s.io/api v0.37.2
\tk8s.io/kubectl => k8s.io/kubectl v0.37.2
\tk8s.io/cri-api => k8s.io/cri-api v0.37.2
)
"""
    )


@pytest.mark.parametrize("mod", ["", "go 1.26.0\n", "k8s.io/a => ./staging/src/k8s.io/a\n"])
def test_go_mod_that_is_not_as_expected(mod: str) -> None:
    with pytest.raises(BuildError, match=r"Kubernetes 1\.37\.2 isn't as expected"):
        build_go_mod("1.37.2", mod)


def test_linker_flags_stamp_programs_and_their_client() -> None:
    flags = build_linker_flags("1.34.4")
    assert "-X k8s.io/component-base/version.gitVersion=v1.34.4" in flags
    assert "-X k8s.io/component-base/version.gitMinor=34" in flags
    assert "-X k8s.io/client-go/pkg/version.gitVersion=v1.34.4" in flags


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("go version go1.26.8 linux/amd64", (1, 26, 8)),
        ("go version go1.27 linux/arm64", (1, 27)),
        ("1.26.0", (1, 26, 0)),
        ("command not found", ()),
    ],
)
def test_go_version(text: str, version: tuple[int, ...]) -> None:
    assert parse_go_version(text) == version


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("a\nwrite /tmp/x: no space left on device\n", "the disk is full"),
        (
            'go: k8s.io/kubernetes@v1: Get "…": dial tcp: lookup x: no such host\ngo: exiting\n',
            "the Go module proxy can't be reached: go: k8s.io/kubernetes@v1: Get",
        ),
        ("x\ngo: unknown revision v1.99.9\n", "go build failed: go: unknown revision v1.99.9"),
        ("", "go build failed: no output"),
    ],
)
def test_one_line_says_why_go_failed(output: str, reason: str) -> None:
    explained = explain_failure(output, "go build")
    assert explained.startswith(reason)
    assert "\n" not in explained
