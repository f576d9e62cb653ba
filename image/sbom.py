"""The list of what is inside, in CycloneDX's form."""

import json
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from image.contents import Contents
from image.debian import ARCHITECTURE, Package
from image.requirements import Pin

PATH = "usr/share/vkubelet/sbom.cdx.json"
"""Where it is in the image."""


def build_sbom(
    contents: Contents, packages: Iterable[Package], pins: Iterable[Pin]
) -> dict[str, Any]:
    """Build the list: Debian packages with their files' hashes, Python packages."""
    project = {
        "type": "application",
        "bom-ref": "vkubelet",
        "name": contents.name,
        "version": contents.version,
        "licenses": [{"license": {"id": "Apache-2.0"}}],
    }
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": project},
        "components": [
            *(_describe_debian(package, contents.release) for package in packages),
            *(_describe_python(pin) for pin in pins),
        ],
    }


def _describe_debian(package: Package, release: str) -> dict[str, Any]:
    version = quote(package.version, safe="")
    url = f"pkg:deb/debian/{package.name}@{version}?arch={ARCHITECTURE}&distro={release}"
    return {
        "type": "library",
        "bom-ref": url,
        "name": package.name,
        "version": package.version,
        "purl": url,
        "hashes": [{"alg": "SHA-256", "content": package.sha256}],
    }


def _describe_python(pin: Pin) -> dict[str, Any]:
    url = f"pkg:pypi/{pin.name}@{quote(pin.version, safe='')}"
    return {
        "type": "library",
        "bom-ref": url,
        "name": pin.name,
        "version": pin.version,
        "purl": url,
    }


def serialize(sbom: dict[str, Any]) -> bytes:
    """Write it as JSON."""
    return (json.dumps(sbom, indent=1, sort_keys=True) + "\n").encode()
