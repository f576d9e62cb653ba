"""Logs and commands of remote pods, for home pods."""

from collections.abc import AsyncIterator, Sequence

from provider.streams.exec import relay_exec
from provider.streams.failures import RemotePod
from provider.streams.logs import relay_logs
from vkubelet.interface import CommandStreams, ExitStatus, LogOptions
from vkubelet.kube.client import KubeClient
from vkubelet.kube.objects import NamespacedName


class RemoteStreams:
    """
    Streams of remote pods by the remote API server; the home pod has the same name and containers.

    The remote credential stays here: callers see data and sentences, no address or header.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client

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
