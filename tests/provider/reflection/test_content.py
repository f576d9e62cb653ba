import base64

import msgspec
import pytest
from hypothesis import given, strategies as st

from provider.reflection.content import build_copy, decode_copy, decode_source
from vkubelet.kube.objects import NamespacedName, encode_object

TARGET = NamespacedName("demo-r", "copy")
METADATA = {"name": "a", "namespace": "demo", "uid": "u", "resourceVersion": "1"}


def encode(**fields: object) -> bytes:
    return msgspec.json.encode({"apiVersion": "v1", "metadata": METADATA, **fields})


@given(
    st.dictionaries(st.text("abc.-_", min_size=1, max_size=5), st.binary(max_size=40), max_size=4)
)
def test_each_byte_of_a_secret_arrives(contents: dict[str, bytes]) -> None:
    data = {name: base64.b64encode(value).decode() for name, value in contents.items()}
    source = decode_source(encode(kind="Secret", type="Opaque", data=data))
    body = build_copy(source, "Secret", TARGET, {"labels": {"a": "b"}})
    arrived = msgspec.json.decode(encode_object(body))
    assert arrived.get("data", {}) == data
    assert arrived["metadata"] == {"name": "copy", "namespace": "demo-r", "labels": {"a": "b"}}
    answer = decode_copy(encode_object({**body, "metadata": {**METADATA, "uid": "other"}}))
    assert answer.digest == source.digest


@given(st.dictionaries(st.text("abc", min_size=1), st.text(max_size=30), max_size=4))
def test_each_character_of_a_config_map_arrives(data: dict[str, str]) -> None:
    source = decode_source(encode(kind="ConfigMap", data=data, binaryData={"b": "AP8="}))
    arrived = msgspec.json.decode(encode_object(build_copy(source, "ConfigMap", TARGET, {})))
    assert arrived.get("data", {}) == data
    assert arrived["binaryData"] == {"b": "AP8="}


def test_base64_goes_through_as_it_is_written() -> None:
    raw = encode(kind="Secret", type="a/b", data={"odd": "YQ==\n"})
    copied = encode_object(build_copy(decode_source(raw), "Secret", TARGET, {}))
    assert b'"odd":"YQ==\\n"' in copied


def test_fields_newer_than_this_code_are_copied() -> None:
    source = decode_source(encode(kind="ConfigMap", data={"a": "b"}, newer={"deep": [1]}))
    assert msgspec.json.decode(source.fields["newer"]) == {"deep": [1]}
    assert source.digest != decode_source(encode(kind="ConfigMap", data={"a": "b"})).digest


@pytest.mark.parametrize(
    "raw",
    [
        encode(kind="ConfigMap", data={"a": "1", "b": "<"}),
        encode(kind="ConfigMap", data={"b": "<", "a": "1"}, binaryData=None, immutable=False),
        encode(kind="ConfigMap", binaryData={}, data={"a": "1", "b": "<"}),
        encode(kind="ConfigMap", data={"a": "1", "b": "<"}).replace(b"<", b"\\u003c"),
    ],
)
def test_equal_contents_have_equal_digests(raw: bytes) -> None:
    expected = decode_source(encode(kind="ConfigMap", data={"a": "1", "b": "<"})).digest
    assert decode_copy(raw).digest == expected


@pytest.mark.parametrize(
    "fields",
    [
        {"data": {"a": "2"}},
        {"data": {"b": "1"}},
        {"data": {"a": "1", "b": ""}},
        {"data": {"a": "1"}, "immutable": True},
        {"data": {"a": "1"}, "type": "a/b"},
        {"binaryData": {"a": "1"}},
        {},
    ],
)
def test_different_contents_have_different_digests(fields: dict[str, object]) -> None:
    assert decode_copy(encode(**fields)).digest != decode_copy(encode(data={"a": "1"})).digest


def test_of_a_copy_nothing_is_kept_and_nothing_is_shown() -> None:
    raw = encode(kind="Secret", type="Opaque", data={"password": "czNjcjN0"})
    assert decode_copy(raw).fields == {}
    assert repr(decode_source(raw)) == "Content(demo/a)"


def test_an_account_token_becomes_opaque() -> None:
    source = decode_source(encode(type="kubernetes.io/service-account-token", data={"t": "eA=="}))
    assert source.type == "Opaque"
    assert source.digest == decode_copy(encode(type="Opaque", data={"t": "eA=="})).digest
