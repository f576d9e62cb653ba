"""How fields are called outside."""

from typing import Annotated

import pytest
from pydantic import ValidationError

from provider.flags import Flag, Section


class Example(Section):
    """A section."""

    some_name: Annotated[str, Flag("--some-name", "NAME")] = ""
    """Its help."""


def test_a_flag_has_a_variable() -> None:
    assert Flag("--remote-cluster").variable == "VKUBELET_REMOTE_CLUSTER"


def test_keys_are_in_camel_case_and_others_are_refused() -> None:
    assert Example.model_validate({"someName": "x"}).some_name == "x"
    with pytest.raises(ValidationError):
        Example.model_validate({"other": "x"})


def test_the_docstring_is_the_help() -> None:
    assert Example.model_fields["some_name"].description == "Its help."
