"""Where API servers and kubelets are known to be wrong: there ours must be right, not the same."""

import dataclasses
from collections.abc import Mapping

from tests.e2e.commands import Outcome

RIGHT: Mapping[str, str] = {
    "lost tail": (
        "a kubelet closes the connection when a command ends, and so loses what a slow reader"
        " hasn't read; ours waits for the reader"
    ),
    "empty error stream": (
        "clients take a connection that breaks before the command's status for success; ours tells"
        " that the status isn't known"
    ),
    "doubled prefix": (
        "a kubelet that is asked by WebSocket puts `Internal error occurred: ` twice before why a"
        " command can't start; ours once"
    ),
    "closed port": (
        "a kubelet's answer to a refused connection makes kubectl give up all that it forwards;"
        " ours ends that connection alone"
    ),
    "another pod's UID": (
        "a kubelet runs commands in a pod whatever UID the path has; ours only in that very pod"
    ),
    "no command": "a kubelet upgrades first, and then finds that there is no command",
    "silent refusals": "a kubelet refuses a WebSocket without a word; ours says what it lacks",
    "strangers": "a kubelet tells strangers which paths it doesn't have",
    "create": (
        "a kubelet lets who may only `get` a node's proxy run commands by WebSocket; ours asks for"
        " `create` too"
    ),
    "log streams": (
        "a kubelet refuses one of stdout and stderr without a feature gate; ours asks the remote"
        " cluster, which decides"
    ),
}
"""Reasons by name; tests name what they are about."""

_PREFIX = "Internal error occurred: "
UPSTREAM_RACES: Mapping[str, str] = {
    "lost end of stdin": (
        "containerd may close a command's stdin, and its shim keeps it open: `cat` never ends"
    ),
}
"""What goes wrong now and then behind ours, or without it: such a command is run again."""

MAX_RACES = 3
"""In a run of all tests; more aren't chance."""


def undouble_prefix(outcome: Outcome) -> Outcome:
    """RIGHT["doubled prefix"]: what ours shows where a kubelet shows this."""
    return dataclasses.replace(outcome, stderr=outcome.stderr.replace(_PREFIX * 2, _PREFIX))
