"""What a check finds."""

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class Level(enum.StrEnum):
    """
    How bad it is.

    Attributes:
        OK: As it should be.
        SKIPPED: It couldn't be looked at; that needn't mean anything.
        WARNING: It works, but not as might be expected.
        FAILURE: It doesn't work.
    """

    OK = "ok"
    SKIPPED = "skipped"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Finding:
    """
    One of them.

    Attributes:
        level: How bad it is.
        message: What was found.
        advice: What to do, "" if there is nothing to do.
        command: A command line that does it, "" if there is none.
    """

    level: Level
    message: str
    advice: str = ""
    command: str = ""


def ok(message: str) -> Finding:
    """Find nothing wrong."""
    return Finding(Level.OK, message)


def skipped(message: str, advice: str = "") -> Finding:
    """Not find out."""
    return Finding(Level.SKIPPED, message, advice)


def warning(message: str, advice: str = "", command: str = "") -> Finding:
    """Find what may surprise."""
    return Finding(Level.WARNING, message, advice, command)


def failure(message: str, advice: str = "", command: str = "") -> Finding:
    """Find what doesn't work."""
    return Finding(Level.FAILURE, message, advice, command)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What one check found; never nothing."""

    name: str
    findings: tuple[Finding, ...]


def has_failed(results: Iterable[CheckResult]) -> bool:
    """Whether something doesn't work."""
    return any(finding.level is Level.FAILURE for result in results for finding in result.findings)


def encode_results(results: Iterable[CheckResult]) -> dict[str, Any]:
    """Return the findings as they are printed in JSON and YAML."""
    listed = list(results)
    return {
        "failed": has_failed(listed),
        "checks": [
            {
                "name": result.name,
                "findings": [
                    {
                        "level": finding.level.value,
                        "message": finding.message,
                        "advice": finding.advice,
                        "command": finding.command,
                    }
                    for finding in result.findings
                ],
            }
            for result in listed
        ],
    }
