"""Each module has its tests in the mirrored place."""

from pathlib import Path

REPOSITORY = Path(__file__).parents[1]
PACKAGES = ("vkubelet", "certs", "provider", "image")

VALUES_ONLY = {
    "provider/__main__.py",  # a call
    "image/errors.py",
    "provider/errors.py",
    "provider/mapping/errors.py",
    "provider/mapping/groups.py",
    "certs/errors.py",
    "vkubelet/errors.py",
    "vkubelet/interface.py",
    "vkubelet/kube/errors.py",
    "vkubelet/streaming/errors.py",
    "vkubelet/streaming/spdy/events.py",
    "vkubelet/server/policy.py",
    "vkubelet/server/services.py",
}
"""Modules without behaviour of their own: errors, values, protocols."""


def _mirror(module: Path) -> Path:
    return REPOSITORY / "tests" / module.parent / f"test_{module.name}"


def _modules() -> list[Path]:
    return [
        file.relative_to(REPOSITORY)
        for package in PACKAGES
        for file in sorted((REPOSITORY / package).rglob("*.py"))
        if file.name != "__init__.py"
    ]


def test_each_module_has_its_tests_in_the_mirrored_place() -> None:
    missing = [
        str(module)
        for module in _modules()
        if str(module) not in VALUES_ONLY and not _mirror(module).exists()
    ]
    assert missing == []


def test_what_is_named_here_exists() -> None:
    assert {str(module) for module in _modules()} >= VALUES_ONLY


def test_every_folder_of_tests_is_a_package() -> None:
    folders = {file.parent for file in (REPOSITORY / "tests").rglob("*.py")}
    assert [str(folder) for folder in folders if not (folder / "__init__.py").exists()] == []
