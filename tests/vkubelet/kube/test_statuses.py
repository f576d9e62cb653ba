import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given, strategies as st

from vkubelet.kube import errors
from vkubelet.kube.statuses import MAX_MESSAGE_CHARACTERS, build_status_error, parse_retry_after


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", errors.BadRequestError),
        (401, "Unauthorized", errors.UnauthorizedError),
        (403, "Forbidden", errors.ForbiddenError),
        (404, "NotFound", errors.NotFoundError),
        (405, "MethodNotAllowed", errors.StatusError),
        (409, "AlreadyExists", errors.AlreadyExistsError),
        (409, "Conflict", errors.ConflictError),
        (409, "", errors.ConflictError),
        (410, "Expired", errors.GoneError),
        (410, "Gone", errors.GoneError),
        (413, "RequestEntityTooLarge", errors.StatusError),
        (422, "Invalid", errors.InvalidError),
        (429, "TooManyRequests", errors.TooManyRequestsError),
        (500, "InternalError", errors.ServerError),
        (500, "Timeout", errors.ServerTimeoutError),
        (500, "ServerTimeout", errors.ServerTimeoutError),
        (502, "", errors.ServerError),
        (503, "ServiceUnavailable", errors.ServerTimeoutError),
        (504, "Timeout", errors.ServerTimeoutError),
    ],
)
def test_codes_and_reasons(code: int, reason: str, kind: type[errors.StatusError]) -> None:
    status = {"kind": "Status", "code": code, "reason": reason, "message": "why", "x": [1]}
    body = json.dumps(status).encode()
    for error in (build_status_error(code, body), build_status_error(0, body)):
        assert type(error) is kind
        assert (error.code, error.reason, error.message) == (code, reason, "why")
        assert error.status == status


@pytest.mark.parametrize("code", [403, 409])
def test_a_namespace_that_ends(code: int) -> None:
    message = "unable to create new content in namespace a because it is being terminated"
    body = json.dumps({"kind": "Status", "code": code, "message": message}).encode()
    error = build_status_error(code, body)
    assert isinstance(error, errors.NamespaceEndingError) is (code == 403)
    assert error.message == message


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", ""),
        (b"<html>\n <b>no</b>\n</html>", "<html> <b>no</b> </html>"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b'"text"', '"text"'),
        (b"null", "null"),
        (b'{"kind": "Pod"}', '{"kind": "Pod"}'),
        (b'{"message": "from a proxy"}', "from a proxy"),
        (b'{"kind": "Status", "code": "wrong"}', '{"kind": "Status", "code": "wrong"}'),
        (b'{"kind": "Status", "message": null}', ""),
        (b"x" * 5000, "x" * MAX_MESSAGE_CHARACTERS),
    ],
)
def test_bodies_that_are_no_status(body: bytes, message: str) -> None:
    error = build_status_error(404, body)
    assert type(error) is errors.NotFoundError
    assert error.message == message


def test_error_event_that_says_nothing_counts_as_a_failure_of_the_server() -> None:
    assert build_status_error(0, b"{}").code == 500


@pytest.mark.parametrize(
    ("header", "details", "seconds"),
    [
        ("7", {"retryAfterSeconds": 3}, 7.0),
        ("", {"retryAfterSeconds": 3}, 3.0),
        ("", {"retryAfterSeconds": -3}, 0.0),
        ("", {}, 1.0),
        ("", None, 1.0),
        ("never", {"retryAfterSeconds": 3}, 3.0),
    ],
)
def test_retry_after(header: str, details: dict[str, int] | None, seconds: float) -> None:
    status = {"kind": "Status", "reason": "TooManyRequests", "details": details}
    error = build_status_error(429, json.dumps(status).encode(), header)
    assert isinstance(error, errors.TooManyRequestsError)
    assert error.retry_after_seconds == seconds


def test_retry_after_as_a_date() -> None:
    when = datetime.now(tz=UTC) + timedelta(seconds=60)
    seconds = parse_retry_after(format_datetime(when, usegmt=True))
    assert seconds is not None
    assert 55 < seconds <= 60
    assert parse_retry_after("Thu, 01 Jan 2015 00:00:00 GMT") == 0.0


@given(st.integers(min_value=0, max_value=999), st.binary(), st.text())
def test_anything_becomes_an_error(code: int, body: bytes, header: str) -> None:
    assert isinstance(build_status_error(code, body, header), errors.StatusError)
