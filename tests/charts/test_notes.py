"""What Helm prints after an installation: commands that are right, warnings where they belong."""

import shlex
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest

from provider.cli import build_parser
from tests.charts.rendering import HOME, LEAST, REMOTE, find, merge, render


def read_notes(chart: Path, values: dict[str, Any]) -> str:
    """Render the notes; Helm does that at installations only, so here they are an object's text."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(shutil.copytree(chart, Path(folder) / chart.name))
        notes = (copy / "templates" / "NOTES.txt").read_text()
        definition = f'{{{{- define "notes" -}}}}{notes}{{{{- end -}}}}'
        text = '{{ include "notes" . | toJson }}'
        template = copy / "templates" / "notes.yaml"
        template.write_text(f"{definition}\nkind: Notes\nmetadata: {{name: notes}}\ntext: {text}\n")
        objects = render(copy, values)
    return str(find(objects, "Notes", "notes")["text"])


def read_commands(notes: str) -> list[list[str]]:
    """Find the commands: indented, of our own or others' programs."""
    lines = notes.replace("\\\n", " ").splitlines()
    commands = [shlex.split(line) for line in lines if line.startswith("     ")]
    return [words for words in commands if words[0] in ("vkubelet", "kubectl", "helm")]


@pytest.mark.parametrize(
    ("chart", "values", "programs"),
    [
        (
            HOME,
            dict(LEAST),
            ["kubectl", "kubectl", "kubectl", "vkubelet", "kubectl", "kubectl", "helm"],
        ),
        (REMOTE, {"peering": "cloud"}, ["vkubelet", "kubectl", "kubectl"]),
    ],
)
def test_commands(chart: Path, values: dict[str, Any], programs: list[str]) -> None:
    commands = read_commands(read_notes(chart, values))
    assert [words[0] for words in commands] == programs
    for words in commands:
        if "vkubelet" in words:  # in the pod, too
            arguments = words[words.index("vkubelet") + 1 :]
            build_parser(arguments[0]).parse_args(arguments)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "Somebody has to approve the signing requests"),
        ({"admissionPolicy": {"enabled": False}}, "WARNING: without admissionPolicy.enabled"),
        (
            {"config": {"namespaces": {"names": ["*"]}}},
            "WARNING: as the reflected namespaces aren't",
        ),
        ({}, "`helm uninstall` leaves the virtual nodes"),
    ],
)
def test_words_at_home(more: dict[str, Any], said: str) -> None:
    assert said in read_notes(HOME, merge(LEAST, more))


def test_words_that_have_no_place() -> None:
    approves = {"config": {"kubelet": {"approveCsr": True}}, "teardownOnUninstall": True}
    notes = read_notes(HOME, merge(LEAST, approves))
    assert "WARNING" not in notes
    assert "approve" not in notes
    assert "leaves the virtual nodes" not in notes


def test_what_a_provider_has_to_pass_on() -> None:
    notes = read_notes(REMOTE, {"peering": "cloud", "namespaces": ["tenant"]})
    assert "--foreign-use=ignore" in notes
    assert "--adopt-namespaces" in notes
    uid = {"homeClusterUID": "0" * 36}
    assert "--adopt-namespaces" not in read_notes(
        REMOTE, {"peering": "cloud", "namespaces": ["tenant"], **uid}
    )
