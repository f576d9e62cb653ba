"""What a section of the configuration is made of, and how its fields are called outside."""

from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


@dataclass(frozen=True, slots=True)
class Flag:
    """How a field is called on the command line."""

    name: str
    metavar: str = ""

    @property
    def variable(self) -> str:
        """The environment variable of the same meaning."""
        return "VKUBELET_" + self.name.removeprefix("--").replace("-", "_").upper()


class Section(BaseModel):
    """A section of the tree: frozen, unknown keys refused."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        use_attribute_docstrings=True,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,
    )
