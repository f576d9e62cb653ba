from hypothesis import given, strategies as st

from vkubelet.kube.backoff import compute_delay, jitter, spread_out


@given(st.integers(min_value=0, max_value=10_000))
def test_delay_doubles_up_to_the_cap(failures: int) -> None:
    full = min(0.5 * 2 ** min(max(failures - 1, 0), 40), 30.0)
    assert full / 2 <= compute_delay(failures, base_seconds=0.5, max_seconds=30.0) <= full


def test_delays_differ() -> None:
    delays = {compute_delay(4, base_seconds=1.0, max_seconds=60.0) for _ in range(20)}
    assert len(delays) > 10


def test_jitter_stays_in_its_range() -> None:
    assert all(300 <= jitter(300, spread=1.0) <= 600 for _ in range(100))


def test_a_busy_server_is_never_asked_earlier_than_it_says() -> None:
    delays = [spread_out(10) for _ in range(100)]
    assert 10 <= min(delays) < 11
    assert 13 < max(delays) <= 15
