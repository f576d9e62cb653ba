import json

from vkubelet.errors import RequestError
from vkubelet.server.errors import StreamInterruptedError, respond_status, respond_text


def test_text() -> None:
    response = respond_text(RequestError(404, "no such pod"))
    assert (response.status, response.text) == (404, "no such pod")
    assert response.content_type == "text/plain"


def test_status() -> None:
    response = respond_status(RequestError(404, "no such pod"))
    assert response.status == 404
    assert response.text is not None
    status = json.loads(response.text)
    assert (status["kind"], status["reason"], status["code"]) == ("Status", "NotFound", 404)
    assert status["message"] == "no such pod"


def test_reason_is_the_text() -> None:
    assert str(StreamInterruptedError("why")) == "why"
