import pytest

from vkubelet.kube.names import is_dns_label, is_dns_subdomain, is_label_key, is_label_value


@pytest.mark.parametrize(
    ("text", "valid"),
    [("a", True), ("a-1", True), ("1a", True), ("a" * 63, True), ("a" * 64, False), ("", False)]
    + [(text, False) for text in ("A", "a.b", "-a", "a-", "a_b", "a\n", "ä")],
)
def test_dns_label(text: str, valid: bool) -> None:
    assert is_dns_label(text) is valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [("a.b", True), ("a" * 253, True), ("a" * 254, False), ("", False)]
    + [(text, False) for text in ("a..b", ".a", "a.", "a.-b", "a-.b", "A.b", "a.b\n")],
)
def test_dns_subdomain(text: str, valid: bool) -> None:
    assert is_dns_subdomain(text) is valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [("a", True), ("A_b.c-d", True), ("x.io/a", True), ("x.io/" + "a" * 63, True)]
    + [(text, False) for text in ("", "/a", "x.io/", "X.io/a", "a/b/c", "_a", "x.io/" + "a" * 64)],
)
def test_label_key(text: str, valid: bool) -> None:
    assert is_label_key(text) is valid


@pytest.mark.parametrize(
    ("text", "valid"),
    [("", True), ("A_b.c-d", True), ("a" * 63, True), ("a" * 64, False)]
    + [(text, False) for text in ("-a", "a-", "a/b", "a:b", "a b", "a@b")],
)
def test_label_value(text: str, valid: bool) -> None:
    assert is_label_value(text) is valid
