"""Logs, commands and port-forwards of remote pods, for home pods."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import NoReturn

from provider.streams.exec import relay_attach, relay_exec
from provider.streams.failures import RemotePod
from provider.streams.logs import relay_logs
from provider.streams.port_forward import PortForwards
from vkubelet.interface import ByteStream, CommandStreams, ExitStatus, LogOptions
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import NamespacedName


class RemoteStreams:
    """
    Streams of remote pods by the remote API server; the home pod has the same name and containers.

    The remote credential stays here: callers see data and sentences, no address or header.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._port_forwards = PortForwards(client)

    async def run(self) -> NoReturn:
        """Own what port-forwards share, until cancelled."""
        await self._port_forwards.run()

    def logs(
        self,
        remote_key: NamespacedName,
        container: str,
        options: LogOptions,
        *,
        home_namespace: str,
    ) -> AsyncIterator[bytes]:
        """
        Yield the container's log; see `Provider.logs`.

        Args:
            remote_key: The remote pod.
            container: A container of it, of any kind.
            options: Passed on as they are.
            home_namespace: Stands in failures where the remote cluster says its own.

        Raises:
            RequestError: Before the first chunk; later only if a log that isn't followed was cut.
        """
        pod = RemotePod(remote_key, home_namespace)
        return relay_logs(self._client, pod, container, options)

    async def exec(
        self,
        remote_key: NamespacedName,
        container: str,
        command: Sequence[str],
        streams: CommandStreams,
        *,
        tty: bool,
        home_namespace: str,
    ) -> ExitStatus:
        """
        Run a command in the container until it ends; see `Provider.exec`.

        Args:
            remote_key: The remote pod.
            container: A container of it, of any kind.
            command: The words of the command.
            streams: The caller's side.
            tty: Whether it gets a terminal.
            home_namespace: Stands in failures where the remote cluster says its own.

        Raises:
            RequestError: If it couldn't be started.
        """
        pod = RemotePod(remote_key, home_namespace)
        return await relay_exec(self._client, pod, container, command, streams, tty=tty)

    async def attach(
        self,
        remote_key: NamespacedName,
        container: str,
        streams: CommandStreams,
        *,
        tty: bool,
        home_namespace: str,
    ) -> ExitStatus:
        """
        Attach to the container's main process until it ends; see `Provider.attach`.

        The arguments are those of `exec`.

        Raises:
            RequestError: If it couldn't be attached to.
        """
        pod = RemotePod(remote_key, home_namespace)
        return await relay_attach(self._client, pod, container, streams, tty=tty)

    def port_forward(
        self, remote_key: NamespacedName, port: int, *, home_namespace: str, home_uid: str
    ) -> AbstractAsyncContextManager[ByteStream]:
        """
        Connect to a port of the pod, while `run` runs; see `Provider.port_forward`.

        Args:
            remote_key: The remote pod.
            port: In the pod.
            home_namespace: Stands in failures where the remote cluster says its own.
            home_uid: UID of the home pod; another pod's connection isn't used.

        Raises:
            RequestError: When entered if the server refuses, else at reading.
        """
        pod = RemotePod(remote_key, home_namespace)
        return self._port_forwards.connect(pod, home_uid, port)
