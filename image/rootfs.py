"""The files of a layer: collected from several sources, written out the same way each time."""

import io
import stat
import tarfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

MERGED = ("bin", "sbin", "lib", "lib64")
"""Folders of the root that are links into usr, as in every Debian system today."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    A file, folder or link.

    Attributes:
        kind: As in a tar: REGTYPE, DIRTYPE or SYMTYPE.
        mode: Permissions.
        data: Of a file.
        target: Of a link.
        owner: UID and GID.
    """

    kind: bytes
    mode: int
    data: bytes = b""
    target: str = ""
    owner: tuple[int, int] = (0, 0)


class Layer:
    """Files by path, relative to the root."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._entries

    @property
    def entries(self) -> Mapping[str, Entry]:
        """What is in it, by path."""
        return self._entries

    @property
    def size_bytes(self) -> int:
        """How large its files are."""
        return sum(len(entry.data) for entry in self._entries.values())

    def paths(self) -> list[str]:
        """List all paths, in order."""
        return sorted(self._entries)

    def read(self, path: str) -> bytes:
        """Read a file."""
        return self._entries[path].data

    def add_file(self, path: str, data: bytes, *, mode: int = 0o644) -> None:
        """Add a file."""
        self._add(path, Entry(kind=tarfile.REGTYPE, mode=mode, data=data))

    def add_link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self._add(path, Entry(kind=tarfile.SYMTYPE, mode=0o777, target=target))

    def add_folder(self, path: str, *, mode: int = 0o755, owner: tuple[int, int] = (0, 0)) -> None:
        """Add a folder."""
        self._add(path, Entry(kind=tarfile.DIRTYPE, mode=mode, owner=owner))

    def add_member(self, member: tarfile.TarInfo, data: bytes, keep: Callable[[str], bool]) -> None:
        """
        Add a member of a tar, if it's wanted; hard links become copies of what came before.

        Args:
            member: Of a Debian package.
            data: Its contents.
            keep: Whether a path is wanted; folders come with their files.
        """
        path = normalize(member.name)
        if not path or member.isdir() or not keep(path):
            return
        if member.issym():
            self.add_link(path, member.linkname)
        elif member.islnk():
            self._add(path, self._entries[normalize(member.linkname)])
        elif member.isreg():
            self.add_file(path, data, mode=stat.S_IMODE(member.mode) & 0o755)

    def add_all(self, other: "Layer") -> None:
        """Add all of another layer, above this one."""
        self._entries |= other.entries

    def _add(self, path: str, entry: Entry) -> None:
        for parent in reversed(PurePosixPath(path).parents):
            if str(parent) not in (".", *self._entries):
                self._entries[str(parent)] = Entry(kind=tarfile.DIRTYPE, mode=0o755)
        self._entries[path] = entry

    def as_tar(self) -> bytes:
        """Write a tar that is always the same for the same files: in order, times 0."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in self.paths():
                entry = self._entries[path]
                info = tarfile.TarInfo(path)
                info.type, info.mode, info.linkname = entry.kind, entry.mode, entry.target
                info.uid, info.gid = entry.owner
                info.size = len(entry.data)
                tar.addfile(info, io.BytesIO(entry.data))
        return buffer.getvalue()

    def extract(self, folder: Path) -> None:
        """Write all of it into a folder, with the permissions that this needs."""
        for path in self.paths():
            entry, target = self._entries[path], folder / path
            if entry.kind == tarfile.DIRTYPE:
                target.mkdir(parents=True, exist_ok=True)
            elif entry.kind == tarfile.SYMTYPE:
                target.symlink_to(entry.target)
            else:
                target.write_bytes(entry.data)
                target.chmod(entry.mode | stat.S_IRUSR | stat.S_IWUSR)


def normalize(name: str) -> str:
    """Make a tar's name relative to the root, with bin and lib under usr."""
    parts = PurePosixPath(name.lstrip("./")).parts
    if parts and parts[0] in MERGED:
        parts = ("usr", *parts)
    return "/".join(parts)


def add_skeleton(layer: Layer, owner: tuple[int, int], workdir: str) -> None:
    """Add what every system has: merged folders, users, temporary folders."""
    uid, gid = owner
    for name in MERGED:
        layer.add_folder(f"usr/{name}")
        layer.add_link(name, f"usr/{name}")
    for name in ("dev", "proc", "run", "sys"):
        layer.add_folder(name)
    layer.add_folder("tmp", mode=0o1777)
    home = f"{uid}:{gid}::{workdir}:/usr/sbin/nologin"
    layer.add_file(
        "etc/passwd", f"root:x:0:0:root:/root:/usr/sbin/nologin\nvkubelet:x:{home}\n".encode()
    )
    layer.add_file("etc/group", f"root:x:0:\nvkubelet:x:{gid}:\n".encode())
    layer.add_file("etc/nsswitch.conf", b"passwd: files\ngroup: files\nhosts: files dns\n")
    layer.add_folder(workdir.lstrip("/"), mode=0o700, owner=owner)


def bundle_certificates(files: Mapping[str, bytes]) -> bytes:
    """Join the certificate authorities of Debian's package to the bundle that its script makes."""
    return b"".join(files[path].rstrip(b"\n") + b"\n" for path in sorted(files))


def find_authorities(layer: Layer) -> Iterator[str]:
    """Yield the paths of the certificate authorities."""
    for path in layer.paths():
        if path.startswith("usr/share/ca-certificates/") and path.endswith(".crt"):
            yield path
