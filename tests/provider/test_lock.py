"""Where the lock of a peering is."""

from provider.lock import find_lock_key


def test_where_the_user_wants_it() -> None:
    assert find_lock_key("infra", "cloud") == ("infra", "vkubelet-cloud")


def test_outside_a_cluster_in_kube_system() -> None:
    assert find_lock_key(None, "cloud") == ("kube-system", "vkubelet-cloud")
