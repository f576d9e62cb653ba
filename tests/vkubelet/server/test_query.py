import pytest
from aiohttp.test_utils import make_mocked_request

from vkubelet.errors import RequestError
from vkubelet.server.query import is_set, parse_query


def test_values_come_in_order_and_whole() -> None:
    request = make_mocked_request("GET", "/x?command=a+b&command=&command=%26%3D%C3%BC&tty=1")
    assert parse_query(request) == {"command": ["a b", "", "&=ü"], "tty": ["1"]}


def test_what_is_not_utf8_is_refused() -> None:
    with pytest.raises(RequestError) as caught:
        parse_query(make_mocked_request("GET", "/x?command=%ff"))
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("values", "expected"), [(["1"], True), (["true"], False), (["0"], False), (["0", "1"], False)]
)
def test_flags(values: list[str], expected: bool) -> None:
    assert is_set({"tty": values}, "tty") is expected
    assert not is_set({"tty": values}, "input")
