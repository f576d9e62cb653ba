"""The page of flags is what the configuration tree says."""

from tests.docs.configuration_page import PAGE, render


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render()
