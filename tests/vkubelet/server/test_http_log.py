import logging

import pytest
from aiohttp.http_exceptions import BadStatusLine, InvalidHeader, LineTooLong

from vkubelet.server.http_log import http_logger


@pytest.mark.parametrize(
    "error", [LineTooLong(b"GET /exec?command=secret", 1), InvalidHeader("a b"), BadStatusLine("x")]
)
def test_mistakes_of_peers_are_not_logged(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        http_logger.error("Error handling request", exc_info=error)
    assert not caplog.records


def test_our_own_are(caplog: pytest.LogCaptureFixture) -> None:
    http_logger.error("Error handling request", exc_info=ValueError("ours"))
    http_logger.warning("odd")
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "ours" in caplog.text
