from typing import Any

from provider.translation.tokens import find_other_references, is_injected, is_token_volume

TOKEN = {"serviceAccountToken": {"path": "token"}}
ROOT = {"configMap": {"name": "kube-root-ca.crt", "items": []}}


def volume(*sources: dict[str, Any], name: str = "kube-api-access-x2k4p") -> dict[str, Any]:
    return {"name": name, "projected": {"sources": [*sources]}}


def test_a_volume_with_a_token_source_is_a_token_volume() -> None:
    assert is_token_volume(volume(TOKEN, ROOT))
    assert not is_token_volume(volume(ROOT))
    assert not is_token_volume({"name": "kube-api-access-x", "emptyDir": {}})
    assert not is_token_volume({"name": "v", "projected": None})


def test_the_volume_that_admission_adds_is_told_from_a_users() -> None:
    assert is_injected(volume(TOKEN))
    assert not is_injected(volume(TOKEN, name="vault"))


def test_the_root_certificate_goes_with_the_token_and_nothing_else_does() -> None:
    assert list(find_other_references(volume(TOKEN, ROOT))) == []
    others = find_other_references(volume(TOKEN, ROOT, {"secret": {"name": "s"}}))
    assert [reference.name for reference in others] == ["s"]
    same_name = find_other_references(volume(TOKEN, {"secret": {"name": "kube-root-ca.crt"}}))
    assert [reference.kind for reference in same_name] == ["Secret"]
