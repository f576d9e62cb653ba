"""What both APIs show in the end, held against what may be."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.cluster.chaos.churn import COPIES, OURS, SELECTOR, Churn, list_objects
from tests.cluster.product.cloud import HOME_POD_UID, condition_of

_CONTENTS = ("data", "binaryData", "immutable", "type")


@dataclass(frozen=True)
class View:
    """Both sides at a moment; UIDs are of home pods."""

    pods: dict[str, dict[str, Any]]
    remote_pods: list[dict[str, Any]]
    settings: dict[tuple[str, str], dict[str, Any]]
    copies: list[dict[str, Any]]
    others: list[dict[str, Any]]

    @property
    def behind(self) -> dict[str, dict[str, Any]]:
        """The remote pods by UID of their home pod."""
        return {pod["metadata"]["labels"][HOME_POD_UID]: pod for pod in self.remote_pods}


async def look(churn: Churn) -> View:
    """Look at both sides."""
    here = f"-n={churn.namespace}"
    pods = await list_objects(churn.home, "pods", here, f"-l={SELECTOR}")
    settings = await list_objects(churn.home, "configmaps,secrets", here)
    copies = await list_objects(churn.remote, "configmaps,secrets", "-A", f"-l={COPIES}")
    without = f"-l={OURS},!vkubelet.io/dependent"
    return View(
        pods={pod["metadata"]["uid"]: pod for pod in pods},
        remote_pods=await list_objects(churn.remote, "pods", "-A", f"-l={OURS}"),
        settings={(item["kind"], item["metadata"]["name"]): item for item in settings},
        copies=copies,
        others=await list_objects(churn.remote, "configmaps,secrets", "-A", without),
    )


async def find_trouble(churn: Churn) -> list[str]:
    """Say what isn't (yet) as it has to be in the end."""
    view = await look(churn)
    return [
        *_judge_presence(churn, view),
        *_judge_phases(churn, view),
        *_judge_copies(view),
        *_judge_anchors(view),
    ]


def _judge_presence(churn: Churn, view: View) -> Iterator[str]:
    names = {pod["metadata"]["name"] for pod in view.pods.values()}
    wanted = set(churn.living)
    for name in wanted - names:
        yield f"{name} should be there"
    for name in names - wanted:
        yield f"{name} should be gone"
    counts = Counter(pod["metadata"]["labels"][HOME_POD_UID] for pod in view.remote_pods)
    for uid, count in counts.items():
        if uid not in view.pods:
            yield f"a remote pod of {uid}, which is gone"
        elif count > 1:
            yield f"{view.pods[uid]['metadata']['name']} has {count} remote pods"


def _judge_phases(churn: Churn, view: View) -> Iterator[str]:
    for uid, pod in view.pods.items():
        name, phase = pod["metadata"]["name"], pod["status"]["phase"]
        behind = view.behind.get(uid)
        if pod["metadata"].get("deletionTimestamp"):
            yield f"{name} is still being deleted"
        elif phase == "Failed" and uid in churn.struck and churn.policies[name] == "Never":
            if condition_of(pod, "DisruptionTarget").get("status") != "True":
                yield f"{name} has Failed as if by itself"
        elif phase not in ("Running", "Succeeded"):
            yield f"{name} is {phase}: {pod['status'].get('message', '')}"
        elif behind is None and phase == "Running":
            yield f"{name} is Running without a remote pod"
        if behind is not None:
            yield from _judge_agreement(name, pod, behind)


def _judge_agreement(name: str, pod: dict[str, Any], behind: dict[str, Any]) -> Iterator[str]:
    phase, there = pod["status"]["phase"], behind["status"]["phase"]
    if phase != there:
        yield f"{name} is {phase}, and {there} over there"
    for kind in ("Ready", "ContainersReady", "Initialized"):
        said, true = (condition_of(item, kind).get("status") for item in (pod, behind))
        if said != true:
            yield f"{name} is {kind} {said}, and {true} over there"
    if phase == "Running":
        generation = pod["metadata"]["generation"]
        if pod["status"].get("observedGeneration") != generation:
            yield f"{name}: generation {generation} isn't observed"


def _judge_copies(view: View) -> Iterator[str]:
    needed = {
        need
        for uid, pod in view.pods.items()
        if uid in view.behind
        for volume in pod["spec"].get("volumes", ())
        if (need := _need_of(volume)) is not None
    }
    found = Counter(_origin(copy) for copy in view.copies)
    for origin in needed - found.keys():
        yield f"no copy of {origin}, which is needed"
    for origin in found.keys() - needed:
        yield f"a copy of {origin}, which nobody needs"
    for copy in view.copies:
        original = view.settings.get(_origin(copy), {})
        if any(copy.get(key) != original.get(key) for key in _CONTENTS):
            yield f"the copy of {_origin(copy)} differs"
    for origin, count in found.items():
        if count > 1:
            yield f"{count} copies of {origin}"


def _judge_anchors(view: View) -> Iterator[str]:
    names = Counter(
        (item["kind"], item["metadata"]["namespace"])
        for item in view.others
        if item["metadata"]["name"].startswith("vkubelet-")
    )
    if len(view.others) != len(names) or any(kind != "ConfigMap" for kind, _ in names):
        yield f"more than anchors: {[item['metadata']['name'] for item in view.others]}"
    uids = {item["metadata"]["uid"] for item in view.others}
    for item in (*view.remote_pods, *view.copies):
        owners = {owner["uid"] for owner in item["metadata"].get("ownerReferences", ())}
        if not owners or not owners <= uids:
            yield f"{item['metadata']['name']} isn't the anchor's"


def _need_of(volume: dict[str, Any]) -> tuple[str, str] | None:
    if volume["name"] != "settings":
        return None
    if "configMap" in volume:
        return "ConfigMap", volume["configMap"]["name"]
    return "Secret", volume["secret"]["secretName"]


def _origin(copy: dict[str, Any]) -> tuple[str, str]:
    return copy["kind"], copy["metadata"]["annotations"]["vkubelet.io/home-name"]


def find_repeated(churn: Churn) -> list[str]:
    """Name the pods whose containers were started more often than they may."""
    struck = set(churn.struck.values())
    repeated = []
    for file in sorted(churn.folder.iterdir()):
        starts = len(file.read_text().splitlines())
        again = file.name in struck and churn.policies[file.name] == "Always"
        if starts > 1 + again:
            repeated.append(f"{file.name} ({churn.policies[file.name]}) was started {starts} times")
    return repeated
