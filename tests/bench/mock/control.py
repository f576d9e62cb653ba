"""What a bench asks of the mock clusters: pods, and how they fared."""

import asyncio
from typing import NoReturn

from tests.bench.mock.api import MockApi
from tests.bench.mock.http import Request
from tests.bench.mock.pods import Course, HomePods
from tests.bench.mock.store import Body

TICK_SECONDS = 0.005


class Control:
    """
    Answers under `/bench/` of the home server.

    * `load?count=&rate=&node=&dependents=`: ask for pods, so many a second; rate 0: all at once
    * `report`: how the pods fared that were asked for since `reset`
    * `reset`: forget courses and counts of requests
    * `delete`: ask for the deletion of all pods
    """

    def __init__(
        self, home: MockApi, remote: MockApi, pods: HomePods, courses: dict[str, Course]
    ) -> None:
        self._home = home
        self._remote = remote
        self._pods = pods
        self._courses = courses
        self._load: asyncio.Queue[tuple[int, float, str, bool]] = asyncio.Queue()
        home.extra["/bench/load"] = self._handle_load
        home.extra["/bench/report"] = self._report
        home.extra["/bench/reset"] = self._reset
        home.extra["/bench/delete"] = self._delete

    async def run(self) -> NoReturn:
        """Ask for pods until cancelled."""
        while True:
            count, rate, node, dependents = await self._load.get()
            loop = asyncio.get_running_loop()
            began, made = loop.time(), 0
            while made < count:
                due = count if not rate else min(count, int((loop.time() - began) * rate) + 1)
                for _ in range(min(due - made, 200)):
                    self._pods.create(node, dependents=dependents)
                    made += 1
                await asyncio.sleep(TICK_SECONDS if made == due else 0)

    def _handle_load(self, request: Request) -> Body:
        query = request.query
        load = int(query["count"]), float(query["rate"]), query["node"]
        self._load.put_nowait((*load, query.get("dependents") == "true"))
        return {}

    def _reset(self, _: Request) -> Body:
        self._courses.clear()
        self._home.counts.clear()
        self._remote.counts.clear()
        return {}

    def _delete(self, _: Request) -> Body:
        self._pods.delete_all()
        return {}

    def _report(self, request: Request) -> Body:
        courses = list(self._courses.values())
        shown = [course for course in courses if course.shown]
        report: Body = {
            "asked": len(courses),
            "created": sum(course.created > 0 for course in courses),
            "shown": len(shown),
            "home": dict(self._home.counts),
            "remote": dict(self._remote.counts),
        }
        if request.query.get("times") == "true" and shown:
            report["seconds"] = max(c.shown for c in shown) - min(c.asked for c in courses)
            report["create_lags"] = sorted(c.created - c.asked for c in shown)
            report["status_lags"] = sorted(c.shown - c.running for c in shown)
        return report
