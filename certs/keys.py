"""Private keys, and the private files that keep them."""

import hashlib
import os
import re
import tempfile
from pathlib import Path
from typing import Final

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from certs.errors import CertificateError

KEY_HEADER: Final = b"-----BEGIN PRIVATE KEY-----"
"""First line of a key as we write it."""

_PLAIN_NAME: Final = re.compile(r"[a-z0-9]([a-z0-9.-]{0,198}[a-z0-9])?")
"""Names that are file names as they are; room is left below the 255 bytes of a file name."""


def generate_key() -> ec.EllipticCurvePrivateKey:
    """Make a new ECDSA key on P-256."""
    return ec.generate_private_key(ec.SECP256R1())


def serialize_key(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Write a key as unencrypted PEM (PKCS #8)."""
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def parse_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """
    Read an ECDSA key from PEM; text and other blocks around it don't matter.

    Raises:
        CertificateError: If there is none.
    """
    begin = pem.find(KEY_HEADER)
    if begin < 0:
        raise CertificateError("holds no private key")
    try:
        key = serialization.load_pem_private_key(pem[begin:], password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        # The library's text may quote bytes of the key.
        raise CertificateError("holds a private key that can't be read") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise CertificateError("holds a private key that isn't ECDSA")
    return key


def build_file_stem(node_name: str) -> str:
    """
    Make a file name, without suffix, for a node of any name.

    Names that can't be one as they are get a hash behind an underscore, which no plain name has.
    """
    if _PLAIN_NAME.fullmatch(node_name):
        return node_name
    readable = re.sub(r"[^a-z0-9.-]", "-", node_name[:150])
    return f"{readable}_{hashlib.sha256(node_name.encode()).hexdigest()[:32]}"


def write_private_file(path: Path, data: bytes) -> None:
    """
    Replace a file as a whole: readable by its owner only, and on the disk when this returns.

    Missing folders are made, for their owner only.

    Raises:
        CertificateError: Names the file and what the system said.
    """
    try:
        _make_private_folder(path.parent)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
        _sync_folder(path.parent)
    except OSError as error:
        raise CertificateError(f"{path}: can't be written: {error.strerror or error}") from error


def _make_private_folder(folder: Path) -> None:
    if folder.is_dir():
        return
    _make_private_folder(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
