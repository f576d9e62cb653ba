import copy
import dataclasses
from typing import Any

import pytest

from provider.taints import parse_accepted_taint
from provider.translation.affinity import VirtualNodeView
from provider.translation.fields import (
    CONTAINER_FIELDS,
    POD_SPEC_FIELDS,
    PROJECTION_FIELDS,
    VOLUME_FIELDS,
    FieldRule,
    Treatment,
)
from provider.translation.pod import ApiServerAddress, TranslationContext, translate_pod
from provider.translation.selection import Selection
from provider.translation.tokens import ApiAccess
from vkubelet.errors import RefusedError
from vkubelet.kube.names import is_label_value
from vkubelet.kube.selector import parse_selector

ANCHOR = {"apiVersion": "v1", "kind": "ConfigMap", "name": "vkubelet-cloud", "uid": "a-1"}
CONTEXT = TranslationContext(
    home_cluster_uid="h-1",
    peering="cloud",
    remote_namespace="shop-home",
    node=VirtualNodeView(
        "vn",
        {"type": "virtual-kubelet"},
        topology_keys=frozenset({"kubernetes.io/hostname", "zone"}),
    ),
    selection=Selection.of_selector(parse_selector("type!=virtual-kubelet")),
    accepted_taints=(parse_accepted_taint("spot"),),
    anchor=ANCHOR,
)
TOKEN_VOLUME = {
    "name": "kube-api-access-x2k4p",
    "projected": {
        "defaultMode": 420,
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace"}]}},
        ],
    },
}
TOKEN_MOUNT = {
    "name": "kube-api-access-x2k4p",
    "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
    "readOnly": True,
}


def home_pod(**spec: Any) -> dict[str, Any]:
    """A pod as kube-apiserver stores any pod of a Deployment."""
    return {
        "metadata": {
            "name": "web-1",
            "namespace": "shop",
            "uid": "p-1",
            "resourceVersion": "7",
            "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "generateName": "web-",
            "labels": {"app": "web"},
            "annotations": {"note": "x"},
            "finalizers": ["a/b"],
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "r"}],
            "managedFields": [{}],
        },
        "spec": {
            "containers": [{"name": "app", "image": "web:1", "volumeMounts": [TOKEN_MOUNT]}],
            "volumes": [TOKEN_VOLUME],
            "nodeName": "vn",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "schedulerName": "default-scheduler",
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "enableServiceLinks": True,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {"key": "virtual-kubelet.io/provider", "operator": "Exists"},
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                },
            ],
            **spec,
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }


def test_an_ordinary_pod_travels_without_a_warning() -> None:
    translated = translate_pod(home_pod(), CONTEXT)
    assert translated.warnings == ()
    assert translated.ephemeral_containers == ()
    applied = translated.pod["metadata"]["annotations"].pop("vkubelet.io/applied")
    assert '"images":{' in applied
    assert translated.pod == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-1",
            "namespace": "shop-home",
            "labels": {
                "app": "web",
                "vkubelet.io/home-cluster": "h-1",
                "vkubelet.io/peering": "cloud",
                "vkubelet.io/virtual-node": "vn",
                "vkubelet.io/home-pod-uid": "p-1",
            },
            "annotations": {
                "note": "x",
                "vkubelet.io/virtual-node": "vn",
                "vkubelet.io/home-namespace": "shop",
                "vkubelet.io/home-name": "web-1",
                "vkubelet.io/home-generation": "1",
            },
            "ownerReferences": [ANCHOR],
        },
        "spec": {
            "containers": [{"name": "app", "image": "web:1"}],
            "enableServiceLinks": False,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "automountServiceAccountToken": False,
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {
                                "matchExpressions": [
                                    {
                                        "key": "type",
                                        "operator": "NotIn",
                                        "values": ["virtual-kubelet"],
                                    }
                                ]
                            }
                        ]
                    }
                }
            },
            "tolerations": [
                {
                    "key": "node.kubernetes.io/not-ready",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                },
                {"key": "spot", "operator": "Exists"},
            ],
        },
    }


def test_the_home_pod_is_not_changed() -> None:
    pod = home_pod(
        initContainers=[{"name": "i", "volumeMounts": [TOKEN_MOUNT]}],
        affinity={"podAffinity": {}},
        nodeSelector={"type": "virtual-kubelet"},
        readinessGates=[{"conditionType": "x"}],
    )
    before = copy.deepcopy(pod)
    translated = translate_pod(pod, CONTEXT)
    translated.pod["metadata"]["ownerReferences"] = []
    translated.pod["metadata"]["labels"]["x"] = "y"
    assert pod == before


def test_the_anchor_may_come_later() -> None:
    context = TranslationContext(
        home_cluster_uid="h",
        peering="p",
        remote_namespace="n",
        node=CONTEXT.node,
        selection=CONTEXT.selection,
    )
    assert "ownerReferences" not in translate_pod(home_pod(), context).pod["metadata"]


def test_labels_of_ours_cannot_be_forged() -> None:
    pod = home_pod()
    pod["metadata"]["labels"] = {"vkubelet.io/peering": "other", "vkubelet.io/x": "1", "a": "b"}
    pod["metadata"]["annotations"] = {"vkubelet.io/home-namespace": "kube-system"}
    metadata = translate_pod(pod, CONTEXT).pod["metadata"]
    assert metadata["labels"]["vkubelet.io/peering"] == "cloud"
    assert "vkubelet.io/x" not in metadata["labels"]
    assert metadata["annotations"]["vkubelet.io/home-namespace"] == "shop"


def test_what_kubectl_apply_remembers_of_home_does_not_travel() -> None:
    pod = home_pod()
    pod["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}"}
    annotations = translate_pod(pod, CONTEXT).pod["metadata"]["annotations"]
    assert all(key.startswith("vkubelet.io/") for key in annotations)


def test_a_long_node_name_is_a_valid_label_and_stands_in_full_in_the_annotation() -> None:
    name = "n" * 200
    context = TranslationContext(
        home_cluster_uid="h",
        peering="p",
        remote_namespace="n",
        node=VirtualNodeView(name),
        selection=CONTEXT.selection,
    )
    metadata = translate_pod(home_pod(), context).pod["metadata"]
    assert is_label_value(metadata["labels"]["vkubelet.io/virtual-node"])
    assert metadata["annotations"]["vkubelet.io/virtual-node"] == name


def test_a_pod_without_labels_and_annotations() -> None:
    pod = home_pod()
    del pod["metadata"]["labels"], pod["metadata"]["annotations"]
    assert set(translate_pod(pod, CONTEXT).pod["metadata"]["labels"]) == {
        "vkubelet.io/home-cluster",
        "vkubelet.io/peering",
        "vkubelet.io/virtual-node",
        "vkubelet.io/home-pod-uid",
    }


def test_fields_newer_than_this_code_survive() -> None:
    pod = home_pod(
        containers=[{"name": "app", "restartPolicyRules": [1], "env": [{"name": "A", "new": 1}]}],
        initContainers=[{"name": "side", "restartPolicy": "Always", "newer": {"a": [1]}}],
        brandNew={"deep": [{"x": None}]},
    )
    spec = translate_pod(pod, CONTEXT).pod["spec"]
    assert spec["brandNew"] == {"deep": [{"x": None}]}
    assert spec["containers"][0]["restartPolicyRules"] == [1]
    assert spec["containers"][0]["env"] == [{"name": "A", "new": 1}]
    assert spec["initContainers"] == [
        {"name": "side", "restartPolicy": "Always", "newer": {"a": [1]}}
    ]


def test_token_mounts_go_from_every_kind_of_container_and_others_stay() -> None:
    data = {"name": "data", "mountPath": "/data"}
    pod = home_pod(
        containers=[{"name": "app", "volumeMounts": [data, TOKEN_MOUNT]}],
        initContainers=[{"name": "init", "volumeMounts": [TOKEN_MOUNT, data]}],
        ephemeralContainers=[{"name": "debug", "volumeMounts": [TOKEN_MOUNT]}],
        volumes=[TOKEN_VOLUME, {"name": "data", "emptyDir": {}}],
    )
    spec = translate_pod(pod, CONTEXT).pod["spec"]
    assert spec["volumes"] == [{"name": "data", "emptyDir": {}}]
    assert spec["containers"][0]["volumeMounts"] == [data]
    assert spec["initContainers"][0]["volumeMounts"] == [data]
    assert "ephemeralContainers" not in spec


@pytest.mark.parametrize("given", [{}, {"automountServiceAccountToken": True}, {"volumes": []}])
def test_automount_is_always_off(given: dict[str, Any]) -> None:
    assert (
        translate_pod(home_pod(**given), CONTEXT).pod["spec"]["automountServiceAccountToken"]
        is False
    )


def test_containers_see_homes_names() -> None:
    def variable(name: str, path: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    env = [
        variable("NAME", "metadata.name"),
        variable("NAMESPACE", "metadata.namespace"),
        variable("NODE", "spec.nodeName"),
        variable("HOST", "status.hostIP"),
    ]
    pod = home_pod(
        containers=[{"name": "app", "env": env}], initContainers=[{"name": "i", "env": env}]
    )
    spec = translate_pod(pod, CONTEXT).pod["spec"]
    expected = [
        variable("NAME", "metadata.name"),
        {"name": "NAMESPACE", "value": "shop"},
        {"name": "NODE", "value": "vn"},
        variable("HOST", "status.hostIP"),
    ]
    assert spec["containers"][0]["env"] == expected
    assert spec["initContainers"][0]["env"] == expected


def test_order_of_variables_is_kept() -> None:
    env = [{"name": f"V{number}", "value": str(number)} for number in range(20)]
    pod = home_pod(containers=[{"name": "app", "env": env}])
    assert translate_pod(pod, CONTEXT).pod["spec"]["containers"][0]["env"] == env


@pytest.mark.parametrize(
    ("spec", "warning"),
    [
        ({"serviceAccountName": "builder"}, "serviceAccountName builder doesn't travel"),
        ({"schedulerName": "volcano"}, "schedulerName volcano doesn't travel"),
        ({"priorityClassName": "high"}, "priorityClassName high doesn't travel"),
        (
            {"tolerations": [{"key": "team", "operator": "Exists"}]},
            "tolerations team don't travel",
        ),
        (
            {"volumes": [{**TOKEN_VOLUME, "name": "vault"}]},
            "volume 'vault' doesn't travel: it holds a service-account token",
        ),
        (
            {
                "topologySpreadConstraints": [
                    {
                        "topologyKey": "zone",
                        "whenUnsatisfiable": "DoNotSchedule",
                        "minDomains": 3,
                    }
                ]
            },
            "topologySpreadConstraint on zone travels, but",
        ),
    ],
)
def test_what_a_user_asked_for_and_does_not_travel_is_told(
    spec: dict[str, Any], warning: str
) -> None:
    translated = translate_pod(home_pod(**spec), CONTEXT)
    assert len(translated.warnings) == 1
    assert translated.warnings[0].startswith(warning)


@pytest.mark.parametrize("soft", [{}, {"minDomains": 1}, {"nodeAffinityPolicy": "Honor"}])
def test_spread_constraints_travel_as_they_are(soft: dict[str, Any]) -> None:
    constraint = {
        "topologyKey": "kubernetes.io/hostname",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        **soft,
    }
    translated = translate_pod(home_pod(topologySpreadConstraints=[constraint]), CONTEXT)
    assert translated.pod["spec"]["topologySpreadConstraints"] == [constraint]
    assert translated.warnings == ()


def test_a_spread_over_what_no_physical_node_has_is_left_out_with_a_word() -> None:
    constraint = {"topologyKey": "rack", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    translated = translate_pod(home_pod(topologySpreadConstraints=[constraint]), CONTEXT)
    assert "topologySpreadConstraints" not in translated.pod["spec"]
    (warning,) = translated.warnings
    assert warning.startswith("topologySpreadConstraint on rack doesn't travel")


def test_pods_that_keep_apart_keep_apart_over_there() -> None:
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "zone"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    translated = translate_pod(home_pod(affinity=affinity), CONTEXT)
    assert translated.warnings == ()
    found = translated.pod["spec"]["affinity"]
    (there,) = found["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert there["labelSelector"]["matchExpressions"][0]["values"] == ["h-1"]
    assert "nodeAffinity" in found


def test_where_the_virtual_node_is_does_not_travel() -> None:
    """The API server labels bound pods so; over there it does so by the physical node."""
    zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
    node = VirtualNodeView("vn", {zone: "z-1", region: "cloud"})
    pod = home_pod()
    pod["metadata"]["labels"] = {zone: "z-1", region: "of-the-user", "app": "web"}
    translated = translate_pod(pod, dataclasses.replace(CONTEXT, node=node))
    labels = translated.pod["metadata"]["labels"]
    assert {key for key in labels if not key.startswith("vkubelet.io/")} == {region, "app"}


SAMPLES = {
    "name": "app",
    "ports": [{"containerPort": 80}],
    "resourceClaims": [{"name": "gpu"}],
}


def fields_of(table: dict[str, FieldRule], *treatments: Treatment) -> list[str]:
    return [name for name, rule in table.items() if rule.treatment in treatments]


@pytest.mark.parametrize("name", fields_of(POD_SPEC_FIELDS, Treatment.TRAVELS))
def test_what_the_table_lets_travel_travels(name: str) -> None:
    value = {"sample": "x"}
    assert translate_pod(home_pod(**{name: value}), CONTEXT).pod["spec"][name] is value


@pytest.mark.parametrize("name", fields_of(POD_SPEC_FIELDS, Treatment.REMOVED))
def test_what_the_table_removes_is_not_there(name: str) -> None:
    value = [{"name": "x", "image": "y"}] if name == "ephemeralContainers" else "x"
    assert name not in translate_pod(home_pod(**{name: value}), CONTEXT).pod["spec"]


@pytest.mark.parametrize("name", fields_of(POD_SPEC_FIELDS, Treatment.REFUSED))
def test_what_the_table_refuses_is_refused(name: str) -> None:
    with pytest.raises(RefusedError):
        translate_pod(home_pod(**{name: SAMPLES.get(name, True)}), CONTEXT)


@pytest.mark.parametrize("name", fields_of(CONTAINER_FIELDS, Treatment.TRAVELS))
def test_what_the_table_lets_travel_of_a_container_travels(name: str) -> None:
    value = SAMPLES.get(name, {"sample": "x"})
    containers = [{"name": "app", name: value}]
    (there,) = translate_pod(home_pod(containers=containers), CONTEXT).pod["spec"]["containers"]
    assert there[name] == value


@pytest.mark.parametrize("name", fields_of(VOLUME_FIELDS, Treatment.TRAVELS))
def test_volumes_that_the_table_lets_travel_travel(name: str) -> None:
    volume = {"name": "data", name: {"sample": "x"}} if name != "name" else {"name": "data"}
    assert translate_pod(home_pod(volumes=[volume]), CONTEXT).pod["spec"]["volumes"] == [volume]


@pytest.mark.parametrize("name", fields_of(VOLUME_FIELDS, Treatment.REFUSED))
def test_volumes_that_the_table_refuses_are_refused(name: str) -> None:
    with pytest.raises(RefusedError):
        translate_pod(home_pod(volumes=[{"name": "data", name: {}}]), CONTEXT)


@pytest.mark.parametrize("name", fields_of(PROJECTION_FIELDS, Treatment.REFUSED))
def test_projections_that_the_table_refuses_are_refused(name: str) -> None:
    volume = {"name": "data", "projected": {"sources": [{name: {}}]}}
    with pytest.raises(RefusedError):
        translate_pod(home_pod(volumes=[volume]), CONTEXT)


def test_a_pod_that_uses_a_claim_is_refused() -> None:
    pod = home_pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}])
    with pytest.raises(RefusedError, match="volume 'v' uses PersistentVolumeClaim c"):
        translate_pod(pod, CONTEXT)


NAMES = CONTEXT.names("shop")


def test_references_are_to_the_copies_and_an_annotation_tells_what_is_needed() -> None:
    pod = home_pod(
        volumes=[TOKEN_VOLUME, {"name": "v", "configMap": {"name": "c", "optional": True}}],
        imagePullSecrets=[{"name": "registry"}],
        containers=[
            {
                "name": "app",
                "envFrom": [{"secretRef": {"name": "s"}, "prefix": "P_"}],
                "env": [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}],
            }
        ],
    )
    remote = translate_pod(pod, CONTEXT).pod
    spec = remote["spec"]
    assert spec["volumes"] == [
        {"name": "v", "configMap": {"name": NAMES.copy("ConfigMap", "c"), "optional": True}}
    ]
    assert spec["imagePullSecrets"] == [{"name": NAMES.copy("Secret", "registry")}]
    assert spec["containers"][0]["envFrom"] == [
        {"secretRef": {"name": NAMES.copy("Secret", "s")}, "prefix": "P_"}
    ]
    reference = spec["containers"][0]["env"][0]["valueFrom"]["configMapKeyRef"]
    assert reference == {"name": NAMES.copy("ConfigMap", "c"), "key": "k"}
    assert remote["metadata"]["annotations"]["vkubelet.io/dependents"] == (
        "ConfigMap/c,Secret/s,Secret/registry"
    )


def with_access(access: ApiAccess) -> TranslationContext:
    server = ApiServerAddress("api.home.example", 6443) if access is ApiAccess.HOME else None
    return dataclasses.replace(CONTEXT, api_access=access, home_api_server=server)


def test_tokens_of_home_come_from_secrets() -> None:
    pod = home_pod(serviceAccountName="builder")
    translated = translate_pod(pod, with_access(ApiAccess.HOME))
    assert translated.warnings == ()
    spec = translated.pod["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in spec
    token, certificate, downward = spec["volumes"][0]["projected"]["sources"]
    assert token == {
        "secret": {
            "name": NAMES.token("p-1", "kube-api-access-x2k4p", 0),
            "items": [{"key": "token", "path": "token"}],
        }
    }
    assert certificate["configMap"] == {
        "name": NAMES.copy("ConfigMap", "kube-root-ca.crt"),
        "items": [{"key": "ca.crt"}],
    }
    assert "downwardAPI" in downward
    assert spec["containers"][0]["volumeMounts"] == [TOKEN_MOUNT]
    assert spec["containers"][0]["env"] == [
        {"name": "KUBERNETES_SERVICE_HOST", "value": "api.home.example"},
        {"name": "KUBERNETES_SERVICE_PORT", "value": "6443"},
    ]
    annotations = translated.pod["metadata"]["annotations"]
    assert annotations["vkubelet.io/dependents"] == "ConfigMap/kube-root-ca.crt"


def test_a_container_that_says_where_the_server_is_has_the_last_word() -> None:
    env = [{"name": "KUBERNETES_SERVICE_HOST", "value": "own"}]
    pod = home_pod(containers=[{"name": "app", "env": env}])
    (container,) = translate_pod(pod, with_access(ApiAccess.HOME)).pod["spec"]["containers"]
    assert container["env"] == [{"name": "KUBERNETES_SERVICE_PORT", "value": "6443"}, *env]


def test_with_remote_access_the_account_travels_and_tokens_are_made_over_there() -> None:
    vault = {**TOKEN_VOLUME, "name": "vault"}
    mounts = [TOKEN_MOUNT, {"name": "vault", "mountPath": "/vault"}]
    pod = home_pod(
        serviceAccountName="builder",
        serviceAccount="builder",
        volumes=[TOKEN_VOLUME, vault],
        containers=[{"name": "app", "volumeMounts": mounts}],
    )
    translated = translate_pod(pod, with_access(ApiAccess.REMOTE))
    assert translated.warnings == ()
    spec = translated.pod["spec"]
    assert spec["serviceAccountName"] == "builder"
    assert "automountServiceAccountToken" not in spec
    assert [volume["name"] for volume in spec["volumes"]] == ["vault"]
    sources = spec["volumes"][0]["projected"]["sources"]
    assert sources[0] == TOKEN_VOLUME["projected"]["sources"][0]  # type: ignore[index]
    assert sources[1]["configMap"]["name"] == "kube-root-ca.crt"
    assert spec["containers"][0]["volumeMounts"] == mounts[1:]
    assert "env" not in spec["containers"][0]
    assert "vkubelet.io/dependents" not in translated.pod["metadata"]["annotations"]


def test_of_a_volume_with_a_secret_just_the_token_stays_at_home() -> None:
    volume = {
        "name": "mixed",
        "projected": {"sources": [{"serviceAccountToken": {}}, {"secret": {"name": "s"}}]},
    }
    translated = translate_pod(home_pod(volumes=[volume]), CONTEXT)
    (kept,) = translated.pod["spec"]["volumes"]
    assert kept["projected"]["sources"] == [{"secret": {"name": NAMES.copy("Secret", "s")}}]
    assert translated.warnings == (
        "volume 'mixed' travels without its service-account token: --api-access is none",
    )


def test_a_pod_whose_own_constraints_fail_is_refused() -> None:
    with pytest.raises(RefusedError, match="nodeSelector type=real"):
        translate_pod(home_pod(nodeSelector={"type": "real"}), CONTEXT)
