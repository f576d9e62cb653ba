"""Writes docs/pod-translation.md: `python -m tests.docs.pod_translation_page`."""

from pathlib import Path

from provider.translation.fields import FIELDS_BY_TYPE, FieldRule
from provider.translation.nested_fields import NESTED_FIELDS

PAGE = Path(__file__).parents[2] / "docs" / "pod-translation.md"

HEAD = """# What becomes of a pod's fields

Made from the tables that the translation goes by (`fields.py` and `nested_fields.py` in
`provider/translation/`), for Kubernetes 1.37. A field that isn't here, such as one that is newer,
travels as it is. *removed*: left out of the remote pod; where a user may miss it, an event on the
home pod says so. *refused*: the pod stays Pending, its status and an event say why.
[pods.md](pods.md) tells the rest.
"""


NESTED_HEAD = """
## Further down

Fields of these types go with what holds them, as its rule says.

| type | fields |
|---|---|
"""


def render() -> str:
    """Render the page."""
    parts = [HEAD]
    types: dict[int, list[str]] = {}
    for name, table in FIELDS_BY_TYPE.items():
        types.setdefault(id(table), []).append(name)
    for names in types.values():
        table = FIELDS_BY_TYPE[names[0]]
        parts.append(f"\n## {', '.join(names)}\n\n| field | | |\n|---|---|---|\n")
        parts += [_render_row(field, table[field]) for field in sorted(table, key=str.lower)]
    parts.append(NESTED_HEAD)
    parts += [_render_nested(kind) for kind in sorted(NESTED_FIELDS, key=str.lower)]
    return "".join(parts)


def _render_row(field: str, rule: FieldRule) -> str:
    return f"| `{field}` | {rule.treatment.value} | {rule.why} |\n"


def _render_nested(kind: str) -> str:
    names = ", ".join(f"`{name}`" for name in NESTED_FIELDS[kind])
    return f"| {kind} | {names} |\n"


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
