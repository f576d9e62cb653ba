"""What counts as access to the host."""

from typing import Any

import pytest

from provider.translation.host_access import find_container_host_access, find_host_access


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "app", **fields}]}


def with_security(**fields: Any) -> dict[str, Any]:
    return container(securityContext=fields)


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"hostNetwork": True}, "hostNetwork"),
        ({"hostPID": True}, "hostPID"),
        ({"hostIPC": True}, "hostIPC"),
        (
            {"volumes": [{"name": "data", "hostPath": {"path": "/"}}]},
            "volume 'data' is a hostPath",
        ),
        ({"securityContext": {"windowsOptions": {"hostProcess": True}}}, "hostProcess"),
        (with_security(windowsOptions={"hostProcess": True}), "container 'app' is a hostProcess"),
        (with_security(privileged=True), "container 'app' is privileged"),
        (
            {"initContainers": [{"name": "i", "securityContext": {"privileged": True}}]},
            "container 'i' is privileged",
        ),
        (
            with_security(capabilities={"add": ["CHOWN", "SYS_ADMIN"]}),
            "container 'app' adds the capability SYS_ADMIN",
        ),
        (
            with_security(capabilities={"add": ["ALL"]}),
            "container 'app' adds the capability ALL",
        ),
        (container(ports=[{"hostPort": 80}]), "container 'app' has a hostPort"),
        (
            container(livenessProbe={"httpGet": {"host": "10.0.0.1", "port": 80}}),
            "container 'app' has a livenessProbe that asks host 10.0.0.1",
        ),
        (
            container(readinessProbe={"tcpSocket": {"host": "db", "port": 80}}),
            "container 'app' has a readinessProbe that asks host db",
        ),
        (
            container(lifecycle={"preStop": {"httpGet": {"host": "127.0.0.1"}}}),
            "container 'app' has a preStop that asks host 127.0.0.1",
        ),
    ],
)
def test_what_is_wanted_of_the_host_is_named(spec: dict[str, Any], named: str) -> None:
    assert list(find_host_access(spec)) == [named]


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"hostNetwork": False, "volumes": [{"name": "data", "emptyDir": {}}]},
        with_security(
            privileged=False, capabilities={"add": ["NET_BIND_SERVICE"], "drop": ["ALL"]}
        ),
        container(ports=[{"containerPort": 80}], lifecycle={"preStop": {"sleep": {"seconds": 1}}}),
        container(startupProbe={"httpGet": {"port": 80}}, livenessProbe={"exec": {}}),
    ],
)
def test_ordinary_pods_want_nothing_of_it(spec: dict[str, Any]) -> None:
    assert list(find_host_access(spec)) == []


def test_all_that_a_container_wants() -> None:
    wishes = {"privileged": True, "capabilities": {"add": ["SYS_PTRACE"]}}
    assert list(find_container_host_access({"name": "debugger", "securityContext": wishes})) == [
        "container 'debugger' is privileged",
        "container 'debugger' adds the capability SYS_PTRACE",
    ]
