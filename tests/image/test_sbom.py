"""What is inside, in CycloneDX's form."""

import json

from image.contents import read_contents
from image.debian import Package
from image.requirements import Pin
from image.sbom import build_sbom, serialize


def test_components() -> None:
    contents = read_contents()
    package = Package("libx", "1:2+b1", "ab" * 32)
    sbom = build_sbom(contents, [package], [Pin("aiohttp", "3.0", "")])
    assert sbom["metadata"]["component"]["version"] == contents.version
    debian, python = sbom["components"]
    assert debian["purl"] == "pkg:deb/debian/libx@1%3A2%2Bb1?arch=amd64&distro=bookworm"
    assert debian["hashes"] == [{"alg": "SHA-256", "content": "ab" * 32}]
    assert python == {
        "type": "library",
        "bom-ref": "pkg:pypi/aiohttp@3.0",
        "name": "aiohttp",
        "version": "3.0",
        "purl": "pkg:pypi/aiohttp@3.0",
    }


def test_it_is_always_the_same() -> None:
    sbom = build_sbom(read_contents(), [], [])
    assert serialize(sbom) == serialize(dict(reversed(sbom.items())))
    assert json.loads(serialize(sbom)) == sbom
