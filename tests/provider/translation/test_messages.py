"""Messages about remote pods, in home's names."""

import pytest

from provider.translation.dependents import DependentNames
from provider.translation.messages import CopiedNames, read_copied_names, restore_in_status

NAMES = DependentNames("h-1", "cloud", "shop")
SETTINGS = NAMES.copy("ConfigMap", "app.settings")
KEY = NAMES.copy("Secret", "key")
LABELS = {"vkubelet.io/home-cluster": "h-1", "vkubelet.io/peering": "cloud"}
ANNOTATIONS = {
    "vkubelet.io/home-namespace": "shop",
    "vkubelet.io/dependents": "ConfigMap/app.settings,Secret/key",
}


def names() -> CopiedNames:
    found = read_copied_names("shop-home", LABELS, ANNOTATIONS)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (f'secret "{KEY}" not found', 'secret "key" not found'),
        (
            f"couldn't find key a in ConfigMap shop-home/{SETTINGS}",
            "couldn't find key a in ConfigMap shop/app.settings",
        ),
        (
            f'object "shop-home"/"{KEY}" not registered',
            'object "shop"/"key" not registered',
        ),
        (f"{KEY} and {SETTINGS}, {KEY}", "key and app.settings, key"),
        ('secret "key" not found in shop-home', 'secret "key" not found in shop-home'),
        ("", ""),
    ],
)
def test_messages_name_what_home_knows(said: str, shown: str) -> None:
    assert names().restore(said) == shown


def test_a_pod_that_needs_nothing_has_no_names_to_restore() -> None:
    assert read_copied_names("shop-home", LABELS, {"vkubelet.io/home-namespace": "shop"}) is None


def test_a_container_that_waits_says_what_for() -> None:
    message = f'secret "{KEY}" not found'
    waiting = {"reason": "CreateContainerConfigError", "message": message}
    status = {"name": "app", "state": {"waiting": waiting}, "ready": False}
    assert restore_in_status(status, names()) == {
        "name": "app",
        "state": {
            "waiting": {
                "reason": "CreateContainerConfigError",
                "message": 'secret "key" not found',
            }
        },
        "ready": False,
    }
    assert waiting["message"] == message, "what is given isn't changed"


@pytest.mark.parametrize(
    "state", [{}, {"running": {}}, {"waiting": {"reason": "PodInitializing"}}, {"terminated": {}}]
)
def test_other_states_stay(state: dict[str, object]) -> None:
    status = {"name": "app", "state": state}
    assert restore_in_status(status, names()) is status
