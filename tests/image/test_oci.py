"""OCI image layouts."""

import gzip
import hashlib
import io
import json
import tarfile
from typing import Any

from image.contents import read_contents
from image.oci import build_archive

LABELS = {"org.opencontainers.image.version": "1"}
LAYERS = [b"lower", b"upper"]


def _read(archive: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        found = {}
        for member in tar:
            opened = tar.extractfile(member)
            assert opened is not None
            assert (member.mtime, member.uid, member.gid) == (0, 0, 0)
            found[member.name] = opened.read()
        return found


def _follow(files: dict[str, bytes], descriptor: dict[str, Any]) -> bytes:
    data = files[f"blobs/{descriptor['digest'].replace(':', '/')}"]
    assert descriptor["size"] == len(data)
    assert descriptor["digest"] == f"sha256:{hashlib.sha256(data).hexdigest()}"
    return data


def test_layout() -> None:
    contents = read_contents()
    packed = build_archive(contents, LABELS, LAYERS)
    files = _read(packed.archive)
    assert json.loads(files["oci-layout"]) == {"imageLayoutVersion": "1.0.0"}
    (described,) = json.loads(files["index.json"])["manifests"]
    assert described["digest"] == packed.digest
    name = described["annotations"]["io.containerd.image.name"]
    assert name == f"docker.io/library/vkubelet:{contents.version}"
    manifest = json.loads(_follow(files, described))
    assert manifest["annotations"] == LABELS
    assert [gzip.decompress(_follow(files, layer)) for layer in manifest["layers"]] == LAYERS
    config = json.loads(_follow(files, manifest["config"]))
    digests = [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in LAYERS]
    assert config["rootfs"] == {"type": "layers", "diff_ids": digests}
    assert (config["os"], config["architecture"]) == ("linux", "amd64")
    assert config["config"]["User"] == contents.user
    assert config["config"]["Labels"] == LABELS
    assert len(files) == 2 + 2 + len(LAYERS)


def test_it_is_always_the_same() -> None:
    contents = read_contents()
    first, second = (build_archive(contents, LABELS, LAYERS) for _ in range(2))
    assert first == second
    assert build_archive(contents, LABELS, [b"lower"]).digest != first.digest
