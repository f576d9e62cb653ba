import msgspec
import pytest

from vkubelet.kube.headers import Header, decode_bookmark, decode_header


def test_header() -> None:
    raw = b'{"kind":"Pod","metadata":{"name":"a","namespace":"n","resourceVersion":"7","labels":7}}'
    assert decode_header(raw) == Header(name="a", namespace="n", resource_version="7")
    assert decode_header(b'{"metadata":{}}') == decode_header(b"{}") == Header()


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"metadata":{"name":1}}', b'{"metadata":null}'])
def test_bad_header(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_header(raw)


def test_bookmark() -> None:
    plain = b'{"kind":"Pod","metadata":{"resourceVersion":"7","creationTimestamp":null}}'
    assert decode_bookmark(plain) == ("7", False)
    end = b'{"metadata":{"resourceVersion":"7","annotations":{"k8s.io/initial-events-end":"true"}}}'
    assert decode_bookmark(end) == ("7", True)
    with pytest.raises(msgspec.DecodeError):
        decode_bookmark(b"{}")
