import errno
import socket
import ssl

import aiohttp
import pytest

from vkubelet.kube.failures import describe_connect_error, describe_network_error


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


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (
            ssl.SSLCertVerificationError(1, "self-signed certificate"),
            "its certificate isn't accepted: self-signed certificate",
        ),
        (ssl.SSLError(1, "wrong version number"), "can't connect: TLS fails: "),
        (
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            "its name can't be resolved: Name or service not known",
        ),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), "can't connect: refused"),
    ],
)
def test_sentences_on_connecting(error: OSError, text: str) -> None:
    assert describe_connect_error(error).startswith(text)
