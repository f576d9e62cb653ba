"""RBAC objects as the rights that they grant."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from provider.rights import Right


class Grant(NamedTuple):
    """A verb on a resource (`group/plural[/subresource]`); everywhere and of any name if empty."""

    verb: str
    resource: str
    namespace: str = ""
    name: str = ""


def read_grants(objects: Iterable[Mapping[str, Any]], account: str) -> set[Grant]:
    """Read what is granted to a service account by Roles and ClusterRoles among the objects."""
    known = list(objects)
    roles = {
        (found["kind"], found["metadata"].get("namespace", ""), found["metadata"]["name"]): found
        for found in known
        if found["kind"] in ("Role", "ClusterRole")
    }
    grants: set[Grant] = set()
    for binding in known:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        if all(subject["name"] != account for subject in binding.get("subjects") or ()):
            continue
        namespace = binding["metadata"].get("namespace", "")
        reference = binding["roleRef"]
        scope = namespace if reference["kind"] == "Role" else ""
        role = roles.get((reference["kind"], scope, reference["name"]))
        if role is not None:
            grants.update(_read_rules(role, namespace))
    return grants


def _read_rules(role: Mapping[str, Any], namespace: str) -> Iterator[Grant]:
    for rule in role["rules"]:
        for verb in rule["verbs"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for name in rule.get("resourceNames", [""]):
                        yield Grant(verb, f"{group}/{resource}", namespace, name)


def as_grants(rights: Iterable[Right]) -> set[Grant]:
    """Return the grants that rights need at least."""
    grants = set()
    for right in rights:
        plural = "/".join(filter(None, (right.resource.plural, right.subresource)))
        resource = f"{right.resource.group}/{plural}"
        grants.add(Grant(right.verb, resource, right.namespace, right.name))
    return grants
