"""Programs that are built beside Kubernetes' own."""

from pathlib import Path

import pytest

from tests.cluster.go_program import GoProgram, ProgramMissingError

PROGRAM = GoProgram("tool", "1.2.3", "example.com/tool", "example.com/tool/cmd/tool")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VKUBELET_CACHE", str(tmp_path))
    return tmp_path


def test_what_is_missing_is_named_with_what_to_do() -> None:
    with pytest.raises(ProgramMissingError, match=r"tool 1\.2\.3 isn't built yet: run `make bin"):
        PROGRAM.locate()


def test_what_is_there_is_found_and_not_built_again(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = PROGRAM._folder
    assert cache in folder.parents
    folder.mkdir(parents=True)
    (folder / "tool").touch(mode=0o755)
    assert PROGRAM.locate() == folder / "tool"
    PROGRAM.make()
    assert capsys.readouterr().out == f"tool 1.2.3:\n  {folder / 'tool'}\n"


def test_package_of_the_module_is_the_tool() -> None:
    assert PROGRAM.build_go_mod() == (
        "module vkubelet.test/tool\n\ngo 1.26.0\n\ntool example.com/tool/cmd/tool\n\n"
        "require example.com/tool v1.2.3\n"
    )


def test_source_of_our_own_is_the_tool() -> None:
    program = GoProgram("tool", "1.2.3", "example.com/library", source=Path("main.go"))
    assert "\ntool vkubelet.test/tool\n\nrequire example.com/library v1.2.3\n" in (
        program.build_go_mod()
    )
