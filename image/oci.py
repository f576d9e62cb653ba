"""OCI image layouts: layers, configuration, manifest, index; in one tar."""

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from image.contents import Contents
from image.debian import ARCHITECTURE

LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
EPOCH = "1970-01-01T00:00:00Z"
_LEVEL = 6


@dataclass(frozen=True, slots=True)
class Packed:
    """
    An archive.

    Attributes:
        archive: The tar.
        digest: Of the image's manifest.
    """

    archive: bytes
    digest: str


class _Blobs:
    """Blobs by their path in the layout."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    def add(self, kind: str, data: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(data).hexdigest()
        self.files[f"blobs/sha256/{digest}"] = data
        return {"mediaType": kind, "digest": f"sha256:{digest}", "size": len(data)}


def build_config(
    contents: Contents, labels: Mapping[str, str], diff_ids: Sequence[str]
) -> dict[str, Any]:
    """Build the image's configuration."""
    return {
        "architecture": ARCHITECTURE,
        "os": "linux",
        "created": EPOCH,
        "config": {
            "User": contents.user,
            "WorkingDir": contents.workdir,
            "Entrypoint": list(contents.entrypoint),
            "Cmd": list(contents.command),
            "Env": [f"{key}={value}" for key, value in sorted(contents.environment.items())],
            "ExposedPorts": {port: {} for port in contents.ports},
            "Labels": dict(labels),
        },
        "rootfs": {"type": "layers", "diff_ids": list(diff_ids)},
        "history": [{"created": EPOCH, "created_by": "make image"} for _ in diff_ids],
    }


def build_archive(contents: Contents, labels: Mapping[str, str], layers: Sequence[bytes]) -> Packed:
    """
    Build the archive that `ctr images import`, `podman load` and `skopeo` take.

    Args:
        contents: The list.
        labels: Of the image.
        layers: Tars, the lowest first.
    """
    blobs = _Blobs()
    stored = [blobs.add(LAYER, gzip.compress(layer, _LEVEL, mtime=0)) for layer in layers]
    diff_ids = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]
    config = blobs.add(CONFIG, _encode(build_config(contents, labels, diff_ids)))
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": config,
        "layers": stored,
        "annotations": dict(labels),
    }
    described = blobs.add(MANIFEST, _encode(manifest))
    digest: str = described["digest"]
    described["platform"] = {"architecture": ARCHITECTURE, "os": "linux"}
    described["annotations"] = {
        "io.containerd.image.name": f"docker.io/library/{contents.name}:{contents.version}",
        "org.opencontainers.image.ref.name": contents.version,
    }
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [described]}
    files = {
        "oci-layout": _encode({"imageLayoutVersion": "1.0.0"}),
        "index.json": _encode(index),
        **dict(sorted(blobs.files.items())),
    }
    return Packed(_tar(files), digest)


def _tar(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path, data in files.items():
            info = tarfile.TarInfo(path)
            info.size, info.mode = len(data), 0o644
            tar.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def _encode(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
