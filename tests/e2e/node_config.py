"""What a real node's programs are configured with; all paths are as the node itself sees them."""

import json
from collections.abc import Mapping
from typing import Any

from tests.e2e.slots import Slot

KUBELET_PORT = 10250
KUBELET_HEALTH_PORT = 10248
NODE_FOLDER = "/var/lib/node"
RUNTIME_FOLDER = f"{NODE_FOLDER}/bin/runtime"
CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "vkubelet.test/pause:1"

# The kubelet writes these, and they are the whole machine's; so it's shown files that have the
# wanted values already.
MACHINE_SYSCTLS: Mapping[str, str] = {
    "vm/overcommit_memory": "1",
    "vm/panic_on_oom": "0",
    "kernel/panic": "10",
    "kernel/panic_on_oops": "1",
    "kernel/keys/root_maxkeys": "1000000",
    "kernel/keys/root_maxbytes": "25000000",
}


def build_containerd_config(snapshotter: str) -> str:
    """Build containerd's configuration (TOML), with `overlayfs` or `native` file systems."""
    return f"""\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
imports = []
disabled_plugins = [
  "io.containerd.nri.v1.nri",
  "io.containerd.tracing.processor.v1.otlp",
  "io.containerd.internal.v1.tracing",
]

[grpc]
  address = "{CONTAINERD_SOCKET}"

[plugins."io.containerd.internal.v1.opt"]
  path = "/var/lib/containerd/opt"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "{snapshotter}"

[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true  # without CAP_SYS_RESOURCE it can't be lowered
  netns_mounts_under_state_dir = true

[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["{RUNTIME_FOLDER}"]
  conf_dir = "{NODE_FOLDER}/cni"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "{RUNTIME_FOLDER}/runc"
  Root = "/run/runc"
"""


def build_cni_config(slot: Slot) -> str:
    """Build the pods' network: a bridge, addresses of the slot's range, host ports."""
    bridge = {
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": True,
        "hairpinMode": True,
        "ipam": {
            "type": "host-local",
            "ranges": [[{"subnet": slot.pod_range}]],
            "routes": [{"dst": "0.0.0.0/0"}],
            "dataDir": "/run/cni",
        },
    }
    return json.dumps(
        {
            "cniVersion": "1.0.0",
            "name": "pods",
            "plugins": [bridge, {"type": "portmap", "capabilities": {"portMappings": True}}],
        }
    )


def build_kubelet_config(slot: Slot, features: Mapping[str, bool]) -> str:
    """Build the KubeletConfiguration (JSON, which is YAML too), with feature gates."""
    config: dict[str, Any] = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": slot.node_address,
        "port": KUBELET_PORT,
        "healthzBindAddress": slot.node_address,
        "healthzPort": KUBELET_HEALTH_PORT,
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": f"{NODE_FOLDER}/client-ca.crt"},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": f"{NODE_FOLDER}/kubelet.crt",
        "tlsPrivateKeyFile": f"{NODE_FOLDER}/kubelet.key",
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{slot.cgroup}",
        "failCgroupV1": False,
        "featureGates": dict(features),
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "maxPods": 100,
        "resolvConf": "",
        "volumePluginDir": "/var/lib/kubelet/volumeplugins",
        "evictionHard": {"memory.available": "64Mi", "nodefs.available": "64Mi"},
        "imageGCHighThresholdPercent": 100,
        "nodeStatusUpdateFrequency": "5s",
        "syncFrequency": "10s",
        "shutdownGracePeriod": "0s",
    }
    return json.dumps(config, indent=1)
