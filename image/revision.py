"""Which commit an image is built from, and where that can be found."""

import re
import subprocess
from pathlib import Path

REVISION = "org.opencontainers.image.revision"
SOURCE = "org.opencontainers.image.source"
UNKNOWN = "unknown"


def read_labels(repository: Path) -> dict[str, str]:
    """
    Read the labels of a checkout.

    The revision shows changes that aren't committed. The source is the URL of `origin`, if that is
    one that others can use, without any password. What isn't known is "unknown".
    """
    described = _ask_git(
        repository, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"
    )
    source = normalize_url(_ask_git(repository, "config", "--get", "remote.origin.url"))
    return {REVISION: described or UNKNOWN, SOURCE: source or UNKNOWN}


def normalize_url(url: str) -> str:
    """Make an https URL of a remote's; empty for a local one."""
    if found := re.fullmatch(r"(?:ssh://)?git@([^:/]+)[:/](.+)", url):
        url = f"https://{found[1]}/{found[2]}"
    if not (found := re.fullmatch(r"https://(?:[^@/]*@)?(.+)", url)):
        return ""
    return f"https://{found[1].removesuffix('/').removesuffix('.git')}"


def _ask_git(repository: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(repository), *arguments],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        return ""
    return done.stdout.strip()
