"""The page of what becomes of fields is what the translation does."""

from tests.docs.pod_translation_page import PAGE, render


def test_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == render()
