"""What the remote cluster says, put into the words of home."""

import logging

import pytest

from provider.streams.failures import RemotePod
from vkubelet.kube.errors import (
    AccessError,
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    ServerError,
    TooManyRequestsError,
    UnreachableError,
)
from vkubelet.kube.objects import NamespacedName

POD = RemotePod(NamespacedName("shop-home", "web"), "shop")


@pytest.mark.parametrize(
    ("remote", "home"),
    [
        ("", ""),
        ('namespaces "shop-home" not found', 'namespaces "shop" not found'),
        ("web_shop-home(uid), shop-home/web", "web_shop(uid), shop/web"),
        ("in shop-home.", "in shop."),
        ("my-shop-home shop-homes a.shop-home", "my-shop-home shop-homes a.shop-home"),
        ("Internal error occurred: no", "no"),
    ],
)
def test_words(remote: str, home: str) -> None:
    assert POD.rewrite(remote) == home


def test_equal_namespaces() -> None:
    assert RemotePod(NamespacedName("a", "web"), "a").rewrite("a/web") == "a/web"


@pytest.mark.parametrize(
    ("error", "answer", "logged"),
    [
        (NotFoundError(404, message="x in shop-home"), (404, "x in shop"), False),
        (ConflictError(409, message="not now"), (409, "not now"), False),
        (ForbiddenError(403, message="no"), (403, "the remote cluster refuses: no"), True),
        (
            TooManyRequestsError(429, message="later"),
            (500, "the remote cluster fails: later"),
            True,
        ),
        (ServerError(502, reason="Bad"), (500, "the remote cluster fails: Bad"), True),
        (ServerError(502), (500, "the remote cluster fails: 502"), True),
        (
            UnreachableError("https://10.0.0.1: refused"),
            (500, "the remote cluster can't be reached"),
            True,
        ),
        (
            AccessError("/secret/file: gone"),
            (500, "the credentials for the remote cluster can't be used"),
            True,
        ),
    ],
)
def test_errors(
    error: KubeError, answer: tuple[int, str], logged: bool, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        built = POD.build_error("pods/log", error)
    assert (built.code, built.message) == answer
    assert bool(caplog.records) == logged
