"""Bytecode of the image's own Python."""

import importlib.util
import marshal
from pathlib import Path

import pytest

from image import bytecode
from image.build import Files
from image.contents import Contents
from image.errors import ImageError

_UNCHECKED = 0b01  # PEP 552: by hash, and nobody looks at the source


def test_all_that_is_wanted_is_there(contents: Contents, files: Files) -> None:
    for layer in files.layers:
        sources = [path for path in layer.paths() if path.endswith(".py") and path[:5] == "usr/l"]
        expected = {
            str(Path(path).parent / "__pycache__" / f"{Path(path).stem}.cpython-311.pyc")
            for path in sources
            if not any(f"/{name}/" in path for name in contents.not_compiled)
        }
        assert {path for path in layer.paths() if path.endswith(".pyc")} == expected
        assert len(expected) > 100


def test_it_depends_on_nothing_but_sources(contents: Contents, files: Files) -> None:
    path = f"{contents.site_packages}/provider/__pycache__/cli.cpython-311.pyc"
    data = files.layers[1].read(path)
    assert int.from_bytes(data[4:8], "little") == _UNCHECKED
    if data[:4] == importlib.util.MAGIC_NUMBER:  # else ours can't read it
        code = marshal.loads(data[16:])
        assert code.co_filename == f"/{contents.site_packages}/provider/cli.py"


def test_what_can_not_be_compiled(contents: Contents, root: Path) -> None:
    folder = root / "broken"
    folder.mkdir()
    (folder / "module.py").write_text("def")
    with pytest.raises(ImageError, match=r"the bytecode can't be made: .*/broken/module\.py"):
        list(bytecode.compile_all(root, contents.python, "broken"))


def test_several_packages_are_skipped(contents: Contents, root: Path) -> None:
    for name in ("one", "two", "three"):
        (root / "some" / name).mkdir(parents=True)
        (root / "some" / name / "module.py").write_text("")
    found = bytecode.compile_all(root, contents.python, "some", skip=("one", "two"))
    assert [path for path, _ in found] == ["some/three/__pycache__/module.cpython-311.pyc"]
