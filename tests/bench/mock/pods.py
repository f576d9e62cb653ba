"""Pods of the mock clusters: those that are asked for at home, and how the remote ones fare."""

import asyncio
import uuid
from dataclasses import dataclass

from tests.bench.mock.api import MockApi
from tests.bench.mock.store import Body, Key, format_now
from vkubelet.kube.objects import CONFIG_MAPS, PODS, SECRETS

SCHEDULE_SECONDS = 0.010
START_SECONDS = 0.050
STOP_SECONDS = 0.020


@dataclass(slots=True)
class Course:
    """When a pod came where, by the loop's clock; 0.0: not yet."""

    asked: float
    created: float = 0.0
    running: float = 0.0
    shown: float = 0.0
    remote_key: Key = ("", "")


class RemoteNodes:
    """Scheduler and kubelets of the remote cluster, as far as a pod notices."""

    def __init__(self, api: MockApi, nodes: int, courses: dict[str, Course]) -> None:
        self._api = api
        self._pods = api.collection(PODS)
        self._nodes = nodes
        self._courses = courses
        self._next_node = 0
        self._next_address = 0
        api.on_pod = self._on_pod
        api.on_delete = self._on_delete

    def _course(self, body: Body) -> Course | None:
        labels = body["metadata"].get("labels", {})
        return self._courses.get(labels.get("vkubelet.io/home-pod-uid", ""))

    def _on_pod(self, key: Key, body: Body, created: bool) -> None:
        if not created:
            return
        loop = asyncio.get_running_loop()
        course = self._course(body)
        if course is not None:
            course.created = loop.time()
            course.remote_key = key
        loop.call_later(SCHEDULE_SECONDS, self._bind, key)

    def _bind(self, key: Key) -> None:
        stored = self._pods.objects.get(key)
        if stored is None:
            return
        self._next_node = (self._next_node + 1) % self._nodes
        spec = {**stored.body["spec"], "nodeName": f"node-{self._next_node:05d}"}
        scheduled = _condition("PodScheduled")
        status = {**stored.body["status"], "conditions": [scheduled]}
        self._pods.put(key, {**stored.body, "spec": spec, "status": status})
        asyncio.get_running_loop().call_later(START_SECONDS, self._start, key)

    def _start(self, key: Key) -> None:
        stored = self._pods.objects.get(key)
        if stored is None:
            return
        self._next_address += 1
        address = f"10.{self._next_address >> 16}.{self._next_address >> 8 & 255}"
        address += f".{self._next_address & 255}"
        kinds = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
        status = {
            **stored.body["status"],
            "phase": "Running",
            "startTime": format_now(),
            "hostIP": "10.0.0.1",
            "hostIPs": [{"ip": "10.0.0.1"}],
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [_condition(kind) for kind in kinds],
            "containerStatuses": [_container(item) for item in stored.body["spec"]["containers"]],
        }
        body = self._pods.put(key, {**stored.body, "status": status}).body
        course = self._course(body)
        if course is not None:
            course.running = asyncio.get_running_loop().time()

    def _on_delete(self, key: Key, body: Body, grace_seconds: int | None) -> bool:
        if grace_seconds == 0 or not body["spec"].get("nodeName"):
            return True
        if "deletionTimestamp" not in body["metadata"]:
            asyncio.get_running_loop().call_later(STOP_SECONDS, self._stop, key)
        return False

    def _stop(self, key: Key) -> None:
        if key in self._pods.objects:
            self._pods.remove(key)


class HomePods:
    """Whoever asks for pods at home, and looks at how they are."""

    def __init__(self, api: MockApi, courses: dict[str, Course], namespaces: int) -> None:
        self._api = api
        self._pods = api.collection(PODS)
        self._courses = courses
        self._namespaces = namespaces
        self._count = 0
        api.on_pod = self._on_pod
        api.on_delete = lambda _key, _body, grace: grace == 0

    def create(self, node: str, *, dependents: bool) -> None:
        """Ask for one more pod on a virtual node."""
        number = self._count
        self._count += 1
        namespace = f"team-{number % self._namespaces}"
        uid = str(uuid.uuid4())
        name = f"application-{number:06d}-x2x8z"
        if dependents:
            self._create_dependents(namespace, name)
        body = build_pod(namespace, name, node, dependents=dependents)
        body["metadata"]["uid"] = uid
        self._courses[uid] = Course(asked=asyncio.get_running_loop().time())
        self._pods.put((namespace, name), body)

    def delete_all(self) -> None:
        """Ask for the deletion of all pods."""
        for key in list(self._pods.objects):
            self._api.mark_deleted(key, 30)

    def _create_dependents(self, namespace: str, name: str) -> None:
        for resource, data in (
            (CONFIG_MAPS, {"data": {"settings.yaml": "level: info\n" * 20}}),
            (SECRETS, {"type": "Opaque", "data": {"password": "c2VjcmV0" * 10}}),
        ):
            metadata = {"namespace": namespace, "name": name}
            self._api.collection(resource).put((namespace, name), {"metadata": metadata, **data})

    def _on_pod(self, key: Key, body: Body, _created: bool) -> None:
        course = self._courses.get(body["metadata"]["uid"])
        if course is not None and not course.shown and body["status"].get("phase") == "Running":
            course.shown = asyncio.get_running_loop().time()


def build_pod(namespace: str, name: str, node: str, *, dependents: bool) -> Body:
    """Build a pod as an API server has it that is bound to a node: some 3.5 KiB."""
    token_mount = {
        "name": "kube-api-access-x2x8z",
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        "readOnly": True,
    }
    env: list[Body] = [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(5)]
    volumes: list[Body] = [_build_token_volume(str(token_mount["name"]))]
    mounts = [token_mount]
    if dependents:
        volumes.append({"name": "settings", "configMap": {"name": name, "defaultMode": 420}})
        mounts.append({"name": "settings", "mountPath": "/etc/settings", "readOnly": True})
        reference = {"name": name, "key": "password"}
        env.append({"name": "PASSWORD", "valueFrom": {"secretKeyRef": reference}})
    container = {
        "name": "main",
        "image": "registry.example/team/application:v1.2.3",
        "imagePullPolicy": "IfNotPresent",
        "env": env,
        "resources": {
            "requests": {"cpu": "100m", "memory": "128Mi"},
            "limits": {"memory": "256Mi"},
        },
        "volumeMounts": mounts,
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    }
    tolerations = [
        {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute"}
        | {"tolerationSeconds": 300}
        for taint in ("not-ready", "unreachable")
    ]
    owner = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "application-7d4b9c6f5",
        "uid": "10000000-0000-4000-8000-000000000000",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    fields: Body = {f"f:field-{number}": {} for number in range(40)}
    return {
        "metadata": {
            "name": name,
            "namespace": namespace,
            "generation": 1,
            "labels": {"app": "application", "pod-template-hash": "7d4b9c6f5"},
            "ownerReferences": [owner],
            "managedFields": [
                {
                    "manager": "kube-controller-manager",
                    "operation": "Update",
                    "apiVersion": "v1",
                    "time": "2026-01-01T00:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": fields},
                }
            ],
        },
        "spec": {
            "nodeName": node,
            "containers": [container],
            "volumes": volumes,
            "tolerations": tolerations,
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "serviceAccountName": "default",
            "serviceAccount": "default",
            "securityContext": {},
            "schedulerName": "default-scheduler",
            "priority": 0,
            "preemptionPolicy": "PreemptLowerPriority",
            "enableServiceLinks": True,
        },
        "status": {
            "phase": "Pending",
            "qosClass": "Burstable",
            "conditions": [_condition("PodScheduled")],
        },
    }


def _build_token_volume(name: str) -> Body:
    certificate = {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}
    namespace = {
        "path": "namespace",
        "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"},
    }
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": certificate},
        {"downwardAPI": {"items": [namespace]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}


def _condition(kind: str) -> Body:
    return {
        "type": kind,
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": format_now(),
    }


def _container(spec: Body) -> Body:
    return {
        "name": spec["name"],
        "state": {"running": {"startedAt": format_now()}},
        "lastState": {},
        "ready": True,
        "restartCount": 0,
        "started": True,
        "image": spec["image"],
        "imageID": "registry.example/team/application@sha256:" + "0" * 64,
        "containerID": f"containerd://{uuid.uuid4().hex}{uuid.uuid4().hex}",
    }
