"""Files that hold credentials: read with limits, confined to a folder, noticed when they change."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from vkubelet.kube.errors import AccessError

MAX_FILE_BYTES = 4 * 1024 * 1024
"""A kubeconfig or credential is some KiB; more is a mistake, or an attempt to fill our memory."""

SERVICE_ACCOUNT_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")

Stamp: TypeAlias = tuple[int, int, int, int] | None
"""What tells that a file has changed: device, inode, time, size; None: not there."""


def take_stamp(path: Path) -> Stamp:
    """Stamp of what the path leads to now; a Secret mount that swaps its links changes it."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def unchanged(stamps: Mapping[Path, Stamp]) -> bool:
    """Whether all files are as they were."""
    return all(take_stamp(path) == stamp for path, stamp in stamps.items())


class FileReader:
    """
    Reads the files of one kubeconfig.

    Attributes:
        stamps: Every file that was read or found missing, as it was just before.
    """

    def __init__(self) -> None:
        self.stamps: dict[Path, Stamp] = {}

    def watch(self, path: Path) -> None:
        """Remember what a path leads to, without reading it."""
        self.stamps[path] = take_stamp(path)

    def read(self, path: Path, what: str) -> bytes:
        """
        Read a file.

        Raises:
            AccessError: If it isn't a readable regular file of a sane size.
        """
        self.watch(path)
        try:
            # Not blocking: opening a named pipe would wait for a writer for ever.
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise AccessError(f"{what}: {path} isn't a regular file")
                content = file.read(MAX_FILE_BYTES + 1)
        except OSError as error:
            raise AccessError(f"{what}: {path}: {error.strerror or error}") from error
        if len(content) > MAX_FILE_BYTES:
            raise AccessError(f"{what}: {path} is larger than {MAX_FILE_BYTES} bytes")
        return content


def check_inside(path: Path, folder: Path, what: str) -> Path:
    """
    Resolve a file reference that must not leave the folder of its kubeconfig.

    Links are followed first, so that a Secret mount (links into a hidden folder beside) passes and
    a link that leads elsewhere doesn't. The root folder holds everything, so nothing counts as
    inside it; our own service account's files are never given away.

    Raises:
        AccessError: If it does leave.
    """
    try:
        resolved, inside = path.resolve(), folder.resolve()
        own_account = SERVICE_ACCOUNT_FOLDER.resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise AccessError(f"{what}: {path}: {error}") from error
    if (
        inside == Path(inside.anchor)
        or not resolved.is_relative_to(inside)
        or resolved.is_relative_to(own_account)
    ):
        raise AccessError(
            f"{what} {path} is outside the kubeconfig's own folder, which isn't allowed"
        )
    return resolved
