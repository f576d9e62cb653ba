"""Our ConfigMaps and Secrets in the remote cluster, and the only place that writes them."""

import asyncio
import base64
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol, TypeAlias

from provider.labels import DEPENDENT, HOME_POD_UID
from provider.peering import Peering
from provider.reflection.content import RESOURCES, Content, build_copy, decode_copy
from vkubelet.errors import RefusedError, RetryError
from vkubelet.kube.client import KubeClient
from vkubelet.kube.errors import (
    AlreadyExistsError,
    ConflictError,
    ForbiddenError,
    InvalidError,
    NamespaceEndingError,
    NotFoundError,
)
from vkubelet.kube.informer import Informer
from vkubelet.kube.objects import KubeObject, NamespacedName, encode_object
from vkubelet.supervision import run_component

logger = logging.getLogger(__name__)

COPY = "copy"
TOKEN = "token"  # noqa: S105 - a word, no secret

_BY_POD = "pod"
_TRIES = 4
"""An object may be found, be deleted and be made again before it's as it should be."""

CopyHandler: TypeAlias = Callable[[str, Content], None]
"""Called with the kind and the object when one of ours came, changed or went."""


class RemotePlaces(Protocol):
    """Remote namespaces, as what is made in them needs them."""

    def name(self, home_namespace: str) -> str:
        """Name the remote namespace of a home namespace."""

    async def ensure(self, home_namespace: str) -> KubeObject:
        """Make it if need be; returns the ownerReference for what is made in it."""

    def forget(self, remote_namespace: str) -> None:
        """Look afresh next time."""


@dataclass(frozen=True, slots=True)
class _Overlay:
    """
    What a write returned, until the watch tells.

    Attributes:
        base: resourceVersion in the Store at that time, "" if it wasn't there.
        content: The object since; None if it was deleted.
    """

    base: str
    content: Content | None


class RemoteCopies:
    """
    ConfigMaps and Secrets with our labels.

    Of what is in them only a digest is kept. Others' objects are never touched: they aren't seen,
    and one that has a name of ours is refused.
    """

    def __init__(
        self, client: KubeClient, peering: Peering, *, namespaces: Sequence[str] = ()
    ) -> None:
        """
        Say where; `run` follows them.

        Args:
            client: To the remote cluster.
            peering: Whose they are.
            namespaces: Where they are followed; none: in the whole cluster.
        """
        self._client = client
        self._peering = peering
        self._scoped = bool(namespaces)
        self._handlers: list[CopyHandler] = []
        self._overlays: dict[tuple[str, NamespacedName], _Overlay] = {}
        self._accepted: dict[tuple[str, NamespacedName], tuple[bytes, bytes]] = {}
        self._informers = {
            (kind, namespace): self._build_informer(kind, namespace)
            for kind in RESOURCES
            for namespace in dict.fromkeys(namespaces or ("",))
        }

    def _build_informer(self, kind: str, namespace: str) -> Informer[Content]:
        informer = Informer(
            self._client,
            RESOURCES[kind],
            decode_copy,
            namespace=namespace,
            label_selector=f"{self._peering.label_selector},{DEPENDENT}",
            indexers={_BY_POD: _index_by_pod},
        )
        informer.add_handler(lambda old, new: self._on_change(kind, old, new))
        return informer

    def add_handler(self, handler: CopyHandler) -> None:
        """Register a handler; to be done before `run`."""
        self._handlers.append(handler)

    async def wait_synced(self) -> None:
        """Wait until all are known for the first time."""
        for informer in self._informers.values():
            await informer.wait_synced()

    async def run(self) -> NoReturn:
        """Follow until cancelled."""
        async with asyncio.TaskGroup() as group:
            for (kind, namespace), informer in self._informers.items():
                name = f"remote {kind}s {namespace}".strip()
                group.create_task(run_component(name, informer.run), name=name)
        raise AssertionError("the tasks above end only by an exception")

    def get(self, kind: str, key: NamespacedName) -> Content | None:
        """Return an object of ours as it's known, our own last write counted in."""
        known = self._stored(kind, key)
        overlay = self._overlays.get((kind, key))
        if overlay is None:
            return known
        if overlay.base == _version(known):
            return overlay.content
        del self._overlays[kind, key]
        return known

    def all(self) -> list[tuple[str, Content]]:
        """Return all that are known, with their kinds."""
        return [
            (kind, content)
            for (kind, _), informer in self._informers.items()
            for content in informer.store
        ]

    def of_pod(self, kind: str, uid: str) -> list[Content]:
        """Return what was made for one home pod alone."""
        return [
            content
            for (its_kind, _), informer in self._informers.items()
            if its_kind == kind
            for content in informer.store.by_index(_BY_POD, uid)
        ]

    async def bring(
        self, kind: str, key: NamespacedName, source: Content, metadata: KubeObject
    ) -> None:
        """
        Make a copy be as its original is; nothing is asked of the API server if it is.

        Raises:
            RefusedError: If somebody else's object has the name, or the API server refuses it.
            RetryError: If something has to end first.
            KubeError: If the API server can't do it now.
        """
        body = build_copy(source, kind, key, metadata)
        for _ in range(_TRIES):
            known = self.get(kind, key)
            if known is None:
                if await self._create(kind, key, body, source.digest):
                    return
            elif known.metadata.deletion_timestamp:
                raise RetryError(f"remote {kind} {key} is being deleted")
            elif self._is_same(kind, key, known, source, metadata):
                return
            elif _is_fixed(known, source):
                await self.delete(kind, known)
            elif await self._replace(kind, key, body, known, source.digest):
                return
        raise RetryError(f"remote {kind} {key} comes and goes")

    async def put_token(self, key: NamespacedName, token: str, metadata: KubeObject) -> None:
        """
        Write a Secret with a token; errors as of `bring`.

        It's mounted, so the kubelet over there takes the new one in.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": key.name, "namespace": key.namespace, **metadata},
            "type": "Opaque",
            "data": {TOKEN: base64.b64encode(token.encode()).decode()},
        }
        for _ in range(_TRIES):
            known = self.get("Secret", key)
            if known is None:
                if await self._create("Secret", key, body, b""):
                    return
            elif await self._replace("Secret", key, body, known, b""):
                return
        raise RetryError(f"remote Secret {key} comes and goes")

    async def delete(self, kind: str, known: Content) -> None:
        """Delete an object of ours, that very one."""
        key = known.metadata.key
        try:
            await self._client.delete(RESOURCES[kind], key, uid=known.metadata.uid)
        except (NotFoundError, ConflictError) as error:
            logger.debug("%s: remote %s is gone already: %s", key, kind, error)
        self._note(kind, key, None)
        self._accepted.pop((kind, key), None)

    async def _create(
        self, kind: str, key: NamespacedName, body: KubeObject, digest: bytes
    ) -> bool:
        """Create it; False if it's there already, and now known."""
        try:
            answer = await self._client.create(RESOURCES[kind], body, namespace=key.namespace)
        except AlreadyExistsError:
            await self._look(kind, key)
            return False
        except NotFoundError as error:
            raise RetryError(f"remote namespace {key.namespace} is gone") from error
        except NamespaceEndingError as error:
            raise RetryError(error.message) from error
        except ForbiddenError as error:
            raise RefusedError("RemoteObjectForbidden", error.message) from error
        except InvalidError as error:
            raise RefusedError(f"Remote{kind}Invalid", _without_values(kind, key)) from error
        logger.info("%s: remote %s created", key, kind)
        self._note_written(kind, key, answer, digest)
        return True

    async def _look(self, kind: str, key: NamespacedName) -> None:
        """Look at what has a name of ours, while the watch hasn't told."""
        try:
            found = decode_copy(encode_object(await self._client.get(RESOURCES[kind], key)))
        except NotFoundError:
            return
        labels = found.metadata.labels
        if not self._peering.owns_labels(labels) or DEPENDENT not in labels:
            raise RefusedError(
                "RemoteObjectNotOurs", f"remote {kind} {key} exists and is not of this peering"
            )
        self._note(kind, key, found)

    async def _replace(
        self, kind: str, key: NamespacedName, body: KubeObject, known: Content, digest: bytes
    ) -> bool:
        """Replace that very object; False if it's gone, or another."""
        metadata = {**body["metadata"], "uid": known.metadata.uid}
        try:
            answer = await self._client.replace(RESOURCES[kind], {**body, "metadata": metadata})
        except (NotFoundError, ConflictError):
            self._note(kind, key, None)
            return False
        except InvalidError as error:
            raise RefusedError(f"Remote{kind}Invalid", _without_values(kind, key)) from error
        logger.info("%s: remote %s updated", key, kind)
        self._note_written(kind, key, answer, digest)
        return True

    def _note_written(
        self, kind: str, key: NamespacedName, answer: KubeObject, digest: bytes
    ) -> None:
        written = decode_copy(encode_object(answer))
        self._note(kind, key, written)
        if digest and written.digest != digest:  # it keeps less than it was given, or more
            self._accepted[kind, key] = digest, written.digest
        else:
            self._accepted.pop((kind, key), None)

    def _is_same(
        self,
        kind: str,
        key: NamespacedName,
        known: Content,
        source: Content,
        metadata: Mapping[str, list[KubeObject]],
    ) -> bool:
        owners = {owner["uid"] for owner in metadata.get("ownerReferences", ())}
        if not owners <= {owner.uid for owner in known.metadata.owner_references}:
            return False
        accepted = self._accepted.get((kind, key))
        return known.digest == source.digest or accepted == (source.digest, known.digest)

    def _note(self, kind: str, key: NamespacedName, content: Content | None) -> None:
        self._overlays[kind, key] = _Overlay(_version(self._stored(kind, key)), content)

    def _stored(self, kind: str, key: NamespacedName) -> Content | None:
        informer = self._informers.get((kind, key.namespace if self._scoped else ""))
        return None if informer is None else informer.store.get(key)

    def _on_change(self, kind: str, old: Content | None, new: Content | None) -> None:
        content = new if new is not None else old
        if content is None:
            return
        key = content.metadata.key
        overlay = self._overlays.get((kind, key))
        if overlay is not None and overlay.base != _version(new):
            del self._overlays[kind, key]
        for handler in self._handlers:
            handler(kind, content)


def build_metadata(
    peering: Peering,
    owner: KubeObject,
    *,
    role: str,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> KubeObject:
    """Build labels, annotations and owner of what is made; without the anchor it's collected."""
    return {
        "labels": {**peering.labels, DEPENDENT: role, **(labels or {})},
        "annotations": dict(annotations or {}),
        "ownerReferences": [{**owner, "controller": False}],
    }


def _is_fixed(known: Content, source: Content) -> bool:
    """Whether an object can't become as another is: its original was deleted and made anew."""
    return known.immutable or known.type != source.type


def _index_by_pod(content: Content) -> Iterable[str]:
    uid = content.metadata.labels.get(HOME_POD_UID)
    return (uid,) if uid else ()


def _version(content: Content | None) -> str:
    return "" if content is None else content.metadata.resource_version


def _without_values(kind: str, key: NamespacedName) -> str:
    """The API server's own message may show what is in a Secret."""
    return f"the remote API server refuses {kind} {key}"
