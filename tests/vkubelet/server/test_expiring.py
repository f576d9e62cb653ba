import asyncio

import pytest

from vkubelet.server.expiring import ExpiringCache

pytestmark = pytest.mark.virtual_time


async def test_values_expire() -> None:
    cache: ExpiringCache[str, int] = ExpiringCache(8)
    cache.put("a", 1, 10)
    cache.put("b", 2, 20)
    await asyncio.sleep(9)
    assert (cache.get("a"), cache.get("b"), cache.get("c")) == (1, 2, None)
    await asyncio.sleep(2)
    assert (cache.get("a"), cache.get("b")) == (None, 2)
    assert len(cache) == 1


async def test_least_recently_used_yields() -> None:
    cache: ExpiringCache[int, int] = ExpiringCache(3)
    for key in range(3):
        cache.put(key, key, 10)
    assert cache.get(0) == 0
    cache.put(3, 3, 10)
    assert [cache.get(key) for key in range(4)] == [0, None, 2, 3]


async def test_put_again_renews() -> None:
    cache: ExpiringCache[int, int] = ExpiringCache(3)
    cache.put(1, 1, 10)
    await asyncio.sleep(9)
    cache.put(1, 2, 10)
    await asyncio.sleep(9)
    assert cache.get(1) == 2
