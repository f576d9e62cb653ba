import pytest
from hypothesis import given, strategies as st

from provider.mapping.errors import MappingError
from provider.mapping.naming import NodeNaming, fit_name
from vkubelet.kube.names import is_dns_subdomain

EXACT = NodeNaming()
PREFIXED = NodeNaming("cloud-")


@pytest.mark.parametrize(
    ("naming", "text", "name"),
    [
        (EXACT, "n1", "n1"),
        (EXACT, "n1.example.com", "n1.example.com"),
        (PREFIXED, "n1", "cloud-n1"),
        (PREFIXED, "gpu_A100", "cloud-gpu-a100"),
        (EXACT, "GPU", "gpu"),
        (EXACT, "a..b", "a.b"),
        (EXACT, "a_.b", "a.b"),
        (EXACT, "1_", "1"),
        (NodeNaming("site."), "-x", "site.x"),
    ],
)
def test_names(naming: NodeNaming, text: str, name: str) -> None:
    assert naming.build_name(text) == name


def test_a_name_that_is_too_long_is_cut_and_stays_unique() -> None:
    long = "n" * 252
    names = {PREFIXED.build_name(long + last) for last in "ab"}
    assert len(names) == 2
    assert all(len(name) <= 253 and is_dns_subdomain(name) for name in names)
    assert PREFIXED.build_name(long) == PREFIXED.build_name(long)


def test_a_cut_at_a_dot_is_valid() -> None:
    assert is_dns_subdomain(fit_name("a" * 241 + "." + "b" * 30))


@pytest.mark.parametrize("prefix", ["-a", "A-", "a_", ".", "a" * 253, "a..", "a b"])
def test_a_prefix_that_can_begin_no_name_is_refused(prefix: str) -> None:
    with pytest.raises(MappingError, match="can't begin the name of a node"):
        NodeNaming(prefix)


@given(st.text(max_size=300))
def test_every_text_gives_a_valid_name(text: str) -> None:
    assert is_dns_subdomain(PREFIXED.build_name(text))
    assert is_dns_subdomain(EXACT.build_name(text))


@given(st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True))
def test_valid_names_stay(text: str) -> None:
    assert EXACT.build_name(text) == text
