import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.process_nodes.reaper import find_marked
from tests.process_nodes.running import (
    ADDRESS,
    NODE,
    RunningProvider,
    build_container,
    build_pod,
    refer,
    run_provider,
)
from vkubelet.errors import RefusedError, RequestError
from vkubelet.interface import Gone, LogStream, PodRef, PodStatus, Synced
from vkubelet.kube.objects import KubeObject

# Ends by itself when SIGTERM comes, with the code that is given.
OBEDIENT = "trap 'echo stopping; exit %d' TERM; echo ready; while :; do sleep 1 & wait; done"
STUBBORN = "trap '' TERM; echo ready; while :; do sleep 1 & wait; done"


def is_ready(status: KubeObject) -> bool:
    return all(container["ready"] for container in status["containerStatuses"])


def has_restarted(times: int) -> Any:
    return lambda status: status["containerStatuses"][0]["restartCount"] >= times


async def wait_line(running: RunningProvider, ref: PodRef, line: bytes, **options: Any) -> None:
    async with (
        asyncio.timeout(10),
        aclosing(running.follow(ref, **options)) as chunks,
    ):
        text = b""
        async for chunk in chunks:
            text += chunk
            if line in text.splitlines():
                return
    raise AssertionError(text)


async def test_a_pod_runs_and_succeeds(running: RunningProvider) -> None:
    script = 'echo "$GREETING from $(pwd)"; echo oops >&2; exit 0'
    container = build_container(script, env=[{"name": "GREETING", "value": "hi"}], workingDir="w")
    ref = await running.start(build_pod(container, restartPolicy="Never"))
    status = await running.wait_phase(ref, "Succeeded")
    (found,) = status["containerStatuses"]
    terminated = found["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (0, "Completed")
    assert terminated["containerID"] == found["containerID"]
    assert found["containerID"].startswith("process://")
    assert terminated["startedAt"] <= terminated["finishedAt"]
    assert status["hostIP"] == ADDRESS
    assert status["podIP"].startswith("10.199.")
    assert {c["type"]: (c["status"], c.get("reason")) for c in status["conditions"]} == {
        "PodReadyToStartContainers": ("False", None),
        "Initialized": ("True", "PodCompleted"),
        "ContainersReady": ("False", "PodCompleted"),
        "Ready": ("False", "PodCompleted"),
    }
    assert (await running.read_log(ref, stream=LogStream.STDOUT)).endswith(b"/uid-1/w\n")
    assert await running.read_log(ref, stream=LogStream.STDERR) == b"oops\n"


@pytest.mark.parametrize(
    ("script", "code"), [("exit 7", 7), ("kill -KILL $$$$", 137), ("kill -TERM $$$$", 143)]
)
async def test_codes_and_signals(running: RunningProvider, script: str, code: int) -> None:
    ref = await running.start(build_pod(build_container(script), restartPolicy="Never"))
    status = await running.wait_phase(ref, "Failed")
    terminated = status["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (code, "Error")
    assert {c["reason"] for c in status["conditions"] if c["type"] == "Ready"} == {"PodFailed"}


async def test_a_command_that_cant_be_started(running: RunningProvider) -> None:
    container = {"name": "main", "command": ["no-such-program"]}
    ref = await running.start(build_pod(container, restartPolicy="Never"))
    status = await running.wait_phase(ref, "Failed")
    terminated = status["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["reason"]) == (128, "StartError")
    assert 'exec: "no-such-program": executable file not found in $PATH' in terminated["message"]


async def test_without_a_command_it_waits_for_its_end(running: RunningProvider) -> None:
    ref = await running.start(build_pod(build_container()))
    status = await running.wait_phase(ref, "Running")
    assert is_ready(status)
    await running.wait_gone(ref)


async def test_apply_is_idempotent_by_uid(running: RunningProvider) -> None:
    pod = build_pod(build_container("echo $$; exec sleep 60"))
    ref = await running.start(pod)
    first = await running.wait_status(ref, is_ready)
    await running.start(pod)
    again = await running.wait_status(ref, is_ready)
    assert again == first
    other = await running.start(build_pod(build_container(), uid="uid-2"))
    status = await running.wait_status(other, is_ready)
    assert status["podIP"] != first["podIP"]


async def test_an_env_from_elsewhere_is_refused(running: RunningProvider) -> None:
    pod = build_pod(build_container(envFrom=[{"secretRef": {"name": "x"}}]))
    with pytest.raises(RefusedError):
        await running.start(pod)
    async with aclosing(running.provider.watch_statuses()) as events:
        assert await anext(events) == Synced()


async def test_init_containers_run_one_after_another(running: RunningProvider) -> None:
    folder = "until [ -e go ]; do sleep 0.01; done; echo %s >> order"
    init = [build_container(folder % name, name=name) for name in ("a", "b")]
    ref = await running.start(
        build_pod(build_container("cat order; sleep 60"), initContainers=init)
    )
    status = await running.wait_status(
        ref, lambda status: "running" in status["initContainerStatuses"][0]["state"]
    )
    assert status["phase"] == "Pending"
    assert [
        c["state"] for c in status["containerStatuses"] + status["initContainerStatuses"][1:]
    ] == [{"waiting": {"reason": "PodInitializing"}}] * 2
    (initialized,) = (c for c in status["conditions"] if c["type"] == "Initialized")
    assert initialized["message"] == "containers with incomplete status: [a b]"
    await running.run(ref, "touch go", container="a")
    status = await running.wait_phase(ref, "Running")
    assert all(c["ready"] for c in status["initContainerStatuses"])
    await wait_line(running, ref, b"b")
    assert await running.read_log(ref) == b"a\nb\n"


async def test_a_failed_init_container_ends_a_pod_that_never_restarts(
    running: RunningProvider,
) -> None:
    init = [build_container("exit 1", name="init")]
    pod = build_pod(build_container("echo no"), initContainers=init, restartPolicy="Never")
    ref = await running.start(pod)
    status = await running.wait_phase(ref, "Failed")
    assert "waiting" in status["containerStatuses"][0]["state"]
    with pytest.raises(RequestError, match='"main" in pod "web" is waiting to start: PodInit'):
        await running.read_log(ref)


async def test_a_failing_container_is_restarted_with_back_off(running: RunningProvider) -> None:
    script = "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) | tee n; exit 3"
    ref = await running.start(build_pod(build_container(script)))
    status = await running.wait_status(
        ref,
        lambda status: (
            "waiting" in status["containerStatuses"][0]["state"] and has_restarted(1)(status)
        ),
    )
    (found,) = status["containerStatuses"]
    assert found["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    assert found["state"]["waiting"]["message"].startswith("back-off ")
    assert (
        "restarting failed container=main pod=web_shop(uid-1)"
        in found["state"]["waiting"]["message"]
    )
    assert found["lastState"]["terminated"]["exitCode"] == 3
    assert status["phase"] == "Running"
    status = await running.wait_status(ref, has_restarted(3))
    assert status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"] == 3


async def test_the_previous_log(running: RunningProvider) -> None:
    script = "if [ -e n ]; then echo second; exec sleep 60; fi; touch n; echo first; exit 1"
    ref = await running.start(build_pod(build_container(script), restartPolicy="OnFailure"))
    await running.wait_status(ref, lambda status: has_restarted(1)(status) and is_ready(status))
    await wait_line(running, ref, b"second")
    assert await running.read_log(ref, previous=True) == b"first\n"
    assert await running.read_log(ref) == b"second\n"


async def test_on_failure_ends_with_success(running: RunningProvider) -> None:
    script = "[ -e n ] || { touch n; exit 1; }"
    ref = await running.start(build_pod(build_container(script), restartPolicy="OnFailure"))
    status = await running.wait_phase(ref, "Succeeded")
    assert status["containerStatuses"][0]["restartCount"] == 1


async def test_the_kubelets_sentences_for_logs(running: RunningProvider) -> None:
    ref = await running.start(build_pod(build_container("exec sleep 60")))
    await running.wait_status(ref, is_ready)
    with pytest.raises(RequestError) as caught:
        await running.read_log(ref, previous=True)
    assert caught.value.code == 400
    assert str(caught.value) == 'previous terminated container "main" in pod "web" not found'
    with pytest.raises(RequestError) as caught:
        await running.read_log(ref, "other")
    assert caught.value.code == 404
    assert str(caught.value) == 'container "other" not found in pod "web"'
    with pytest.raises(RequestError) as caught:
        await running.read_log(PodRef("shop", "web", "uid-9"))
    assert caught.value.code == 400
    assert str(caught.value) == 'container "main" in pod "web" is not available'


async def test_deletion_gives_the_grace(running: RunningProvider) -> None:
    ref = await running.start(build_pod(build_container(OBEDIENT % 5)))
    await wait_line_when_started(running, ref)
    events = []
    async with (
        asyncio.timeout(10),
        aclosing(running.provider.watch_statuses()) as statuses,
    ):
        await anext(statuses)
        await running.provider.delete_pod(ref, grace_period_seconds=30)
        async for event in statuses:
            events.append(event)
            if event == Gone(ref):
                break
    last = events[-2]
    assert isinstance(last, PodStatus)
    assert last.deletion_timestamp
    assert last.node == NODE
    assert last.status["phase"] == "Failed"
    assert last.status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 5


async def test_another_call_shortens_the_grace(running: RunningProvider) -> None:
    ref = await running.start(build_pod(build_container(STUBBORN)))
    await wait_line_when_started(running, ref)
    await running.provider.delete_pod(ref, grace_period_seconds=None)
    await running.provider.delete_pod(ref, grace_period_seconds=600)
    await running.wait_gone(ref, grace_period_seconds=0)
    assert find_marked(running.provider.marker) == []


async def wait_line_when_started(running: RunningProvider, ref: PodRef) -> None:
    await running.wait_status(ref, is_ready)
    await wait_line(running, ref, b"ready")


async def test_a_pod_in_back_off_ends_at_once(running: RunningProvider) -> None:
    ref = await running.start(build_pod(build_container("exit 1")))
    await running.wait_status(ref, has_restarted(2))
    await running.wait_gone(ref)


async def test_an_ended_pod_stays_until_it_is_deleted(running: RunningProvider) -> None:
    ref = await running.start(build_pod(build_container("echo done"), restartPolicy="Never"))
    await running.wait_phase(ref, "Succeeded")
    assert await running.read_log(ref) == b"done\n"
    await running.wait_gone(ref)
    with pytest.raises(RequestError, match="is not available"):
        await running.read_log(ref)


async def test_deleting_what_isnt_there_says_gone(running: RunningProvider) -> None:
    await running.wait_gone(PodRef("shop", "web", "uid-9"))


async def test_another_uid_is_left_alone(running: RunningProvider) -> None:
    ref = await running.start(build_pod(build_container()))
    await running.wait_status(ref, is_ready)
    await running.wait_gone(PodRef(ref.namespace, ref.name, "uid-9"))
    await running.wait_status(ref, is_ready)


async def test_a_followed_log_ends_with_its_container(running: RunningProvider) -> None:
    script = "echo one; until [ -e go ]; do sleep 0.01; done; printf two"
    ref = await running.start(build_pod(build_container(script), restartPolicy="Never"))
    await running.wait_status(ref, is_ready)
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        reading = group.create_task(running.read_log(ref, follow=True))
        await wait_line(running, ref, b"one")
        await running.run(ref, "touch go")
    assert reading.result() == b"one\ntwo"


async def test_what_the_container_left_behind_is_killed(running: RunningProvider) -> None:
    script = "sleep 600 & setsid sleep 600 & (setsid sh -c 'sleep 600 & wait' &) ; exit 0"
    ref = await running.start(build_pod(build_container(script), restartPolicy="Never"))
    await running.wait_phase(ref, "Succeeded")
    assert find_marked(running.provider.marker) == []


async def test_closing_kills_everything(tmp_path: Path) -> None:
    async with run_provider(tmp_path) as running:
        for number in range(3):
            pod = build_pod(build_container(STUBBORN), name=f"web-{number}", uid=f"uid-{number}")
            await running.start(pod)
            await wait_line_when_started(running, refer(pod))
    assert find_marked(running.provider.marker) == []
