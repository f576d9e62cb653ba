"""What the remote cluster says, put into the words of home."""

import logging

import pytest

from provider.streams.failures import RemotePod, refuses_protocol
from vkubelet.kube.errors import (
    AccessError,
    ConflictError,
    ForbiddenError,
    KubeError,
    NotFoundError,
    ServerError,
    StatusError,
    TooManyRequestsError,
    UnreachableError,
    UpgradeError,
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
        (
            ServerError(500, message='container not found ("main")'),
            (500, 'container not found ("main")'),
            False,
        ),
        (
            ServerError(500, message="container main not found in pod web_shop-home"),
            (500, "container main not found in pod web_shop"),
            False,
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


@pytest.mark.parametrize(
    ("remote", "home"),
    [
        (
            (
                'pods "web" is forbidden: User "system:serviceaccount:tenant:us" cannot create'
                ' resource "pods/exec" in API group "" in the namespace "shop-home"'
            ),
            'vkubelet cannot create resource "pods/exec" in API group "" in the namespace "shop"',
        ),
        (
            (
                'Get "https://10.1.2.3:10250/containerLogs/shop-home/web/main?follow=true": dial'
                " tcp 10.1.2.3:10250: connect: connection refused"
            ),
            "dial tcp (address): connect: connection refused",
        ),
        ("dial tcp [fd00::1]:10250: i/o timeout", "dial tcp (address): i/o timeout"),
        (
            "dial tcp: lookup worker-3.internal on 10.0.0.10:53: no such host",
            "dial tcp: lookup: no such host",
        ),
        ('nodes "worker-3" not found', "the remote node isn't found"),
        (
            "no preferred addresses found; known addresses: [{Hostname worker-3}]",
            "no preferred addresses found",
        ),
        (
            "x509: certificate is valid for 10.2.3.4, not 10.1.2.3",
            "x509: certificate is valid for (address), not (address)",
        ),
        (
            "error forwarding port 80 to pod 7f3a9c, uid : dial tcp4 127.0.0.1:80: refused",
            "dial tcp4 127.0.0.1:80: refused",
        ),
        ("dial tcp [::1]:80: refused", "dial tcp [::1]:80: refused"),
        ('container "c" in pod "web" is waiting', 'container "c" in pod "web" is waiting'),
    ],
)
def test_nothing_of_the_remote_side_is_told(remote: str, home: str) -> None:
    assert POD.hide(remote) == home


STATUS = {"kind": "Status", "status": "Failure"}


@pytest.mark.parametrize(
    ("error", "refuses"),
    [
        (UpgradeError("answers 200"), True),
        (UnreachableError("refused"), False),
        (AccessError("no credentials"), False),
        (StatusError(400, message="bad gateway of some kind"), True),
        (StatusError(426), True),
        (ServerError(502), True),
        (ServerError(503), False),
        (StatusError(401), False),
        (ForbiddenError(403), True),
        (ForbiddenError(403, status=STATUS), False),
        (NotFoundError(404, status=STATUS), False),
        (StatusError(400, message="Upgrade request required", status=STATUS), True),
        (StatusError(400, message="container is required", status=STATUS), False),
    ],
)
def test_what_refuses_the_protocol(error: KubeError, refuses: bool) -> None:
    assert refuses_protocol(error) is refuses
