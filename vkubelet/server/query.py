"""Query parameters as Go reads them."""

from urllib.parse import parse_qs

from aiohttp import web

from vkubelet.errors import RequestError


def parse_query(request: web.Request) -> dict[str, list[str]]:
    """
    Return the values of each parameter, in order; empty ones too.

    Raises:
        RequestError: 400 if it isn't UTF-8: a command that arrives changed is worse than none.
    """
    try:
        return parse_qs(request.rel_url.raw_query_string, keep_blank_values=True, errors="strict")
    except ValueError as error:
        raise RequestError(400, "the query isn't UTF-8") from error


def is_set(query: dict[str, list[str]], name: str) -> bool:
    """Return a flag of exec and attach: only `1` sets it."""
    return query.get(name, [""])[0] == "1"
