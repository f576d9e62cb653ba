"""
The first process of a real node: `python node_init.py FOLDER KUBELET_FOLDER RUNTIME_FOLDER`.

It starts in new mount, network and pid namespaces, and gives the node folders of its own in the
place of /var/lib, /var/log and /run. Then it writes its pid (as seen outside) into FOLDER/pid, and
reaps what is left to it. All processes of the node end with it, and all mounts, links, iptables
rules and network sysctls with them. It needs nothing but the standard library.
"""

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path


def _run(*argv: str | Path) -> None:
    subprocess.run(argv, check=True)


def _set_up(folder: Path, kubelet: Path, runtime: Path) -> None:
    # What the kubelet mounts must reach containerd, and nothing may reach the machine.
    _run("mount", "--make-rprivate", "/")
    _run("mount", "--make-rshared", "/")
    _run("mount", "-t", "proc", "proc", "/proc")
    for name, programs in (("kubelet", kubelet), ("runtime", runtime)):
        target = folder / "lib" / "node" / "bin" / name
        target.mkdir(parents=True)
        _run("mount", "--bind", programs, target)
    (folder / "log").mkdir()
    _run("mount", "--bind", folder / "log", "/var/log")
    _run("mount", "--rbind", folder / "lib", "/var/lib")
    _run("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    _run("ip", "link", "set", "lo", "up")


def main(folder: Path, kubelet: Path, runtime: Path) -> None:
    """Set the node up and wait for its end."""
    pid = str(Path("/proc/self").readlink())  # of the mount from outside: our number there
    state = os.open(folder, os.O_RDONLY)  # the folder itself may get hidden
    _set_up(folder, kubelet, runtime)
    signals = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with open(
        "pid.tmp", "w", opener=lambda name, flags: os.open(name, flags, dir_fd=state)
    ) as file:
        file.write(pid)
    os.rename("pid.tmp", "pid", src_dir_fd=state, dst_dir_fd=state)
    while signal.sigwait(signals) == signal.SIGCHLD:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
