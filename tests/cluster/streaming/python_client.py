"""
What a user of the Python client does: `python -m …python_client KUBECONFIG NAMESPACE ACTION …`.

A program of its own, as that client leaves sockets open.
"""

import contextlib
import sys
from typing import Any

from kubernetes import config
from kubernetes.client import CoreV1Api
from kubernetes.stream import portforward, stream

TIMEOUT_SECONDS = 30


def execute(api: CoreV1Api, namespace: str, pod: str, *command: str) -> int:
    """Run a command with our stdin, write what it wrote, and return its exit code."""
    running: Any = stream(
        api.connect_get_namespaced_pod_exec,
        pod,
        namespace,
        command=list(command),
        stdin=True,
        stdout=True,
        stderr=True,
        tty=False,
        _preload_content=False,
    )
    running.write_stdin(sys.stdin.read())
    running.run_forever(timeout=TIMEOUT_SECONDS)
    sys.stdout.write(running.read_stdout())
    sys.stderr.write(running.read_stderr())
    return int(running.returncode)


def forward(api: CoreV1Api, namespace: str, pod: str, *ports: str) -> int:
    """Send our stdin to a port, and write what it answers."""
    (port,) = ports
    forwarded: Any = portforward(
        api.connect_get_namespaced_pod_portforward, pod, namespace, ports=port
    )
    connection = forwarded.socket(int(port))
    connection.settimeout(TIMEOUT_SECONDS)
    with contextlib.suppress(ConnectionResetError, BrokenPipeError):
        connection.sendall(sys.stdin.read().encode())
        while part := connection.recv(100):
            sys.stdout.write(part.decode())
    error = forwarded.error(int(port))
    sys.stderr.write(error or "")
    return int(error is not None)


def main(kubeconfig: str, namespace: str, action: str, *arguments: str) -> int:
    """Do what is asked."""
    config.load_kube_config(kubeconfig)  # type: ignore[no-untyped-call]  # it has no types
    act = {"exec": execute, "forward": forward}[action]
    return act(CoreV1Api(), namespace, *arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
