"""What pods need is there before them, follows home, and goes after them."""

import asyncio

import pytest

from provider.reflection.dependents import LINGER_SECONDS
from tests.fakes.api_server import ApiCall, FakeApiServer
from tests.provider.reflection.world import (
    NAMES,
    build_config_map,
    build_home_pod,
    build_secret,
    open_world,
    run_world,
    settle,
    use_config_map,
    use_secret,
)
from tests.provider.values import ANCHOR_NAME
from vkubelet.errors import RefusedError, RetryError
from vkubelet.interface import PodEvent, PodRef, Unblocked
from vkubelet.kube.objects import CONFIG_MAPS, PODS, SECRETS

pytestmark = pytest.mark.virtual_time

REF = PodRef("demo", "web", "uid-web")


def writes(remote: FakeApiServer) -> list[str]:
    """Writes of ConfigMaps and Secrets over there, but for the anchor's."""
    return [
        call.what
        for call in remote.requests
        if call.verb in ("create", "update", "patch", "delete")
        and call.target is not None
        and call.target.resource.plural in ("configmaps", "secrets")
        and (call.body or {}).get("metadata", {}).get("name") != ANCHOR_NAME
    ]


async def test_what_a_pod_needs_is_there_before_it() -> None:
    async with open_world() as world:
        world.home.put(build_config_map(key="value"))
        world.home.put(build_secret())
        spec = {
            **use_config_map(),
            "containers": [{"name": "c", "envFrom": [{"secretRef": {"name": "key"}}]}],
        }
        assert await world.apply(build_home_pod(**spec)) == []
        made = [
            call.body["kind"]
            for call in world.remote.calls("create *")
            if call.body["kind"] in ("ConfigMap", "Secret", "Pod")
            and call.body["metadata"]["name"] != ANCHOR_NAME
        ]
        assert made == ["ConfigMap", "Secret", "Pod"]
        copied = world.copies("ConfigMap")["settings"]
        assert copied["metadata"]["name"] == NAMES.copy("ConfigMap", "settings")
        assert copied["data"] == {"key": "value"}
        pod = world.remote.get(PODS, "demo-r", "web")
        assert pod["spec"]["volumes"][0]["configMap"]["name"] == copied["metadata"]["name"]
        (owner,) = copied["metadata"]["ownerReferences"]
        assert (owner["name"], owner["controller"]) == (ANCHOR_NAME, False)


async def test_nothing_of_homes_metadata_travels() -> None:
    async with open_world() as world:
        world.home.put(build_secret())
        await world.apply(build_home_pod(**use_secret()))
        metadata = world.copies("Secret")["key"]["metadata"]
        assert set(metadata["labels"]) == {
            "vkubelet.io/home-cluster",
            "vkubelet.io/peering",
            "vkubelet.io/dependent",
        }
        assert metadata["annotations"] == {
            "vkubelet.io/home-namespace": "demo",
            "vkubelet.io/home-name": "key",
        }


async def test_later_changes_follow_and_so_does_the_end() -> None:
    async with open_world() as world:
        world.home.put(build_config_map(a="1", b="2"))
        await world.apply(build_home_pod(**use_config_map()))
        world.home.put(build_config_map(a="3"))
        await settle()
        assert world.copies("ConfigMap")["settings"]["data"] == {"a": "3"}
        world.home.remove(CONFIG_MAPS, "demo", "settings")
        await settle()
        assert world.copies("ConfigMap") == {}
        world.home.put(build_config_map(a="4"))
        await settle()
        assert world.copies("ConfigMap")["settings"]["data"] == {"a": "4"}


async def test_what_is_missing_holds_the_pod_up_until_it_is_there() -> None:
    async with open_world() as world:
        pod = build_home_pod(**use_config_map())
        with pytest.raises(
            RefusedError, match='MandatoryConfigMapNotFound: configmap "settings" not found'
        ):
            await world.apply(pod)
        assert world.remote.objects(PODS) == []
        world.home.put(build_config_map("other"))
        await settle()
        assert world.events_of(Unblocked) == []
        world.home.put(build_config_map())
        await settle()
        assert world.events_of(Unblocked) == [Unblocked(REF)]
        assert world.copies("ConfigMap") == {}  # made with the pod
        await world.apply(pod)
        assert set(world.copies("ConfigMap")) == {"settings"}


async def test_a_secret_that_is_missing_is_told_in_its_own_words() -> None:
    async with open_world() as world:
        with pytest.raises(RefusedError, match='MandatorySecretNotFound: secret "key" not found'):
            await world.apply(build_home_pod(**use_secret()))


async def test_what_is_optional_is_skipped_and_follows() -> None:
    async with open_world() as world:
        await world.apply(build_home_pod(**use_secret(optional=True)))
        assert len(world.remote.objects(PODS)) == 1
        await settle()
        (event,) = world.events_of(PodEvent)
        assert (event.ref, event.reason) == (REF, "OptionalSecretNotFound")
        assert event.message.startswith('secret "key" not found')
        world.home.put(build_secret())
        await settle()
        assert set(world.copies("Secret")) == {"key"}


async def test_a_missing_pull_secret_is_only_warned_of() -> None:
    async with open_world() as world:
        (warning,) = await world.apply(build_home_pod(imagePullSecrets=[{"name": "registry"}]))
        assert warning.startswith('image pull secret "registry" not found')
        world.home.put(build_secret("registry", kind="kubernetes.io/dockerconfigjson"))
        await settle()
        copied = world.copies("Secret")["registry"]
        assert copied["type"] == "kubernetes.io/dockerconfigjson"


async def test_a_copy_goes_when_no_pod_needs_it_and_so_does_the_watch() -> None:
    async with open_world() as world:
        world.home.put(build_config_map())
        first = build_home_pod("a", uid="uid-a", **use_config_map())
        second = build_home_pod("b", uid="uid-b", **use_config_map())
        await world.apply(first)
        await world.apply(second)
        assert world.home.watch_count("watch configmaps") == 1
        await world.end(first)
        await settle(2 * LINGER_SECONDS)
        assert set(world.copies("ConfigMap")) == {"settings"}
        await world.end(second)
        await settle(LINGER_SECONDS / 2)
        assert set(world.copies("ConfigMap")) == {"settings"}
        await settle(LINGER_SECONDS)
        assert world.copies("ConfigMap") == {}
        assert world.home.watch_count("watch configmaps") == 0
        anchor = world.remote.find(CONFIG_MAPS, "demo-r", ANCHOR_NAME)
        assert anchor is not None


async def test_a_successor_finds_the_copy_of_its_predecessor() -> None:
    async with open_world() as world:
        world.home.put(build_config_map())
        first = build_home_pod(**use_config_map())
        await world.apply(first)
        before = writes(world.remote)
        await world.end(first)
        await settle(LINGER_SECONDS / 2)
        await world.apply(build_home_pod(uid="uid-next", **use_config_map()))
        await settle(2 * LINGER_SECONDS)
        assert writes(world.remote) == before


async def test_a_pod_that_goes_before_it_could_be_made_leaves_nothing() -> None:
    async with open_world() as world:
        pod = build_home_pod(**use_config_map())
        with pytest.raises(RefusedError):
            await world.apply(pod)
        world.home.remove(PODS, "demo", "web")
        await settle(2 * LINGER_SECONDS)
        assert world.home.watch_count("watch configmaps") == 0
        world.home.put(build_config_map())
        await settle()
        assert world.events_of(Unblocked) == []


async def test_a_pod_that_is_gone_already_is_not_waited_for() -> None:
    async with open_world() as world:
        with pytest.raises(RetryError, match="home pod demo/web is gone"):
            await world.pods.apply("cloud", build_home_pod(**use_config_map()))
        assert world.home.watch_count("watch configmaps") == 0


async def test_only_what_is_used_is_watched_and_never_the_whole_cluster() -> None:
    async with open_world() as world:
        await world.apply(build_home_pod())
        assert world.home.watch_count("watch configmaps") == 0
        world.home.put(build_secret())
        await world.apply(build_home_pod("b", uid="uid-b", **use_secret()))
        assert world.home.watch_count("watch configmaps") == 0
        watched = [call.path for call in world.home.calls("watch secrets")]
        assert watched == ["/api/v1/namespaces/demo/secrets"]


async def test_somebody_elses_object_of_that_name_is_left_alone() -> None:
    async with open_world() as world:
        world.home.put(build_config_map())
        name = NAMES.copy("ConfigMap", "settings")
        foreign = build_config_map(name, whose="theirs")
        foreign["metadata"]["namespace"] = "demo-r"
        world.remote.put(foreign)
        with pytest.raises(RefusedError, match=f"RemoteObjectNotOurs: .*demo-r/{name}"):
            await world.apply(build_home_pod(**use_config_map()))
        assert world.remote.get(CONFIG_MAPS, "demo-r", name)["data"] == {"whose": "theirs"}
        assert world.remote.objects(PODS) == []


async def test_an_immutable_object_that_was_made_anew_is_replaced() -> None:
    async with open_world() as world:
        world.home.put({**build_config_map(a="1"), "immutable": True})
        await world.apply(build_home_pod(**use_config_map()))
        before = world.copies("ConfigMap")["settings"]["metadata"]["uid"]
        world.home.remove(CONFIG_MAPS, "demo", "settings")
        world.home.put({**build_config_map(a="2"), "immutable": True})
        await settle()
        copied = world.copies("ConfigMap")["settings"]
        assert (copied["data"], copied["immutable"]) == ({"a": "2"}, True)
        assert copied["metadata"]["uid"] != before
        assert world.remote.calls("update configmaps") == []


async def test_a_secret_made_anew_with_another_type_is_replaced() -> None:
    async with open_world() as world:
        world.home.put(build_secret(kind="a/b"))
        await world.apply(build_home_pod(**use_secret()))
        world.home.put(build_secret(kind="c/d"))
        await settle()
        assert world.copies("Secret")["key"]["type"] == "c/d"
        assert world.remote.calls("update secrets") == []


async def test_an_account_token_travels_as_opaque() -> None:
    async with open_world() as world:
        world.home.put(build_secret(kind="kubernetes.io/service-account-token"))
        await world.apply(build_home_pod(**use_secret()))
        assert world.copies("Secret")["key"]["type"] == "Opaque"
        await settle(60)
        assert writes(world.remote) == ["create secrets"]


async def test_homes_certificate_is_beside_the_remote_clusters_own() -> None:
    async with open_world() as world:
        world.home.put(build_config_map("kube-root-ca.crt", ca="home"))
        own = build_config_map("kube-root-ca.crt", ca="remote")
        own["metadata"]["namespace"] = "demo-r"
        world.remote.put(own)
        await world.apply(build_home_pod(**use_config_map("kube-root-ca.crt")))
        assert world.copies("ConfigMap")["kube-root-ca.crt"]["data"] == {"ca": "home"}
        assert world.remote.get(CONFIG_MAPS, "demo-r", "kube-root-ca.crt")["data"] == {
            "ca": "remote"
        }


async def test_what_somebody_does_to_a_copy_is_undone() -> None:
    async with open_world() as world:
        world.home.put(build_secret())
        await world.apply(build_home_pod(**use_secret()))
        copied = world.copies("Secret")["key"]
        world.remote.put({**copied, "data": {"password": "ZWRpdGVk"}})
        await settle()
        assert world.copies("Secret")["key"]["data"] == build_secret()["data"]
        world.remote.remove(SECRETS, "demo-r", copied["metadata"]["name"])
        await settle()
        assert set(world.copies("Secret")) == {"key"}


async def test_a_copy_follows_an_anchor_that_was_made_anew() -> None:
    async with open_world() as world:
        world.home.put(build_config_map())
        await world.apply(build_home_pod(**use_config_map()))
        world.remote.remove(CONFIG_MAPS, "demo-r", ANCHOR_NAME)
        await settle(120)
        world.home.put(build_config_map(a="new"))
        await settle()
        anchor = world.remote.get(CONFIG_MAPS, "demo-r", ANCHOR_NAME)
        (owner,) = world.copies("ConfigMap")["settings"]["metadata"]["ownerReferences"]
        assert owner["uid"] == anchor["metadata"]["uid"]


@pytest.mark.parametrize("status", [409, 500, 429])
async def test_a_write_that_fails_is_made_again(status: int) -> None:
    async with open_world() as world:
        world.home.put(build_config_map(a="1"))
        await world.apply(build_home_pod(**use_config_map()))
        reason = "Conflict" if status == 409 else ""
        world.remote.fail_next("update configmaps", status, reason=reason, times=2)
        world.home.put(build_config_map(a="2"))
        await settle(30)
        assert world.copies("ConfigMap")["settings"]["data"] == {"a": "2"}


async def test_a_conflict_is_nobodys_business(caplog: pytest.LogCaptureFixture) -> None:
    async with open_world() as world:
        world.home.put(build_config_map(a="1"))
        await world.apply(build_home_pod(**use_config_map()))
        world.remote.fail_next("update configmaps", 409, reason="Conflict")
        world.home.put(build_config_map(a="2"))
        await settle()
        assert world.copies("ConfigMap")["settings"]["data"] == {"a": "2"}
    assert [record for record in caplog.records if record.levelname == "WARNING"] == []


async def test_an_answer_that_was_lost_makes_no_second_try_fail() -> None:
    async with open_world() as world:
        world.home.put(build_config_map())
        world.remote.mute_watches("watch configmaps")
        world.remote.cut_body_next(
            lambda call: call.what == "create configmaps" and "data" in (call.body or {})
        )
        pod = build_home_pod(**use_config_map())
        for _ in range(3):
            try:
                await world.apply(pod)
            except Exception:  # noqa: BLE001 - whatever a cut answer is taken for
                await settle()
        assert set(world.copies("ConfigMap")) == {"settings"}
        assert len(world.remote.objects(PODS)) == 1


async def test_edits_during_an_outage_of_home_follow_after_it() -> None:
    async with open_world() as world:
        world.home.put(build_config_map(a="1"))
        world.home.put(build_secret())
        await world.apply(build_home_pod("a", uid="uid-a", **use_config_map()))
        await world.apply(build_home_pod("b", uid="uid-b", **use_secret()))
        await world.home.stop()
        world.home.put(build_config_map(a="2"))
        world.home.remove(SECRETS, "demo", "key")
        await settle(20)
        assert world.copies("ConfigMap")["settings"]["data"] == {"a": "1"}
        await world.home.start()
        await settle(60)
        assert world.copies("ConfigMap")["settings"]["data"] == {"a": "2"}
        assert world.copies("Secret") == {}


async def test_edits_during_an_outage_of_the_remote_side_follow_after_it() -> None:
    async with open_world() as world:
        world.home.put(build_config_map(a="1"))
        await world.apply(build_home_pod(**use_config_map()))
        await world.remote.stop()
        world.home.put(build_config_map(a="2"))
        await settle(20)
        await world.remote.start()
        await settle(90)
        assert world.copies("ConfigMap")["settings"]["data"] == {"a": "2"}


async def test_a_restart_writes_nothing_but_what_changed_meanwhile() -> None:
    async with FakeApiServer() as home, FakeApiServer() as remote:
        pods = [
            build_home_pod("a", uid="uid-a", **use_config_map()),
            build_home_pod("b", uid="uid-b", **use_secret()),
            build_home_pod("c", uid="uid-c", **use_config_map("old")),
        ]
        home.put(build_config_map(a="1"))
        home.put(build_config_map("old"))
        home.put(build_secret())
        async with run_world(home, remote) as world:
            for pod in pods:
                await world.apply(pod)
        home.put(build_config_map(a="2"))
        home.remove(PODS, "demo", "c")
        remote.remove(PODS, "demo-r", "c")
        remote.requests.clear()
        async with run_world(home, remote) as world:
            for pod in pods[:2]:
                await world.apply(pod)
            await settle(2 * LINGER_SECONDS)
            assert writes(remote) == ["update configmaps", "delete configmaps"]
            assert set(world.copies("ConfigMap")) == {"settings"}
            assert world.copies("ConfigMap")["settings"]["data"] == {"a": "2"}


async def test_nothing_is_removed_before_all_remote_pods_are_known() -> None:
    async with FakeApiServer() as home, FakeApiServer() as remote:
        home.put(build_config_map())
        async with run_world(home, remote) as world:
            await world.apply(build_home_pod(**use_config_map()))
        remote.fail_next("* pods", 500, times=1000)
        async with run_world(home, remote) as world:
            await settle(10 * LINGER_SECONDS)
            assert set(world.copies("ConfigMap")) == {"settings"}


async def test_a_missing_right_holds_up_only_the_pods_that_need_it() -> None:
    async with open_world() as world:
        world.home.put(build_config_map())
        world.home.put(build_secret())
        world.home.fail_next("* secrets", 403, reason="Forbidden", times=2)
        pod = build_home_pod(**use_secret())
        with pytest.raises(RefusedError, match='MissingRight: secret "key" can\'t be read'):
            await world.apply(pod)
        await world.apply(build_home_pod("b", uid="uid-b", **use_config_map()))
        assert [body["metadata"]["name"] for body in world.remote.objects(PODS)] == ["b"]
        await settle(60)
        assert world.events_of(Unblocked)[-1] == Unblocked(REF)
        await world.apply(pod)
        assert set(world.copies("Secret")) == {"key"}


async def test_home_out_of_reach_is_passing_trouble() -> None:
    async with open_world() as world:
        world.home.fail_next("* secrets", 500, times=100)
        with pytest.raises(RetryError, match="secrets of home namespace demo"):
            await world.apply(build_home_pod(**use_secret()))


async def test_a_pod_that_runs_goes_on_whatever_is_missing() -> None:
    async with open_world() as world:
        world.home.put(build_config_map())
        pod = build_home_pod(**use_config_map())
        await world.apply(pod)
        world.home.remove(CONFIG_MAPS, "demo", "settings")
        await settle()
        assert await world.apply(pod) == []


async def test_what_an_ephemeral_container_needs_comes_to_a_pod_that_runs() -> None:
    async with open_world() as world:
        world.home.put(build_config_map())
        world.home.put(build_secret())
        pod = build_home_pod(**use_config_map())
        await world.apply(pod)
        debug = {"name": "debug", "envFrom": [{"secretRef": {"name": "key"}}]}
        await world.apply(build_home_pod(**use_config_map(), ephemeralContainers=[debug]))
        await settle(2 * LINGER_SECONDS)
        assert set(world.copies("Secret")) == {"key"}
        await world.end(pod)
        await settle(2 * LINGER_SECONDS)
        assert world.copies("Secret") == {}


async def test_copies_that_cannot_be_watched_hold_up_only_pods_that_need_any() -> None:
    async with FakeApiServer() as home, FakeApiServer() as remote:
        home.put(build_config_map())
        remote.fail_next("* secrets", 403, reason="Forbidden", times=1000)
        async with run_world(home, remote) as world:
            await world.apply(build_home_pod("plain", uid="uid-plain"))
            with pytest.raises(RetryError, match="aren't known yet"):
                await world.apply(build_home_pod(**use_config_map()))
            remote.heal()
            await settle(60)
            await world.apply(build_home_pod(**use_config_map()))
            assert len(remote.objects(PODS)) == 2


async def test_a_remote_namespace_that_goes_is_made_again() -> None:
    async with open_world() as world:
        world.home.put(build_config_map())
        message = 'namespaces "demo-r" not found'
        world.remote.fail_next(
            lambda call: call.what == "create configmaps" and "dependent" in str(call.body),
            404,
            reason="NotFound",
            message=message,
        )
        pod = build_home_pod(**use_config_map())
        with pytest.raises(RetryError, match="remote namespace demo-r is gone"):
            await world.apply(pod)
        await world.apply(pod)
        assert set(world.copies("ConfigMap")) == {"settings"}


async def test_contents_of_secrets_are_never_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    secret = "dG9wIHNlY3JldA=="
    async with open_world() as world:
        world.home.put(build_secret(password=secret))
        world.remote.fail_next(
            "create secrets", 422, message=f'data: Invalid value: "{secret}": no', times=2
        )
        pod = build_home_pod(**use_secret())
        with pytest.raises(RefusedError, match="RemoteSecretInvalid") as caught:
            await world.apply(pod)
        assert secret not in str(caught.value)
        await settle()
        world.remote.heal()
        await world.apply(pod)
        world.home.put(build_secret(password=secret, more="eA=="))
        await settle()
        assert secret not in str(world.told)
        assert secret not in repr(world.dependents.copies.all())
    assert secret not in caplog.text


async def test_many_changes_of_one_object_end_as_the_last(caplog: pytest.LogCaptureFixture) -> None:
    async with open_world() as world:
        world.home.put(build_config_map(a="0"))
        await world.apply(build_home_pod(**use_config_map()))

        def slowly(call: ApiCall) -> bool:
            return call.what == "update configmaps"

        world.remote.delay_next(slowly, 3, times=3)
        for number in range(10):
            world.home.put(build_config_map(a=str(number)))
            await asyncio.sleep(0.5)
        await settle(30)
        assert world.copies("ConfigMap")["settings"]["data"] == {"a": "9"}
    assert "WARNING" not in {record.levelname for record in caplog.records}
