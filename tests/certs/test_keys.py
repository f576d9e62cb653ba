"""Keys, file names of nodes, and private files."""

import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from certs.errors import CertificateError
from certs.keys import (
    build_file_stem,
    generate_key,
    parse_key,
    serialize_key,
    write_private_file,
)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_key_survives_pem() -> None:
    key = generate_key()
    assert isinstance(key.curve, ec.SECP256R1)
    assert parse_key(b"text before\n" + serialize_key(key)).public_key() == key.public_key()


@pytest.mark.parametrize(
    ("pem", "problem"),
    [
        (b"", "no private key"),
        (b"-----BEGIN PRIVATE KEY-----\nbm8=\n-----END PRIVATE KEY-----\n", "can't be read"),
        (b"-----BEGIN PRIVATE KEY-----\ncut", "can't be read"),
    ],
)
def test_broken_keys(pem: bytes, problem: str) -> None:
    with pytest.raises(CertificateError, match=problem):
        parse_key(pem)


def test_other_kind_of_key() -> None:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    with pytest.raises(CertificateError, match="isn't ECDSA"):
        parse_key(pem)


@pytest.mark.parametrize("name", ["a", "node-1.example.com", "n" * 200])
def test_plain_names_stay(name: str) -> None:
    assert build_file_stem(name) == name


@pytest.mark.parametrize(
    "name", ["n" * 201, "n" * 253, "../../etc/passwd", "UP", ".", "-x", "ü", ""]
)
def test_other_names_are_safe(name: str) -> None:
    stem = build_file_stem(name)
    assert "/" not in stem
    assert len(f".{stem}.pem.tmp".encode()) < 255
    assert stem != name
    assert build_file_stem(name) == stem


def test_long_names_differ() -> None:
    assert build_file_stem("n" * 240 + "a") != build_file_stem("n" * 240 + "b")


def test_private_file(tmp_path: Path) -> None:
    path = tmp_path / "data" / "issued" / "node.pem"
    write_private_file(path, b"one")
    write_private_file(path, b"two")
    assert path.read_bytes() == b"two"
    assert mode(path) == 0o600
    assert mode(path.parent) == mode(path.parent.parent) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["node.pem"]


def test_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file, no folder")
    path = tmp_path / "data" / "node.pem"
    with pytest.raises(CertificateError, match=r"data/node.pem: can't be written: "):
        write_private_file(path, b"one")


def test_failed_write_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "node.pem"
    path.mkdir()
    with pytest.raises(CertificateError, match=r"node.pem: can't be written: Is a directory"):
        write_private_file(path, b"one")
    assert [entry.name for entry in tmp_path.iterdir()] == ["node.pem"]
