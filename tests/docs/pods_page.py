"""Writes docs/pods.md: `python -m tests.docs.pods_page`."""

from pathlib import Path

from provider.translation.fields import POD_SPEC_FIELDS

PAGE = Path(__file__).parents[2] / "docs" / "pods.md"

HEAD = """# Pods

A pod that is bound to a virtual node gets a remote pod of the same name, in the remote namespace that
`--remote-namespace` makes of its own (`demo-1a2b3c4d` by default: the namespace, and the beginning of
the UID of home's kube-system). The namespace is made when the first pod needs it, and so is a ConfigMap
`vkubelet-<remote cluster>` in it, which controls the remote pods: a ReplicaSet with equal labels can't
adopt them, and `kubectl drain` accepts them.

* **Metadata**: labels and annotations travel, but for `vkubelet.io/*` and kubectl's last-applied
  annotation. Owners, finalizers and managedFields don't.
* **Node constraints**: a requirement that speaks of virtual nodes (`type`, `kubernetes.io/hostname`,
  `vkubelet.io/*`, `virtual-kubelet.io/*`, keys of `--node-label`, and matchFields) has done its work at
  home; others travel. To each required term the selection of the virtual node is added.
* **Tokens**: volumes with service-account tokens are left out, and their mounts; nothing of home's
  credentials goes to the remote cluster.
* **Refused**: a pod that uses what doesn't cross stays Pending; its status and an event say why.
* **Warned**: what is left out of a pod and might be missed is listed in one event.

## Fields of spec

Fields that aren't listed travel as they are, those that are newer than this version among them.

| field | | |
|---|---|---|
"""

TAIL = """
## Status

The remote status is shown at home, filtered to the containers that the home pod has. Conditions of
schedulers and custom readiness gates stay home's own: a pod is Ready when its containers are and its
gates say so. `hostIP` is the address of the virtual node; pod IPs aren't published, as they can't be
reached from home. A remote pod that can't be scheduled shows the remote scheduler's reason.

## Deletion

The grace period travels, and so does a shorter one. The home pod is gone only after the remote one is.
A remote pod that is deleted or lost over there is made again if nothing of it had started or its
restartPolicy is Always; otherwise the home pod ends as Failed with a DisruptionTarget condition.
"""


def render() -> str:
    """Render the page."""
    rows = (
        f"| `{name}` | {rule.treatment.value} | {rule.why} |\n"
        for name, rule in POD_SPEC_FIELDS.items()
    )
    return HEAD + "".join(rows) + TAIL


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
