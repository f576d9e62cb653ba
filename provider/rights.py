"""Which rights the process needs on either side, and asking an API server whether it has them."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import (
    CERTIFICATE_SIGNING_REQUESTS,
    CONFIG_MAPS,
    EVENTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SECRETS,
    SELF_SUBJECT_ACCESS_REVIEWS,
    SERVICE_ACCOUNTS,
    SUBJECT_ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    KubeObject,
    NamespacedName,
    Resource,
)

MAX_ASKED = 10
"""Rights that are asked for at once: each takes a connection meanwhile."""

SIGNERS = Resource("certificates.k8s.io", "v1", "signers", "Signer", namespaced=False)
"""Only a name in rights: who signs certificates."""

ANYTHING = Resource("*", "*", "*", "*")
"""Only in rights: objects of every kind."""


@dataclass(frozen=True, slots=True)
class Right:
    """A verb on a resource, in one namespace or in all of them."""

    verb: str
    resource: Resource
    subresource: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        resource = self.resource.plural + (f"/{self.subresource}" if self.subresource else "")
        group = f".{self.resource.group}" if self.resource.group else ""
        where = f" in namespace {self.namespace}" if self.namespace else ""
        name = f" {self.name}" if self.name else ""
        return f"{self.verb} {resource}{group}{name}{where}"


def _rights(
    verbs: str, resource: Resource, subresource: str = "", namespace: str = "", name: str = ""
) -> tuple[Right, ...]:
    return tuple(Right(verb, resource, subresource, namespace, name) for verb in verbs.split())


@dataclass(frozen=True, slots=True)
class Identity:
    """Somebody else's identity, as an API server knows it."""

    user: str
    groups: tuple[str, ...] = ()

    @classmethod
    def of_service_account(cls, account: NamespacedName) -> Self:
        """Return the identity of a service account."""
        return cls(
            f"system:serviceaccount:{account.namespace}:{account.name}",
            (
                "system:serviceaccounts",
                f"system:serviceaccounts:{account.namespace}",
                "system:authenticated",
            ),
        )


def home_rights(
    *,
    lock: NamespacedName,
    signer_name: str | None,
    approves: bool,
    watches_namespaces: bool,
    namespaces: Sequence[str] = (),
) -> tuple[Right, ...]:
    """
    List what the process needs in the home cluster.

    Args:
        lock: Its lock.
        signer_name: Who signs its certificates, None if they don't come by CSR.
        approves: Whether it approves its own CSRs.
        watches_namespaces: Whether it has to know the namespaces' labels.
        namespaces: Those that are reflected; none: they aren't known by name.
    """
    rights = (
        *_rights("get", NAMESPACES, name="kube-system"),
        *_rights("get list watch create patch delete", NODES),
        *_rights("patch", NODES, "status"),
        *_rights("get list watch delete", PODS),
        *_rights("patch", PODS, "status"),
        *_rights("create patch", EVENTS),
        *_rights("create patch", LEASES, namespace="kube-node-lease"),
        *_rights("create", LEASES, namespace=lock.namespace),
        *_rights("get update", LEASES, namespace=lock.namespace, name=lock.name),
        *_rights(
            "list watch",
            CONFIG_MAPS,
            namespace="kube-system",
            name="extension-apiserver-authentication",
        ),
        *_rights("create", TOKEN_REVIEWS),
        *_rights("create", SUBJECT_ACCESS_REVIEWS),
    )
    for namespace in namespaces or ("",):
        rights += _rights("create", PODS, "eviction", namespace)
    if watches_namespaces:
        rights += _rights("list watch", NAMESPACES)
    if signer_name is not None:
        rights += _rights("create list watch", CERTIFICATE_SIGNING_REQUESTS)
        if approves:
            rights += _rights("update", CERTIFICATE_SIGNING_REQUESTS, "approval")
            rights += _rights("approve", SIGNERS, name=signer_name)
    return rights


def dependent_rights(namespace: str, *, tokens: bool) -> tuple[Right, ...]:
    """
    List what is needed in a home namespace whose pods use ConfigMaps, Secrets or tokens.

    Args:
        namespace: Which one; "" means all.
        tokens: Whether pods get tokens of home.
    """
    rights = (
        *_rights("list watch", CONFIG_MAPS, namespace=namespace),
        *_rights("list watch", SECRETS, namespace=namespace),
    )
    if tokens:
        rights += _rights("create", SERVICE_ACCOUNTS, "token", namespace)
    return rights


def remote_rights(namespaces: Sequence[str] = ()) -> tuple[Right, ...]:
    """
    List what the process needs in the remote cluster.

    Args:
        namespaces: Where pods are followed; none: in the whole cluster.
    """
    rights = _rights("list watch", NODES)
    if not namespaces:
        rights += _rights("create", NAMESPACES)
    for namespace in namespaces or ("",):
        rights += (
            *_rights("get list watch create patch delete", PODS, namespace=namespace),
            *_rights("patch", PODS, "ephemeralcontainers", namespace),
            *_rights("patch", PODS, "resize", namespace),
            *_rights("get", PODS, "log", namespace),
            *_rights("get create", PODS, "exec", namespace),
            *_rights("get create", PODS, "attach", namespace),
            *_rights("get create", PODS, "portforward", namespace),
            *_rights("get", NAMESPACES, namespace=namespace, name=namespace),
            *_rights("get list watch create update delete", CONFIG_MAPS, namespace=namespace),
            *_rights("get list watch create update delete", SECRETS, namespace=namespace),
            *_rights("list watch", EVENTS, namespace=namespace),
        )
    return rights


def removal_rights_at_home(namespaces: Sequence[str] = ()) -> tuple[Right, ...]:
    """
    List what is needed at home to see that a namespace is gone, so that the remote one may go.

    Args:
        namespaces: Those that are reflected; none: they aren't known by name.
    """
    return tuple(Right("get", NAMESPACES, name=name) for name in namespaces or ("",))


def removal_rights_in_remote() -> tuple[Right, ...]:
    """List what is needed in the remote cluster to remove namespaces that are of no use."""
    return (*_rights("list delete", NAMESPACES), *_rights("list", ANYTHING))


def explain_missing(rights: Sequence[Right]) -> str:
    """Say which flag makes a missing right of the remote side unnecessary, "" if none does."""
    everywhere = (
        right.resource is PODS and right.verb in ("list", "watch") and not right.namespace
        for right in rights
    )
    if not any(everywhere):
        return ""
    return (
        "with --foreign-use ignore and --namespace NAME, rights on pods are needed in the remote"
        " namespaces only"
    )


async def find_missing_rights(
    client: KubeClient, rights: Sequence[Right], identity: Identity | None = None
) -> list[Right]:
    """
    Ask which of the rights an identity lacks.

    Args:
        client: Of the cluster.
        rights: What is asked for.
        identity: Whose; None: the client's own. Of others only who may review access may ask.

    Raises:
        KubeError: If the API server can't be asked.
    """
    slots = asyncio.Semaphore(MAX_ASKED)

    async def ask(right: Right) -> bool:
        attributes = {
            "verb": right.verb,
            "group": right.resource.group,
            "resource": right.resource.plural,
            "subresource": right.subresource,
            "namespace": right.namespace,
            "name": right.name,
        }
        spec: KubeObject = {
            "resourceAttributes": {key: text for key, text in attributes.items() if text}
        }
        kind = SELF_SUBJECT_ACCESS_REVIEWS
        if identity is not None:
            kind = SUBJECT_ACCESS_REVIEWS
            spec |= {"user": identity.user, "groups": list(identity.groups)}
        body = {"apiVersion": kind.api_version, "kind": kind.kind, "spec": spec}
        async with slots:
            review = await client.create(kind, body)
        return bool(review.get("status", {}).get("allowed"))

    try:
        async with asyncio.TaskGroup() as asking:
            answers = [(right, asking.create_task(ask(right))) for right in rights]
    except ExceptionGroup as group:
        raise group.exceptions[0] from group
    return [right for right, answer in answers if not answer.result()]
