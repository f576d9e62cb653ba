import pytest

from provider.translation.fields import POD_SPEC_FIELDS, REMOVED_FIELDS, Treatment


@pytest.mark.parametrize(
    "name",
    [
        "priority", "priorityClassName", "preemptionPolicy", "overhead", "readinessGates",
        "schedulerName", "serviceAccountName", "nodeName", "ephemeralContainers",
    ],
)  # fmt: skip
def test_fields_that_never_travel(name: str) -> None:
    assert name in REMOVED_FIELDS


@pytest.mark.parametrize("name", ["runtimeClassName", "resourceClaims", "hostNetwork"])
def test_fields_that_are_refused(name: str) -> None:
    assert POD_SPEC_FIELDS[name].treatment is Treatment.REFUSED


@pytest.mark.parametrize(
    ("name", "value", "missed"),
    [
        ("schedulerName", "default-scheduler", False),
        ("schedulerName", "volcano", True),
        ("serviceAccountName", "default", False),
        ("serviceAccountName", "builder", True),
        ("priorityClassName", "", False),
        ("priorityClassName", "high", True),
        ("priority", 5, False),
        ("imagePullSecrets", [{"name": "a"}], False),
        ("nodeName", "vn", False),
    ],
)
def test_only_what_a_user_asked_for_is_missed(name: str, value: object, missed: bool) -> None:
    assert POD_SPEC_FIELDS[name].is_missed(value) is missed


def test_every_rule_says_why() -> None:
    assert all(rule.why for rule in POD_SPEC_FIELDS.values())
