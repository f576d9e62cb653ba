"""Requirements with hashes."""

import pytest

from image.requirements import Pin, normalize, parse_pins, read_lock, read_pins

TEXT = """\
# by a tool
zope-interface==1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
    # via x
A_b.C==2.0rc1 ; python_version >= "3.11" \\
    --hash=sha256:cc
"""


@pytest.mark.parametrize(
    ("name", "normal"), [("PyYAML", "pyyaml"), ("a_b.C", "a-b-c"), ("a--b", "a-b")]
)
def test_names(name: str, normal: str) -> None:
    assert normalize(name) == normal


def test_entries_with_their_hashes() -> None:
    assert parse_pins(TEXT) == {
        "zope-interface": Pin(
            "zope-interface",
            "1.0",
            "zope-interface==1.0 \\\n    --hash=sha256:aa \\\n    --hash=sha256:bb",
        ),
        "a-b-c": Pin(
            "a-b-c", "2.0rc1", 'A_b.C==2.0rc1 ; python_version >= "3.11" \\\n    --hash=sha256:cc'
        ),
    }


def test_what_the_program_needs_is_as_it_is_tested() -> None:
    locked = read_lock()
    pins = read_pins()
    assert {"aiohttp", "msgspec", "pydantic"} <= {pin.name for pin in pins}
    for pin in pins:
        assert locked[pin.name].version == pin.version
        assert "--hash=sha256:" in pin.text
