"""Remote namespaces and the anchor in each: made when the first pod needs them."""

import asyncio
import logging
from collections import defaultdict
from contextlib import suppress

from provider.labels import HOME_NAMESPACE, make_hash
from provider.peering import Peering
from vkubelet.errors import RefusedError, RetryError
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import (
    AlreadyExistsError,
    ForbiddenError,
    NamespaceEndingError,
    NotFoundError,
)
from vkubelet.kube.objects import (
    CONFIG_MAPS,
    NAMESPACES,
    KubeObject,
    NamespacedName,
    build_controller_reference,
)

logger = logging.getLogger(__name__)

NAMESPACE_NAME_LENGTH = 63
BASELINE = "baseline"
PRIVILEGED = "privileged"
"""Levels of Pod Security."""

ANCHOR_NAME_PREFIX = "vkubelet-"
ANCHOR_LIFETIME_SECONDS = 60.0  # how long an anchor is believed to be there without a look


def build_namespace_name(template: str, namespace: str, peering: Peering) -> str:
    """
    Name the remote namespace of a home namespace.

    Too long a name is cut and gets a hash of the whole, so that two never meet.
    """
    name = template.format(
        namespace=namespace,
        home_cluster=peering.home_cluster,
        remote_cluster=peering.remote_cluster,
    )
    if len(name) <= NAMESPACE_NAME_LENGTH:
        return name
    digest = make_hash(name)
    return f"{name[: NAMESPACE_NAME_LENGTH - len(digest) - 1].rstrip('-')}-{digest}"


def build_namespace(
    name: str, home_namespace: str, peering: Peering, *, pod_security: str = BASELINE
) -> KubeObject:
    """
    Build the Namespace that pods of a home namespace are reflected into.

    Labels of the home namespace don't travel: they can't raise what Pod Security allows.
    """
    return {
        "apiVersion": NAMESPACES.api_version,
        "kind": NAMESPACES.kind,
        "metadata": {
            "name": name,
            "labels": {
                **peering.labels,
                "pod-security.kubernetes.io/enforce": pod_security,
            },
            "annotations": {HOME_NAMESPACE: home_namespace},
        },
    }


def home_namespace_of(namespace: KubeObject, peering: Peering) -> str | None:
    """Name the home namespace that a remote one was made for; None if it's none that we made."""
    metadata = namespace["metadata"]
    if not peering.owns_labels(metadata.get("labels", {})):
        return None
    home_namespace: str | None = metadata.get("annotations", {}).get(HOME_NAMESPACE)
    return home_namespace


def build_anchor(namespace: str, peering: Peering) -> KubeObject:
    """
    Build the ConfigMap that controls the reflected pods of a namespace.

    Other home clusters may reflect into it, too, under the same name of the remote cluster: what
    its name ends with is made of the home cluster's UID.
    """
    return {
        "apiVersion": CONFIG_MAPS.api_version,
        "kind": CONFIG_MAPS.kind,
        "metadata": {
            "name": f"{ANCHOR_NAME_PREFIX}{peering.remote_cluster}-{make_hash(peering.home_uid)}",
            "namespace": namespace,
            "labels": peering.labels,
        },
        "data": {
            "README": "Controller of the pods that vkubelet reflected into this namespace;"
            " deleting it deletes them.",
        },
    }


class RemoteNamespaces:
    """Makes remote namespaces ready for pods, once each, and remembers their anchors."""

    def __init__(
        self,
        client: KubeClient,
        peering: Peering,
        *,
        template: str,
        adopt: bool,
        pod_security: str = BASELINE,
    ) -> None:
        """
        Say which; nothing is made yet.

        Args:
            client: To the remote cluster.
            peering: Whose namespaces they are.
            template: Makes their names.
            adopt: Whether one that isn't ours is used.
            pod_security: Level that is enforced in those that are made; others keep theirs.
        """
        self._client = client
        self._peering = peering
        self._template = template
        self._adopt = adopt
        self._pod_security = pod_security
        self._anchors: dict[str, tuple[KubeObject, float]] = {}
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def name(self, home_namespace: str) -> str:
        """Name the remote namespace of a home namespace."""
        return build_namespace_name(self._template, home_namespace, self._peering)

    async def ensure(self, home_namespace: str) -> KubeObject:
        """
        Make the remote namespace and its anchor if they are missing.

        Returns:
            The ownerReference that a pod there needs.

        Raises:
            RefusedError: If the namespace or the anchor isn't ours, or may not be made.
            RetryError: If the namespace is being deleted.
            KubeError: If the API server can't do it.
        """
        name = self.name(home_namespace)
        async with self._locks[name]:
            known = self._anchors.get(name)
            now = asyncio.get_running_loop().time()
            if known is not None and now - known[1] < ANCHOR_LIFETIME_SECONDS:
                return known[0]
            await self._ensure_namespace(name, home_namespace)
            reference = build_controller_reference(await self._ensure_anchor(name))
            self._anchors[name] = (reference, now)
            return reference

    def forget(self, remote_namespace: str) -> None:
        """Look afresh next time: something said that namespace or anchor are gone."""
        self._anchors.pop(remote_namespace, None)

    async def _ensure_namespace(self, name: str, home_namespace: str) -> None:
        try:
            namespace = await self._find_or_make_namespace(name, home_namespace)
        except ForbiddenError as error:
            raise RefusedError(
                "RemoteNamespaceForbidden",
                f"remote namespace {name} can't be read, or isn't there and can't be made:"
                f" {error.message}",
            ) from error
        metadata = namespace["metadata"]
        if metadata.get("deletionTimestamp"):
            raise RetryError(f"remote namespace {name} is being deleted")
        if not self._peering.owns_labels(metadata.get("labels", {})):
            if self._adopt:
                return
            raise RefusedError(
                "RemoteNamespaceNotOurs",
                f"remote namespace {name} exists and is not of this peering"
                " (--adopt-namespaces uses it all the same)",
            )
        owner = metadata.get("annotations", {}).get(HOME_NAMESPACE, home_namespace)
        if owner != home_namespace:
            raise RefusedError(
                "RemoteNamespaceTaken",
                f"remote namespace {name} already belongs to home namespace {owner}",
            )

    async def _find_or_make_namespace(self, name: str, home_namespace: str) -> KubeObject:
        key = NamespacedName("", name)
        with suppress(NotFoundError):
            return await self._client.get(NAMESPACES, key)
        body = build_namespace(name, home_namespace, self._peering, pod_security=self._pod_security)
        try:
            namespace = await self._client.create(NAMESPACES, body)
        except AlreadyExistsError:
            return await self._client.get(NAMESPACES, key)
        logger.info("%s: remote namespace created", name)
        return namespace

    async def _ensure_anchor(self, namespace: str) -> KubeObject:
        body = build_anchor(namespace, self._peering)
        key = NamespacedName(namespace, body["metadata"]["name"])
        try:
            anchor = await self._find_or_make_anchor(key, body)
        except NamespaceEndingError as error:
            raise RetryError(error.message) from error
        except ForbiddenError as error:
            raise RefusedError("RemoteObjectForbidden", error.message) from error
        metadata = anchor["metadata"]
        if metadata.get("deletionTimestamp"):
            raise RetryError(f"remote ConfigMap {key} is being deleted")
        if not self._peering.owns_labels(metadata.get("labels", {})):
            raise RefusedError(
                "RemoteAnchorNotOurs", f"remote ConfigMap {key} exists and is not of this peering"
            )
        return {**anchor, "apiVersion": CONFIG_MAPS.api_version, "kind": CONFIG_MAPS.kind}

    async def _find_or_make_anchor(self, key: NamespacedName, body: KubeObject) -> KubeObject:
        with suppress(NotFoundError):
            return await self._client.get(CONFIG_MAPS, key)
        try:
            return await self._client.create(CONFIG_MAPS, body, namespace=key.namespace)
        except AlreadyExistsError:
            return await self._client.get(CONFIG_MAPS, key)
        except NotFoundError as error:
            raise RetryError(f"remote namespace {key.namespace} is gone") from error
