import errno
import ssl

import aiohttp
import pytest

from vkubelet.kube.failures import describe_network_error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionResetError(errno.ECONNRESET, "Connection reset by peer"), "Connection reset"),
        (TimeoutError(), "timed out"),
        (aiohttp.ServerDisconnectedError(), "closed before the answer"),
        (aiohttp.ClientPayloadError("not enough data"), "cut short: not enough data"),
        (ssl.SSLError(1, "wrong version number"), "TLS fails"),
        (OSError(), "OSError"),
        (EOFError(), "EOFError"),
        (aiohttp.InvalidURL("http://x/?s3cret"), "InvalidURL"),
    ],
)
def test_sentences(error: BaseException, text: str) -> None:
    description = describe_network_error(error)
    assert text in description
    assert "s3cret" not in description
