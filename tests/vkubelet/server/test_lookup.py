import pytest

from tests.vkubelet.server.harness import NODE, FakeLookup
from vkubelet.errors import RequestError
from vkubelet.interface import PodRef
from vkubelet.kube.objects import decode_cached
from vkubelet.server.lookup import build_ref, find_pod, has_container, quote


def test_pod_of_this_node() -> None:
    pod = find_pod(FakeLookup(), NODE, "ns", "pod")
    assert build_ref(pod) == PodRef("ns", "pod", "uid-1")
    names = ("c", "init", "debugger", "x", "")
    assert [has_container(pod, name) for name in names] == [True, True, True, False, False]


def test_pod_without_a_spec_has_no_container() -> None:
    assert not has_container(decode_cached(b'{"metadata":{}}'), "c")


@pytest.mark.parametrize(
    ("node_name", "namespace", "name"),
    [("virtual-1", "ns", "pod"), (NODE, "ns2", "pod"), (NODE, "ns", "pod2")],
)
def test_pods_of_other_nodes_do_not_exist(node_name: str, namespace: str, name: str) -> None:
    with pytest.raises(RequestError) as caught:
        find_pod(FakeLookup(), node_name, namespace, name)
    assert (caught.value.code, str(caught.value)) == (404, f'pod "{name}" does not exist\n')


def test_quoting() -> None:
    assert quote('a"b\\ü') == '"a\\"b\\\\ü"'
