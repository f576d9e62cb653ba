"""Composition root of `vkubelet run`: builds every part, and starts and stops them in order."""

import asyncio
import logging
import os
import socket
from dataclasses import replace

from certs.rotation import CsrCertificates, FileCertificates, SelfSignedCertificates
from provider.acceptance import wait_accepted
from provider.collector import give_back, set_known_aside
from provider.config import (
    CertificateMode,
    Config,
    HomeConfig,
    KubeletConfig,
    NamespaceConfig,
    PodNetwork,
    ServingConfig,
)
from provider.errors import MissingRightsError
from provider.health import HealthServer
from provider.labels import VITALS
from provider.lock import find_lock_key
from provider.mapping.groups import NodeMapping
from provider.mapping.resolve import MappingState, restore_state
from provider.node_config import ForeignUse
from provider.node_plan import build_node_plan
from provider.nodes.remote_nodes import NodePlan, RemoteNodes
from provider.peering import Peering
from provider.pods.namespaces import BASELINE, PRIVILEGED, RemoteNamespaces
from provider.pods.remote_pods import RemotePods
from provider.pods.removal import NamespaceRemoval
from provider.pods.usage import OwnUsage, RemoteUsage
from provider.reflection.dependents import Dependents
from provider.remote import RemoteProvider
from provider.rights import Right, find_missing_rights, home_rights
from provider.translation.pod import TranslatedPod, TranslationContext, translate_pod
from provider.translation.status import translate_status
from provider.vitals_recorder import VitalsRecorder
from vkubelet.config import KubeletPolicy, NamespaceFilter, UnreachablePolicy
from vkubelet.errors import RetryError
from vkubelet.interface import CertificateSource
from vkubelet.kube.access import (
    ClusterAccess,
    in_cluster_namespace,
    load_in_cluster,
    load_kubeconfig,
)
from vkubelet.kube.client import KubeClient
from vkubelet.kube.leader import LeaderLock
from vkubelet.kube.objects import NAMESPACES, NODES, KubeObject, NamespacedName
from vkubelet.kube.sessions import KEEP_ALIVE_SECONDS
from vkubelet.kubelet import Kubelet
from vkubelet.supervision import interruptible, run_component

logger = logging.getLogger(__name__)

SETTLED_SECONDS = KEEP_ALIVE_SECONDS + 5.0
"""So long after it's ready, the many connections of the start are closed."""


class Application:
    """
    One peering, from start to stop.

    It has its lock before anything is registered; parts stop in reverse order, the lock last.
    """

    def __init__(self, config: Config, mapping: NodeMapping) -> None:
        """
        Take what the user decided; nothing happens before `run`.

        Args:
            config: All of it.
            mapping: The node mapping that it asks for.
        """
        self._config = config
        self._mapping = mapping
        self._waiting_for = "starting"
        self._kubelet: Kubelet | None = None
        self._remote: RemoteProvider | None = None

    async def run(self) -> None:
        """
        Run until a signal.

        Raises:
            ShutdownRequested: In an ExceptionGroup, when a signal asked for the end.
            StartError: If it can't work; also in an ExceptionGroup.
            AccessError: If a kubeconfig can't be used.
        """
        home_access = await load_home_access(self._config.home)
        remote_access = await load_kubeconfig(
            self._config.remote.kubeconfig,
            self._config.remote.context,
            allow_exec=self._config.remote.allow_exec,
            allow_outside_files=self._config.remote.allow_files,
        )
        health = HealthServer(self._config.process.health_address, self._not_ready)
        async with (
            health.serve(),
            KubeClient(home_access, name="home") as home,
            KubeClient(remote_access, name="remote") as remote,
        ):
            await self._run_with_clusters(home, remote)

    async def _run_with_clusters(self, home: KubeClient, remote: KubeClient) -> None:
        config = self._config
        key = find_lock_key(config.home.system_namespace, config.remote.cluster)
        vitals = VitalsRecorder()
        lock = LeaderLock(
            home,
            namespace=key.namespace,
            name=key.name,
            identity=f"{socket.gethostname()}_{os.getpid()}",
            annotate=lambda: {VITALS: vitals.record(self._not_ready())},
        )
        async with interruptible():
            self._waiting_for = f"the home API server {home.server}"
            peering = await wait_accepted("home", lambda: self._identify_peering(home))
            await wait_accepted("home", lambda: self._check_home_rights(home, key))
            await lock.acquire(self._on_waiting_for_lock)
        self._waiting_for = "the first sync"
        try:
            async with asyncio.TaskGroup() as holding:
                holding.create_task(run_component("lock", lock.run), name="lock")
                await self._serve(home, remote, peering)
        finally:
            await lock.release()

    async def _serve(self, home: KubeClient, remote: KubeClient, peering: Peering) -> None:
        async with interruptible():
            state = await wait_accepted("home", lambda: read_mapping_state(home, peering))
        config = self._config
        plan = replace(
            build_node_plan(config.nodes, config.capacity, self._mapping, peering),
            state=state,
            removal_delay_seconds=config.removal.delay.seconds,
        )
        provider = build_provider(home, remote, peering, config, plan)
        kubelet = Kubelet(
            provider,
            home,
            build_certificates(home, config, peering),
            build_policy(config, peering),
        )
        provider.follow_home_pods(kubelet.home_pods)
        self._remote, self._kubelet = provider, kubelet
        async with asyncio.TaskGroup() as running:
            running.create_task(run_component("remote", provider.run), name="remote")
            async with interruptible() as serving:
                serving.create_task(run_component("kubelet", kubelet.run), name="kubelet")
                await kubelet.wait_ready()
                set_known_aside()
                logger.info("ready: peering %s", peering.remote_cluster)
                await asyncio.sleep(SETTLED_SECONDS)
                give_back()
                await asyncio.Event().wait()

    def _not_ready(self) -> str:
        if self._kubelet is None or self._remote is None:
            return f"waiting for {self._waiting_for}"
        trouble = self._remote.trouble
        if trouble is not None:
            return f"the remote API server can't be reached: {trouble or 'not tried yet'}"
        return "" if self._kubelet.ready else f"waiting for {self._waiting_for}"

    def _on_waiting_for_lock(self, holder: str) -> None:
        self._waiting_for = f"the lock that {holder} holds"
        logger.info("waiting: %s holds the lock of this peering", holder)

    async def _identify_peering(self, home: KubeClient) -> Peering:
        return await identify_peering(home, self._config.home.cluster, self._config.remote.cluster)

    async def _check_home_rights(self, home: KubeClient, lock: NamespacedName) -> None:
        rights = list_home_rights(self._config.namespaces, self._config.kubelet, lock)
        missing = await find_missing_rights(home, rights)
        if missing:
            raise MissingRightsError("home", [str(right) for right in missing])


def list_home_rights(
    namespaces: NamespaceConfig, kubelet: ServingConfig, lock: NamespacedName
) -> tuple[Right, ...]:
    """List what a process with this configuration needs in the home cluster."""
    by_csr = kubelet.certificates is CertificateMode.CSR
    return home_rights(
        lock=lock,
        signer_name=kubelet.signer_name if by_csr else None,
        approves=kubelet.approve_csr,
        watches_namespaces=namespaces.selector is not None,
        namespaces=namespaces.names if namespaces.all_named else (),
    )


async def load_home_access(config: HomeConfig) -> ClusterAccess:
    """
    Find the home cluster: a named kubeconfig, else the pod's own cluster, else the usual rules.

    Raises:
        AccessError: If it can't be used.
    """
    if config.kubeconfig is None and config.context is None and in_cluster_namespace() is not None:
        return load_in_cluster()
    return await load_kubeconfig(config.kubeconfig, config.context)


async def identify_peering(
    home: KubeClient, home_cluster: str | None, remote_cluster: str
) -> Peering:
    """
    Identify a peering: home is known by the UID of its kube-system namespace.

    Raises:
        KubeError: If the home API server can't be asked.
    """
    namespace = await home.get(NAMESPACES, NamespacedName("", "kube-system"))
    uid = str(namespace["metadata"]["uid"])
    return Peering(
        home_uid=uid,
        home_cluster=home_cluster or uid.partition("-")[0],
        remote_cluster=remote_cluster,
    )


async def read_mapping_state(home: KubeClient, peering: Peering) -> MappingState:
    """Read how an earlier process left names and slices, off our Nodes."""
    nodes = await home.list(NODES, label_selector=peering.label_selector)
    return restore_state(
        (node["metadata"]["name"], node["metadata"].get("annotations", {})) for node in nodes
    )


def build_provider(
    home: KubeClient, remote: KubeClient, peering: Peering, config: Config, plan: NodePlan
) -> RemoteProvider:
    """Build the remote cluster's side."""
    nodes = RemoteNodes(remote, plan)
    namespaces = RemoteNamespaces(
        remote,
        peering,
        template=config.namespaces.remote,
        adopt=config.namespaces.adopt,
        pod_security=PRIVILEGED if config.pods.allow_host_access else BASELINE,
    )

    def translate(node: str, pod: KubeObject, *, remote_namespace: str) -> TranslatedPod:
        placement = nodes.placement(node)
        if placement is None:
            raise RetryError(f"virtual node {node} isn't known yet, or no more")
        context = TranslationContext(
            home_cluster_uid=peering.home_uid,
            peering=peering.remote_cluster,
            remote_namespace=remote_namespace,
            node=placement.view,
            selection=placement.selection,
            accepted_taints=config.nodes.tolerate,
            api_access=config.pods.api_access,
            home_api_server=config.pods.home_api_server,
            allow_host_access=config.pods.allow_host_access,
            name_namespace=namespaces.name,
        )
        return translate_pod(pod, context)

    def translate_back(pod: KubeObject) -> KubeObject:
        return translate_status(
            pod,
            host_address=config.kubelet.address,
            publish_pod_ips=config.pods.network is PodNetwork.ROUTED,
            remaps=config.pods.remap_cidrs,
        )

    ignores_others = config.capacity.foreign_use is ForeignUse.IGNORE
    is_scoped = ignores_others and config.namespaces.all_named
    followed = tuple(namespaces.name(name) for name in config.namespaces.names)
    dependents = Dependents(
        home,
        remote,
        peering,
        namespaces,
        api_access=config.pods.api_access,
        namespaces=followed if is_scoped else (),
    )
    pods = RemotePods(
        remote,
        peering,
        namespaces,
        dependents,
        translate=translate,
        translate_status=translate_back,
        followed=followed if is_scoped else (),
    )
    usage = (
        OwnUsage(pods.followed, nodes.ledger)
        if ignores_others
        else RemoteUsage(remote, peering, nodes.ledger)
    )
    removal = None
    if not is_scoped:  # else they are made by whoever owns the remote cluster
        removal = NamespaceRemoval(home, remote, peering, namespaces, pods.followed)
    return RemoteProvider(remote, nodes, usage, pods, dependents, removal=removal)


def build_certificates(home: KubeClient, config: Config, peering: Peering) -> CertificateSource:
    """Build the source of serving certificates that the configuration asks for."""
    kubelet: KubeletConfig = config.kubelet
    match kubelet.certificates:
        case CertificateMode.CSR:
            return CsrCertificates(
                home,
                config.process.data_dir,
                labels=peering.labels,
                signer_name=kubelet.signer_name,
                approve=kubelet.approve_csr,
            )
        case CertificateMode.FILES:
            if kubelet.certificate_file is None or kubelet.key_file is None:
                raise AssertionError("checked by KubeletConfig")
            return FileCertificates(kubelet.certificate_file, kubelet.key_file)
        case CertificateMode.SELF_SIGNED:
            return SelfSignedCertificates(config.process.data_dir)


def build_policy(config: Config, peering: Peering) -> KubeletPolicy:
    """Build what the generic kubelet is told."""
    namespaces = config.namespaces
    return KubeletPolicy(
        owner_labels=peering.labels,
        address=config.kubelet.address,
        ports=config.kubelet.ports,
        port_setting="--kubelet-ports",
        namespaces=NamespaceFilter(
            names=frozenset(namespaces.names) - {"*"},
            selector=namespaces.selector or "",
            everything="*" in namespaces.names,
        ),
        daemonset_pods=config.pods.daemonsets,
        unreachable=UnreachablePolicy(action=config.remote.unreachable),
        drain_timeout_seconds=config.removal.drain_timeout.seconds,
        unschedulable_timeout_seconds=config.pods.unschedulable_timeout.finite_seconds,
        lost_timeout_seconds=config.pods.remote_lost_timeout.finite_seconds,
        stream_creation_seconds=config.kubelet.stream_creation_timeout.seconds,
        stream_idle_seconds=config.kubelet.stream_idle_timeout.finite_seconds or 0.0,
        pass_websockets=not config.kubelet.no_websockets,
    )


async def run(config: Config, mapping: NodeMapping) -> None:
    """Run one peering until a signal; see `Application.run`."""
    await Application(config, mapping).run()
