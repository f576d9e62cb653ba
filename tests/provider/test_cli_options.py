"""Values that commands are given beside their configuration."""

import pytest

from provider.checkup.names import NAMES
from provider.cli import build_parser, main
from vkubelet.kube.objects import NamespacedName


def test_options_of_a_check() -> None:
    parser = build_parser("check")
    parsed = parser.parse_args(
        ["check", "--only=clocks", "--only=pod", "--pod-command=sh -c 'exit 3'", "-o", "json"]
    )
    assert parsed.only == ["clocks", "pod"]
    assert parsed.pod_command == ["sh", "-c", "exit 3"]
    assert (parsed.output, parsed.probe, parsed.run_pod) == ("json", False, None)
    assert set(NAMES) >= set(parsed.only)


def test_options_of_a_kubeconfig() -> None:
    argv = ["kubeconfig", "--service-account=a/b.c", "--server=https://api:6443/", "--duration=1h"]
    parsed = build_parser("kubeconfig").parse_args(argv)
    assert parsed.service_account == NamespacedName("a", "b.c")
    assert parsed.server == "https://api:6443"
    assert parsed.duration.seconds == 3600
    assert build_parser("kubeconfig").parse_args(argv[:2]).duration.seconds == 24 * 3600


ACCOUNT = ["kubeconfig", "--service-account=a/b"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["kubeconfig"], "the following arguments are required: --service-account"),
        (["kubeconfig", "--service-account=b"], "--service-account: 'b' is not NAMESPACE/NAME"),
        (["kubeconfig", "--service-account=A/b"], "'A/b' is not NAMESPACE/NAME"),
        ([*ACCOUNT, "--duration=5m"], "--duration: a token lasts 10m at least"),
        ([*ACCOUNT, "--duration=soon"], "--duration: 'soon' is not a duration"),
        ([*ACCOUNT, "--server=http://api"], "--server: 'http://api' is not https://HOST[:PORT]"),
        ([*ACCOUNT, "--server=api:6443"], "--server: 'api:6443' is not https://HOST[:PORT]"),
    ],
)
def test_wrong_values(argv: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    text = capsys.readouterr().err
    assert message in text
    assert text.count("\n") == 1
