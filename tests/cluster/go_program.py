"""Programs that tests need beside Kubernetes' own: built once from a Go module, and cached."""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.binaries import build_cache_path, build_into_cache, report
from tests.cluster.gobuild import GoBuild


class ProgramMissingError(Exception):
    """A program isn't there yet."""

    def __init__(self, program: "GoProgram") -> None:
        super().__init__(program)
        self.program = program

    def __str__(self) -> str:
        return f"{self.program} isn't built yet: run `make binaries`"


@dataclass(frozen=True, slots=True)
class GoProgram:
    """
    A program.

    Attributes:
        name: What it's called.
        version: Of the module, without the "v".
        module: Where it comes from.
        package: Its main package; "" for `source`.
        source: A Go file that is the main package, and uses the module.
        go: The version of Go that the module is written for.
    """

    name: str
    version: str
    module: str
    package: str = ""
    source: Path | None = None
    go: str = "1.26.0"

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    @property
    def _folder(self) -> Path:
        return build_cache_path(self.version, self.name)

    def _is_there(self) -> bool:
        return os.access(self._folder / self.name, os.X_OK)

    def locate(self) -> Path:
        """
        Find the program; nothing is built.

        Raises:
            ProgramMissingError: If it isn't there.
        """
        if not self._is_there():
            raise ProgramMissingError(self)
        return self._folder / self.name

    def make(self) -> None:
        """
        Build it if it's missing, and print where it is.

        Raises:
            BuildError: If it can't be built.
        """
        if not self._is_there():
            what = f"{self}; from nothing this takes 2 minutes"
            build_into_cache(self._folder, what, self._is_there, self._build)
        print(f"{self}:\n  {self.locate()}")

    def build_go_mod(self) -> str:
        """Build the go.mod of the module that has the program as its tool."""
        lines = [f"module vkubelet.test/{self.name}", "", f"go {self.go}", ""]
        lines += [f"tool {self._main}", "", f"require {self.module} v{self.version}", ""]
        return "\n".join(lines)

    @property
    def _main(self) -> str:
        return self.package or f"vkubelet.test/{self.name}"

    def _build(self, folder: Path) -> Path:
        if self.source is not None:
            shutil.copy(self.source, folder)
        return GoBuild(folder, report, {self.name: self._main}).run(self.build_go_mod())
