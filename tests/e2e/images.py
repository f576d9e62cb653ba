"""Container images without a registry: OCI layouts made of a few files of this machine."""

import hashlib
import io
import json
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_LAYER = "application/vnd.oci.image.layer.v1.tar"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_INDEX = "application/vnd.oci.image.index.v1+json"
_FOLDERS = ("bin", "dev", "etc", "proc", "root", "sys", "tmp", "var")


class ImageFiles:
    """The files of an image's only layer; times and owners are 0, so that it's always the same."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._buffer, mode="w")  # noqa: SIM115 - closed when it is built
        for folder in _FOLDERS:
            self._add(folder, tarfile.DIRTYPE, mode=0o1777 if folder == "tmp" else 0o755)

    def _add(self, name: str, kind: bytes, *, mode: int, data: bytes = b"", link: str = "") -> None:
        info = tarfile.TarInfo(name)
        info.type, info.mode, info.size, info.linkname = kind, mode, len(data), link
        self._tar.addfile(info, io.BytesIO(data))

    def add_file(self, name: str, data: bytes, *, mode: int = 0o644) -> None:
        """Add a regular file."""
        self._add(name, tarfile.REGTYPE, mode=mode, data=data)

    def add_link(self, name: str, target: str) -> None:
        """Add a symbolic link."""
        self._add(name, tarfile.SYMTYPE, mode=0o777, link=target)

    def read(self) -> bytes:
        """Return the layer."""
        self._tar.close()
        return self._buffer.getvalue()


def build_pause_layer(pause: Path) -> bytes:
    """Build the layer of a sandbox image."""
    files = ImageFiles()
    files.add_file("pause", pause.read_bytes(), mode=0o755)
    return files.read()


def build_busybox_layer(busybox: Path) -> bytes:
    """Build a layer with busybox by all its names."""
    names = subprocess.run(
        [busybox, "--list"], check=True, capture_output=True, text=True
    ).stdout.split()
    files = ImageFiles()
    files.add_file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\n")
    files.add_file("etc/group", b"root:x:0:\n")
    files.add_file("bin/busybox", busybox.read_bytes(), mode=0o755)
    for name in sorted(set(names) - {"busybox"}):
        files.add_link(f"bin/{name}", "busybox")
    return files.read()


def write_image(
    target: Path, name: str, layer: bytes, command: Sequence[str], machine: str
) -> None:
    """
    Write an OCI layout that `ctr images import` takes.

    Args:
        target: The tar file.
        name: The image's name, with registry and tag.
        layer: A tar.
        command: What it runs by default.
        machine: Its architecture, by Go's name.
    """
    blobs: dict[str, bytes] = {}

    def store(kind: str, data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = data
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}

    stored = store(_LAYER, layer)
    config = {
        "architecture": machine,
        "os": "linux",
        "config": {"Cmd": list(command), "Env": ["PATH=/bin"]},
        "rootfs": {"type": "layers", "diff_ids": [stored["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": _MANIFEST,
        "config": store(_CONFIG, _encode(config)),
        "layers": [stored],
    }
    described = store(_MANIFEST, _encode(manifest))
    described["annotations"] = {"io.containerd.image.name": name}
    index = {"schemaVersion": 2, "mediaType": _INDEX, "manifests": [described]}
    files = {
        "oci-layout": _encode({"imageLayoutVersion": "1.0.0"}),
        "index.json": _encode(index),
        **blobs,
    }
    with tarfile.open(target, "w") as tar:
        for path, data in files.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))


def _encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
