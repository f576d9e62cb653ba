"""What is found, and as programs get it."""

from provider.checkup.finding import (
    CheckResult,
    encode_results,
    failure,
    has_failed,
    ok,
    skipped,
    warning,
)


def test_only_failures_fail() -> None:
    fine = CheckResult("a", (ok("x"), skipped("y"), warning("z")))
    assert not has_failed([fine])
    assert has_failed([fine, CheckResult("b", (failure("w"),))])
    assert not has_failed([])


def test_encoded() -> None:
    encoded = encode_results([CheckResult("a", (failure("broken", "mend it", "mend --all"),))])
    assert encoded == {
        "failed": True,
        "checks": [
            {
                "name": "a",
                "findings": [
                    {
                        "level": "failure",
                        "message": "broken",
                        "advice": "mend it",
                        "command": "mend --all",
                    }
                ],
            }
        ],
    }
