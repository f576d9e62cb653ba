"""`kubectl cp` to and from a pod, through the virtual node."""

import asyncio
import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.e2e.differential import Both

pytestmark = pytest.mark.e2e

_FILES = 40


def _hash_tree(top: Path) -> Mapping[str, str]:
    return {
        str(file.relative_to(top)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in top.rglob("*")
        if file.is_file()
    }


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with files of many sizes, one of them big."""
    top = tmp_path_factory.mktemp("copy") / "tree"
    (top / "deep" / "er").mkdir(parents=True)
    for number in range(_FILES):
        (top / "deep" / f"{number} of {_FILES}").write_bytes(os.urandom(number * number * 37))
    (top / "deep" / "er" / ("long" * 40)).write_bytes(b"")
    (top / "big").write_bytes(os.urandom(100_000_000))
    return top


async def test_to_and_from(
    leg: Both, tree: Path, tmp_path: Path, client: Mapping[str, str]
) -> None:
    there = await leg.through.run("cp", str(tree), "{ns}/talker:/tmp/tree", env=client)
    assert (there.returncode, there.stderr) == (0, "")
    hashes = await leg.direct.run("exec", "talker", "--", "sha256sum", "/tmp/tree/big")
    digest = (await asyncio.to_thread(_hash_tree, tree))["big"]
    assert hashes.stdout.split()[0].decode() == digest
    back = await leg.through.run("cp", "{ns}/talker:/tmp/tree", str(tmp_path / "back"), env=client)
    assert (back.returncode, back.stderr) == (0, "")
    assert await asyncio.to_thread(_hash_tree, tmp_path / "back") == _hash_tree(tree)
    await leg.direct.run("exec", "talker", "--", "rm", "-r", "/tmp/tree")


@pytest.mark.parametrize(
    "args",
    ["/none {ns}/talker:/tmp/x", "/etc/hostname {ns}/none:/tmp/x", "/etc/hostname {ns}/ended:/x"],
)
async def test_what_fails(leg: Both, args: str, client: Mapping[str, str]) -> None:
    direct, through = await leg.run("cp", *args.split(), env=client)
    assert through == direct
    assert through.returncode != 0
