"""Writes docs/pods.md: `python -m tests.docs.pods_page`."""

from pathlib import Path

from provider.translation.fields import POD_SPEC_FIELDS

PAGE = Path(__file__).parents[2] / "docs" / "pods.md"

HEAD = """# Pods

A pod that is bound to a virtual node gets a remote pod of the same name, in the remote namespace
that `--remote-namespace` makes of its own (`demo-1a2b3c4d` by default: the namespace, and the
beginning of the UID of home's kube-system). The namespace is made when the first pod needs it,
and so is a ConfigMap `vkubelet-<remote cluster>` in it, which controls the remote pods: a
ReplicaSet with equal labels can't adopt them, and `kubectl drain` accepts them.

* **Metadata**: labels and annotations travel, but for `vkubelet.io/*` and kubectl's last-applied
  annotation. Owners, finalizers and managedFields don't.
* **Node constraints**: a requirement that speaks of virtual nodes (`type`,
  `kubernetes.io/hostname`, `vkubelet.io/*`, `virtual-kubelet.io/*`, keys of `--node-label`, and
  matchFields) has done its work at home; others travel. To each required term the selection of
  the virtual node is added.
* **Refused**: a pod that uses what doesn't cross stays Pending; its status and an event say why.
* **Warned**: what is left out of a pod and might be missed is listed in one event.

## ConfigMaps and Secrets

What a pod refers to (in volumes, projected volumes, `env`, `envFrom`, `imagePullSecrets`, the
Secrets of CSI and other volume drivers; in init, app and ephemeral containers) is copied into the
remote namespace before the pod is made. Later changes at home follow, and what is deleted at home
is deleted there. A copy is removed when no remote pod has needed it for 30 seconds.

* **Names**: a copy is called as the original, with a hash (`settings-1a2b3c4d5e`), and the remote
  pod's references say so. So it never meets an object of somebody else, another peering's copy,
  or the `kube-root-ca.crt` that each namespace has. Messages of the remote kubelet show that
  name. An object of somebody else that has it all the same is left alone: pods that need it stay
  Pending, reason `RemoteObjectNotOurs`.
* **Contents** go through byte by byte; labels and annotations of the original stay at home, as
  kubectl keeps whole Secrets in an annotation. An immutable object that was deleted and made anew
  is replaced. Secrets of type `kubernetes.io/service-account-token` travel as `Opaque`: the
  remote cluster would delete them.
* **Missing**: a pod whose ConfigMap or Secret doesn't exist stays Pending with the reason
  `MandatoryConfigMapNotFound` or `MandatorySecretNotFound`, and starts as soon as it's there.
  Optional ones are skipped, an event `OptionalConfigMapNotFound` or `OptionalSecretNotFound` says
  so, and follow when they appear. A missing image pull Secret is only warned of.
* **Rights**: the process watches ConfigMaps and Secrets only in home namespaces whose pods use
  them, and needs the Role in `docs/rbac/home-namespace.yaml` there. Without it those pods stay
  Pending, reason `MissingRight`; others run.
* PersistentVolumeClaims don't cross: such pods are refused.

## Service accounts

`--api-access` decides which API server a pod can reach with its service account:

* `none` (default): none. Volumes with tokens are left out, and their mounts; of a volume that
  also holds ConfigMaps or Secrets just the token. Nothing of home's own credentials goes to the
  remote cluster.
* `home`: home's. For each token that the pod projects one is asked for, bound to the home pod,
  with its audience and life, and delivered in a Secret; it's replaced at 80 % of its life, and
  worth nothing once the home pod is gone. `KUBERNETES_SERVICE_HOST` and `_PORT` are set to
  `--home-api-server` in each container that doesn't set them; that server's certificate has to be
  valid for the host. Who can read Secrets in the remote namespace can use the token.
* `remote`: the remote cluster's: `serviceAccountName` travels, and has to exist there.

## Events

What the kubelet, the scheduler and the controllers of the remote cluster say of a remote pod is
shown on the home pod, with reason, message, count and times.

## Fields of spec

Fields that aren't listed travel as they are, those that are newer than this version among them.

| field | | |
|---|---|---|
"""

TAIL = """
## Status

The remote status is shown at home, filtered to the containers that the home pod has. Conditions
of schedulers and custom readiness gates stay home's own: a pod is Ready when its containers are
and its gates say so. `hostIP` is the address of the virtual node; pod IPs aren't published, as
they can't be reached from home. A remote pod that can't be scheduled shows the remote scheduler's
reason.

## Changes

What the API lets change of a pod travels: labels, annotations, images, a shorter
`activeDeadlineSeconds`, more tolerations, ephemeral containers (`kubectl debug`), and resources
(in-place resize). Labels and annotations that others put on the remote pod stay, and so does an
image that a webhook over there has rewritten, until the image changes at home. A change that the
remote cluster refuses is told by an event `RemotePodChangeRefused` and tried again, ever more
rarely: `kubectl debug` needs `--profile=baseline`, as remote namespaces forbid what its default
profile asks for. A privileged ephemeral container isn't started. A pod that still waits for a
node is made anew when the nodes behind its virtual node change; one that runs stays where it is.

## Pods that make no progress

A pod that is refused, such as by a ResourceQuota over there, is offered again after 10 seconds,
then ever more rarely, at last every 5 minutes. One that the remote scheduler finds no node for
waits; with `--unschedulable-timeout` it's evicted at home after that time, so that its controller
makes another one. When a remote pod is being deleted though nobody at home asked for it, as on a
dead node, the home pod isn't Ready any more, and after `--remote-lost-timeout` it's evicted.
Disruption budgets are honoured. Both times start anew with the process.

## Deletion

The grace period travels, and so does a shorter one. The home pod is gone only after the remote
one is. A remote pod that is deleted or lost over there is made again if nothing of it had started
or its restartPolicy is Always; otherwise the home pod ends as Failed with a DisruptionTarget
condition.
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
