"""The Containerfile follows from the list that `make image` builds by."""

import json
import re
import shlex
from collections import defaultdict
from collections.abc import Mapping

from image import containerfile
from image.contents import PACKAGES, REPOSITORY, read_contents
from image.oci import build_config
from image.requirements import read_lock
from image.revision import REVISION, SOURCE


def _read_instructions() -> Mapping[str, list[str]]:
    """Instructions of the last stage by name."""
    text = containerfile.FILE.read_text(encoding="utf-8").replace("\\\n", "")
    last = text[text.rindex("\nFROM ") :]
    found: dict[str, list[str]] = defaultdict(list)
    for line in last.splitlines():
        if line:
            instruction, _, rest = line.partition(" ")
            found[instruction].append(rest)
    return found


def _read_pairs(lines: list[str]) -> dict[str, str]:
    pairs = (shlex.split(line)[0].partition("=") for line in lines)
    return {key: value for key, _, value in pairs}


def test_it_is_up_to_date() -> None:
    """Run `make image-lock` after a change of the list."""
    assert containerfile.FILE.read_text(encoding="utf-8") == containerfile.render(read_contents())


def test_it_says_what_the_archive_says() -> None:
    contents = read_contents()
    given = {REVISION: "$REVISION", SOURCE: "$SOURCE"}
    config = build_config(contents, {**contents.labels, **given}, [])["config"]
    found = _read_instructions()
    environment = [f"{key}={value}" for key, value in _read_pairs(found["ENV"]).items()]
    assert {
        "User": found["USER"][0],
        "WorkingDir": found["WORKDIR"][0],
        "Entrypoint": json.loads(found["ENTRYPOINT"][0]),
        "Cmd": json.loads(found["CMD"][0]),
        "Env": environment,
        "ExposedPorts": {port: {} for port in found["EXPOSE"]},
        "Labels": _read_pairs(found["LABEL"]),
    } == config


def test_its_files_are_those_that_make_image_puts_together() -> None:
    """The last stage has nothing of another image, and takes what `python -m image root` writes."""
    found = _read_instructions()
    assert found["FROM"] == ["scratch"]
    assert found["COPY"] == [
        "--from=build /image /",
        "--from=build --chown=65532:65532 /owned /var/lib/",
    ]
    assert not found["RUN"]
    assert "RUN python3.11 -m image root /image.tar" in containerfile.FILE.read_text("utf-8")


def test_the_build_is_given_what_it_needs() -> None:
    text = containerfile.FILE.read_text(encoding="utf-8")
    lines = re.findall(r"^COPY (?!--)(.*) \S+$", text, re.MULTILINE)
    copied = {name for line in lines for name in line.split()}
    assert copied == {"image", *PACKAGES, *containerfile.SOURCES}
    ignored = (REPOSITORY / ".dockerignore").read_text(encoding="utf-8").splitlines()
    assert ignored[0] == "*"
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    assert f"setuptools=={read_lock()['setuptools'].version}" in text
