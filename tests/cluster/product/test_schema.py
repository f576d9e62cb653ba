"""The tables of what becomes of fields know all that the API server's pods have."""

import pytest

from provider.translation.fields import FIELDS_BY_TYPE
from tests.cluster.cluster import Cluster

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("name", FIELDS_BY_TYPE)
async def test_every_field_has_a_rule(remote: Cluster, name: str) -> None:
    schema = (await remote.kubectl("get", "--raw", "/openapi/v3/api/v1")).json()
    properties = schema["components"]["schemas"][f"io.k8s.api.core.v1.{name}"]["properties"]
    assert len(properties) > 4
    assert sorted(properties.keys() - FIELDS_BY_TYPE[name].keys()) == [], (
        "add them to provider/translation/fields.py"
    )
