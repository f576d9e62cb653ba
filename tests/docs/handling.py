"""How each documented command is tested: run on test clusters, or why it isn't."""

from collections.abc import Mapping, Sequence

from tests.docs.commands import Command

WALK: Sequence[str] = (
    "docs/install.md",
    "docs/questions.md",
    "docs/security.md",
    "docs/troubleshooting.md",
    "docs/examples/zone-instance-mapping/README.md",
    "docs/operations.md",
)
"""Documents whose commands `tests/cluster/docs` runs one after the other, in this order."""

REPEATED: Mapping[str, str] = {"README.md": "docs/install.md"}
"""Documents that only repeat commands of another one."""

PARSED = "vkubelet run "
"""What goes on until it's stopped: `tests/docs` has the command line read, no more."""

_NO_KUBELET = "home has no kubelets in these tests, so the chart's pod doesn't start there"
NOT_RUN: Mapping[str, str] = {
    "PYTHONPATH=docs/examples/memory-nodes ": "tests/cluster/docs runs it as a process beside",
    "skopeo ": "there is no registry in these tests, and no skopeo",
    "make ": "tests are run by make; that the targets exist is tested",
    "kubectl --context home --namespace vkubelet rollout status": _NO_KUBELET,
    "kubectl --context home --namespace vkubelet exec deployment/": _NO_KUBELET,
    "helm --kube-context home test ": f"{_NO_KUBELET}; tests/cluster/charts runs what it runs",
}
"""What commands begin with that aren't run, and why."""


def is_run(command: Command) -> bool:
    """Whether a command of a document that's walked through is run."""
    return not command.text.startswith((PARSED, *NOT_RUN))
