from pathlib import Path

import pytest

from tests.cluster.process_nodes.__main__ import build_policy, main
from vkubelet.config import DaemonSetPolicy


@pytest.mark.parametrize(
    ("nodes", "options", "message"),
    [
        ("- {nome: a}", [], "--nodes: "),
        (None, [], "--nodes: "),
        ("[]", ["--address", "nowhere"], "--address: "),
        ("[]", ["--colour"], "--colour"),
    ],
)
def test_a_wrong_command_line_ends_with_2_and_names_the_flag(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    nodes: str | None,
    options: list[str],
    message: str,
) -> None:
    file = tmp_path / "nodes.yaml"
    if nodes is not None:
        file.write_text(nodes)
    with pytest.raises(SystemExit) as ended:
        main(["--kubeconfig", "none", "--nodes", str(file), *options])
    assert ended.value.code == 2
    assert message in capsys.readouterr().err.splitlines()[-1]


def test_a_wrong_kubeconfig_ends_with_2(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = tmp_path / "nodes.yaml"
    file.write_text("[]")
    assert main(["--kubeconfig", str(tmp_path / "absent"), "--nodes", str(file)]) == 2
    assert "--kubeconfig: " in caplog.text


def test_every_pod_runs() -> None:
    policy = build_policy("192.0.2.7")
    assert policy.namespaces.names_namespace("kube-system")
    assert policy.daemonset_pods is DaemonSetPolicy.REFLECT
    assert not any("virtual-kubelet" in text for text in policy.owner_labels.items())
