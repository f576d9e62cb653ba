"""The command lines of a control plane's programs."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.binaries import Binaries
from tests.cluster.pki import Authority, build_kubeconfig, generate_key_pair

ADMIN_GROUP = "system:masters"
AUDITED_NAMESPACE = "vkubelet-system"
"""Requests of its service accounts are in the audit log."""
SERVICE_IP = "10.96.0.1"
_SERVICE_RANGE = "10.96.0.0/16"
_SERVER_NAMES = (
    "127.0.0.1",
    SERVICE_IP,
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
)


_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{AUDITED_NAMESPACE}"]},
        {"level": "None"},
    ],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """Port numbers on 127.0.0.1."""

    etcd: int
    etcd_peer: int
    api_server: int
    controller_manager: int
    scheduler: int


class ControlPlane:
    """
    Keys, certificates and command lines of one control plane.

    Attributes:
        folder: Where the files are.
        client_ca: Authority of the clients' certificates.
        serving_ca: Authority of the serving certificates, the API server's and the kubelets'.
        server: URL of the API server.
        ports: Where the programs listen.
    """

    def __init__(self, folder: Path, binaries: Binaries, ports: Ports) -> None:
        self.folder = folder
        self.client_ca = Authority("client-ca")
        self.serving_ca = Authority("serving-ca")
        self.server = f"https://127.0.0.1:{ports.api_server}"
        self._binaries = binaries
        self.ports = ports
        self._write_files()

    def _write_files(self) -> None:
        front_proxy_ca = Authority("front-proxy-ca")
        for name, pair in {
            "client-ca": self.client_ca.key_pair,
            "serving-ca": self.serving_ca.key_pair,
            "front-proxy-ca": front_proxy_ca.key_pair,
            "front-proxy-client": front_proxy_ca.issue_client("front-proxy-client"),
            "service-account": generate_key_pair(),
            "api-server": self.serving_ca.issue_server("kube-apiserver", _SERVER_NAMES),
            "kubelet-client": self.client_ca.issue_client(
                "kube-apiserver-kubelet-client", [ADMIN_GROUP]
            ),
        }.items():
            pair.write(self.folder, name)
        (self.folder / "audit-policy.json").write_text(json.dumps(_AUDIT_POLICY))
        self.write_kubeconfig("admin", "kubernetes-admin", [ADMIN_GROUP])
        for user in ("kube-controller-manager", "kube-scheduler"):
            self.write_kubeconfig(user, f"system:{user}")

    def write_kubeconfig(self, name: str, user: str, groups: Sequence[str] = ()) -> Path:
        """Write NAME.kubeconfig with a client certificate for a user."""
        client = self.client_ca.issue_client(user, groups)
        path = self.folder / f"{name}.kubeconfig"
        path.touch(mode=0o600)
        path.write_text(build_kubeconfig(self.server, self.serving_ca.certificate, client))
        return path

    def build_etcd_command(self) -> list[str]:
        """etcd without fsync, as the data is thrown away."""
        client, peer = (
            f"http://127.0.0.1:{port}" for port in (self.ports.etcd, self.ports.etcd_peer)
        )
        return [
            str(self._binaries.etcd),
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--socket-reuse-port=true",
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def build_api_server_command(self) -> list[str]:
        """kube-apiserver on the loopback interface, which can't be an endpoint of a Service."""
        folder = self.folder
        return [
            str(self._binaries.kube_apiserver),
            "--bind-address=127.0.0.1",
            f"--secure-port={self.ports.api_server}",
            "--permit-port-sharing=true",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--etcd-servers=http://127.0.0.1:{self.ports.etcd}",
            f"--client-ca-file={folder / 'client-ca.crt'}",
            f"--tls-cert-file={folder / 'api-server.crt'}",
            f"--tls-private-key-file={folder / 'api-server.key'}",
            f"--kubelet-client-certificate={folder / 'kubelet-client.crt'}",
            f"--kubelet-client-key={folder / 'kubelet-client.key'}",
            f"--kubelet-certificate-authority={folder / 'serving-ca.crt'}",
            "--kubelet-preferred-address-types=InternalIP",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            f"--service-cluster-ip-range={_SERVICE_RANGE}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-account-key-file={folder / 'service-account.crt'}",
            f"--service-account-signing-key-file={folder / 'service-account.key'}",
            f"--requestheader-client-ca-file={folder / 'front-proxy-ca.crt'}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={folder / 'front-proxy-client.crt'}",
            f"--proxy-client-key-file={folder / 'front-proxy-client.key'}",
            f"--audit-policy-file={folder / 'audit-policy.json'}",
            f"--audit-log-path={folder / 'audit.log'}",
            "--enable-aggregator-routing=true",
            "--shutdown-delay-duration=0s",
            "--shutdown-send-retry-after=true",  # else it waits 60 s for watches to end
        ]

    def _build_common_flags(self, user: str, port: int) -> list[str]:
        kubeconfig = self.folder / f"{user}.kubeconfig"
        return [
            f"--kubeconfig={kubeconfig}",
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            "--permit-port-sharing=true",
            f"--cert-dir={self.folder / user}",
            "--leader-elect=false",
        ]

    def build_controller_manager_command(self) -> list[str]:
        """kube-controller-manager, with the authority that each kind of certificate belongs to."""
        signers = {
            "kubelet-serving": "serving-ca",
            "kubelet-client": "client-ca",
            "kube-apiserver-client": "client-ca",
            "legacy-unknown": "client-ca",
        }
        return [
            str(self._binaries.kube_controller_manager),
            *self._build_common_flags("kube-controller-manager", self.ports.controller_manager),
            "--use-service-account-credentials=true",
            "--kube-api-qps=200",  # by its default of 20 it takes 5 s to make its service accounts
            "--kube-api-burst=200",
            f"--root-ca-file={self.folder / 'serving-ca.crt'}",
            f"--service-account-private-key-file={self.folder / 'service-account.key'}",
            *(
                f"--cluster-signing-{signer}-{flag}-file={self.folder / authority}.{suffix}"
                for signer, authority in signers.items()
                for flag, suffix in (("cert", "crt"), ("key", "key"))
            ),
        ]

    def build_scheduler_command(self) -> list[str]:
        """kube-scheduler, as it comes but for its limits: by default 50 calls a second."""
        return [
            str(self._binaries.kube_scheduler),
            *self._build_common_flags("kube-scheduler", self.ports.scheduler),
            "--kube-api-qps=2000",
            "--kube-api-burst=2000",
        ]
