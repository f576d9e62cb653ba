"""From the list to the files of the image, and to the archive."""

import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from image import bytecode, debian, requirements, revision, wheels
from image.contents import FOLDER, REPOSITORY, Contents
from image.debian import Package
from image.oci import build_archive
from image.rootfs import Layer, add_skeleton, bundle_certificates, find_authorities
from image.sbom import PATH as SBOM_PATH, build_sbom, serialize

BUNDLE = "etc/ssl/certs/ca-certificates.crt"
Report = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Files:
    """
    All that is in the image.

    Attributes:
        layers: The lowest first: Debian's part, which changes rarely, and the project's.
        sbom: What is listed in it.
    """

    layers: tuple[Layer, ...]
    sbom: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Built:
    """What came of it."""

    archive: Path
    sbom: Path
    packed_bytes: int
    unpacked_bytes: int
    digest: str


def collect(
    contents: Contents, packages: Sequence[Package], *, cache: Path, report: Report
) -> Files:
    """
    Collect the files of the image.

    Args:
        contents: The list.
        packages: Debian packages, as locked.
        cache: Where what is fetched is kept.
        report: Takes a line of progress.

    Raises:
        ImageError: If they can't be had.
    """
    report(f"fetching {len(packages)} Debian packages")
    files = debian.fetch(packages, cache)
    report("fetching Python packages")
    fetched = wheels.fetch(contents, cache)
    sbom = serialize(build_sbom(contents, packages, requirements.read_pins()))
    with tempfile.TemporaryDirectory(prefix="vkubelet-image-") as temporary:
        work = Path(temporary)
        report("building the project's wheel")
        project = wheels.build_project(work)
        base = build_base(contents, files)
        application = build_application(contents, [*fetched, project], sbom)
        report("compiling")
        root = work / "root"
        compile_layers(contents, base, application, root)
    return Files(layers=(base, application), sbom=sbom)


def compile_layers(contents: Contents, base: Layer, application: Layer, root: Path) -> None:
    """
    Add the bytecode to the layers.

    Args:
        contents: The list.
        base: Debian's part.
        application: The project's.
        root: Where the image is unpacked for it.
    """
    root.mkdir()
    base.extract(root)
    library = f"usr/lib/python{contents.python}"
    _add_all(base, bytecode.compile_all(root, contents.python, library))
    application.extract(root)
    compiled = bytecode.compile_all(
        root, contents.python, contents.site_packages, skip=contents.not_compiled
    )
    _add_all(application, compiled)


def _add_all(layer: Layer, files: Iterable[tuple[str, bytes]]) -> None:
    for path, data in files:
        layer.add_file(path, data)


def _matches(path: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def build_base(contents: Contents, files: Iterable[Path]) -> Layer:
    """Build the lower layer: Debian's part."""
    layer = Layer()
    add_skeleton(layer, contents.owner, contents.workdir)

    def keep(path: str) -> bool:
        return _matches(path, contents.kept) or not _matches(path, contents.excluded)

    for file in files:
        for member, data in debian.read_members(file):
            layer.add_member(member, data, keep)
    authorities = {path: layer.read(path) for path in find_authorities(layer)}
    layer.add_file(BUNDLE, bundle_certificates(authorities))
    return layer


def build_application(contents: Contents, packages: Iterable[Path], sbom: bytes) -> Layer:
    """Build the upper layer: Python packages, the project among them, and its program."""
    layer = Layer()
    for wheel in packages:
        for path, data in wheels.read_files(wheel):
            if not _matches(path, contents.python_excluded):
                layer.add_file(f"{contents.site_packages}/{path}", data)
    program = (FOLDER / "vkubelet").read_bytes()
    layer.add_file(contents.entrypoint[0].lstrip("/"), program, mode=0o755)
    layer.add_file(SBOM_PATH, sbom)
    return layer


def write(contents: Contents, files: Files, dist: Path) -> Built:
    """
    Write the archive, and the SBOM beside it.

    Args:
        contents: The list.
        files: What is in the image.
        dist: The folder that they go to.
    """
    layers = [layer.as_tar() for layer in files.layers]
    labels = {**contents.labels, **revision.read_labels(REPOSITORY)}
    packed = build_archive(contents, labels, layers)
    dist.mkdir(exist_ok=True)
    stem = f"{contents.name}-{contents.version}"
    archive = dist / f"{stem}-{debian.ARCHITECTURE}.oci.tar"
    archive.write_bytes(packed.archive)
    sbom = dist / f"{stem}.cdx.json"
    sbom.write_bytes(files.sbom)
    return Built(
        archive=archive,
        sbom=sbom,
        packed_bytes=len(packed.archive),
        unpacked_bytes=sum(layer.size_bytes for layer in files.layers),
        digest=packed.digest,
    )
