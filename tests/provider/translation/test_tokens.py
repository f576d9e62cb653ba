from typing import Any

import pytest

from provider.translation.tokens import (
    ApiAccess,
    TokenSource,
    deliver_tokens,
    find_token_sources,
    is_injected,
    is_token_volume,
    travelling_volumes,
)

TOKEN = {"serviceAccountToken": {"path": "token"}}
ROOT = {"configMap": {"name": "kube-root-ca.crt", "items": []}}
DOWNWARD: dict[str, Any] = {"downwardAPI": {"items": []}}
SECRET = {"secret": {"name": "s"}}


def volume(*sources: dict[str, Any], name: str = "kube-api-access-x2k4p") -> dict[str, Any]:
    return {"name": name, "projected": {"sources": [*sources], "defaultMode": 420}}


def test_a_volume_with_a_token_source_is_a_token_volume() -> None:
    assert is_token_volume(volume(TOKEN, ROOT))
    assert not is_token_volume(volume(ROOT))
    assert not is_token_volume({"name": "kube-api-access-x", "emptyDir": {}})
    assert not is_token_volume({"name": "v", "projected": None})


def test_the_volume_that_admission_adds_is_told_from_a_users() -> None:
    assert is_injected(volume(TOKEN))
    assert not is_injected(volume(TOKEN, name="vault"))


def test_each_token_that_is_wanted_is_found() -> None:
    asked = {"serviceAccountToken": {"audience": "https://a.b/c", "expirationSeconds": 600}}
    spec = {
        "volumes": [volume(ROOT, TOKEN), {"name": "e", "emptyDir": {}}, volume(asked, name="v")]
    }
    assert list(find_token_sources(spec)) == [
        TokenSource("kube-api-access-x2k4p", 1, "", 3600),
        TokenSource("v", 0, "https://a.b/c", 600),
    ]


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (volume(TOKEN, ROOT, DOWNWARD), None),
        (volume(TOKEN, SECRET), None),  # injected: nobody asked for it
        (volume(TOKEN, ROOT, DOWNWARD, name="v"), None),
        (volume(TOKEN, ROOT, SECRET, name="v"), volume(SECRET, name="v")),
        (volume(DOWNWARD, name="v"), volume(DOWNWARD, name="v")),
        (volume(ROOT, name="v"), volume(ROOT, name="v")),
        ({"name": "e", "emptyDir": {}}, {"name": "e", "emptyDir": {}}),
    ],
)
def test_what_travels_without_access(given: dict[str, Any], kept: dict[str, Any] | None) -> None:
    expected = [] if kept is None else [kept]
    assert travelling_volumes({"volumes": [given]}, ApiAccess.NONE) == expected


def test_what_travels_with_access() -> None:
    volumes = [volume(TOKEN, ROOT), volume(TOKEN, name="v")]
    assert travelling_volumes({"volumes": volumes}, ApiAccess.HOME) == volumes
    assert travelling_volumes({"volumes": volumes}, ApiAccess.REMOTE) == volumes[1:]
    assert travelling_volumes({}, ApiAccess.NONE) == []


def test_a_secret_takes_the_place_of_a_token() -> None:
    given = volume(ROOT, {"serviceAccountToken": {"path": "a/b", "audience": "x"}}, name="v")
    delivered = deliver_tokens(given, lambda name, index: f"{name}-{index}")
    assert delivered["projected"] == {
        "defaultMode": 420,
        "sources": [ROOT, {"secret": {"name": "v-1", "items": [{"key": "token", "path": "a/b"}]}}],
    }
    assert deliver_tokens(volume(ROOT), lambda name, index: name) == volume(ROOT)
