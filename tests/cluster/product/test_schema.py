"""The tables of what becomes of fields know all that the API server's pods have, however deep."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from provider.translation.fields import FIELDS_BY_TYPE, Treatment
from provider.translation.nested_fields import NESTED_FIELDS
from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster

STAYS = (Treatment.REFUSED, Treatment.REMOVED)


async def test_every_field_has_a_rule(remote: Cluster) -> None:
    answer = (await remote.kubectl("get", "--raw", "/openapi/v3/api/v1")).json()
    schemas: dict[str, Any] = answer["components"]["schemas"]
    unknown: list[str] = []
    core = "io.k8s.api.core.v1."
    todo, seen = [f"{core}PodSpec", f"{core}EphemeralContainer"], set[str]()
    while todo:
        path = todo.pop()
        properties: dict[str, Any] = schemas[path].get("properties", {})
        if path in seen or not properties:
            continue
        seen.add(path)
        kind = path.rpartition(".")[2]
        rules = FIELDS_BY_TYPE.get(kind, {})
        known = rules or NESTED_FIELDS.get(kind, ())
        for field, schema in properties.items():
            if field not in known:
                unknown.append(f"{kind}.{field}")
            elif field not in rules or rules[field].treatment not in STAYS:
                todo += find_references(schema)
    assert unknown == [], "add them to the tables in provider/translation"
    assert {path.rpartition(".")[2] for path in seen} >= FIELDS_BY_TYPE.keys()
    assert len(seen) > 70


def find_references(schema: object) -> Iterator[str]:
    """Yield the types that a schema names."""
    if isinstance(schema, Mapping):
        if "$ref" in schema:
            yield schema["$ref"].rpartition("/")[2]
        for value in schema.values():
            yield from find_references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from find_references(item)
