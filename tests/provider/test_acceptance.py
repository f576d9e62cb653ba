"""Refusals at the start: believed, unless the API server has only just come up."""

import asyncio
from collections.abc import Iterator

import pytest

from provider.acceptance import RETRY_SECONDS, SETTLE_SECONDS, wait_accepted
from provider.errors import MissingRightsError, StartError
from vkubelet.kube.errors import ForbiddenError, ServerError, UnauthorizedError, UnreachableError

pytestmark = pytest.mark.virtual_time

FORBIDDEN = ForbiddenError(403, reason="Forbidden", message="nothing is allowed")
LACKING = MissingRightsError("remote", ["list pods"])
DOWN = UnreachableError("can't connect")


def now() -> float:
    return round(asyncio.get_running_loop().time(), 3)


async def ask(*answers: Exception | str) -> tuple[str, float]:
    """The result, and when it came."""
    following: Iterator[Exception | str] = iter(answers)

    async def step() -> str:
        answer = next(following)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return await wait_accepted("remote", step), now()


async def test_first_answer_is_enough() -> None:
    assert await ask("yes") == ("yes", 0.0)


@pytest.mark.parametrize("failure", [DOWN, ServerError(500, message="down")])
async def test_asks_until_the_server_is_there(failure: Exception) -> None:
    assert await ask(failure, failure, "yes") == ("yes", 2 * RETRY_SECONDS)


@pytest.mark.parametrize("refusal", [FORBIDDEN, UnauthorizedError(401)])
async def test_refusal_ends_it_at_once(refusal: Exception) -> None:
    with pytest.raises(StartError, match="the remote credentials aren't accepted"):
        await ask(refusal, "yes")
    assert now() == 0.0


async def test_missing_rights_end_it_at_once() -> None:
    with pytest.raises(MissingRightsError, match="list pods"):
        await ask(LACKING, "yes")


@pytest.mark.parametrize("refusal", [FORBIDDEN, LACKING])
async def test_server_that_has_just_come_up_may_refuse_for_a_while(refusal: Exception) -> None:
    assert await ask(DOWN, refusal, refusal, "yes") == ("yes", 3 * RETRY_SECONDS)


@pytest.mark.parametrize("refusal", [FORBIDDEN, LACKING])
async def test_but_not_for_ever(refusal: Exception) -> None:
    with pytest.raises(StartError):
        await ask(DOWN, *[refusal] * 20)
    assert now() == SETTLE_SECONDS
