"""How the fake API server answers calls on resources, watches apart."""

import itertools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
from aiohttp import web

from tests.fakes.api_calls import ApiCall
from tests.fakes.api_objects import ApiFailureError, ApiPath, check_field_selector
from tests.fakes.api_state import ApiState, key_of
from vkubelet.kube.objects import KubeObject, NamespacedName

_SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}

# Reviews are answered, not stored; a test that needs other answers sets a hook.
_REVIEWS: Mapping[str, KubeObject] = MappingProxyType(
    {
        "selfsubjectaccessreviews": {"allowed": True},
        "subjectaccessreviews": {"allowed": False},
        "tokenreviews": {"authenticated": False},
    }
)


def json_response(body: Any, status: int = 200) -> web.Response:
    return web.Response(
        body=msgspec.json.encode(body), status=status, content_type="application/json"
    )


def _not_served() -> ApiFailureError:
    return ApiFailureError(404, "NotFound", "the server could not find the requested resource")


class ApiAnswers:
    """Verbs on the state."""

    def __init__(self, state: ApiState) -> None:
        self._state = state
        self._pages: dict[str, tuple[int, list[KubeObject]]] = {}
        self._page_numbers = itertools.count(1)
        self._verbs = {
            "get": self._get,
            "list": self._list_page,
            "create": self._create,
            "update": self._update,
            "patch": self._patch,
            "apply": self._apply,
            "delete": self._delete,
            "deletecollection": self._delete_collection,
        }

    def forget_pages(self) -> None:
        """Let all continue tokens given so far be too old."""
        self._pages.clear()

    def answer(self, call: ApiCall) -> web.Response:
        if call.target is None:
            return _answer_path(call)
        body = self._verbs[call.verb](call, call.target)
        return json_response(body, 201 if call.method == "POST" else 200)

    def _get(self, _: ApiCall, path: ApiPath) -> KubeObject:
        return self._state.read(path.resource, NamespacedName(path.namespace, path.name))

    def _list_page(self, call: ApiCall, path: ApiPath) -> KubeObject:
        check_field_selector(path.resource, call.query.get("fieldSelector", ""))
        version, items = self._state.version, self._state.objects(path.resource)
        items = [body for body in items if call.selects(body)]
        if "continue" in call.query:
            if call.query["continue"] not in self._pages:
                message = "The provided continue parameter is too old"
                raise ApiFailureError(410, "Expired", message)
            version, items = self._pages[call.query["continue"]]
        limit = int(call.query.get("limit", "0")) or len(items)
        metadata = {"resourceVersion": str(version)}
        if len(items) > limit:
            metadata["continue"] = f"page-{next(self._page_numbers)}"
            self._pages[metadata["continue"]] = (version, items[limit:])
        return {
            "kind": f"{path.resource.kind}List",
            "apiVersion": path.resource.api_version,
            "metadata": metadata,
            "items": [_without_type(body) for body in items[:limit]],
        }

    def _create(self, call: ApiCall, path: ApiPath) -> KubeObject:
        if path.name:
            return self._create_subresource(call, path)
        if path.resource.plural in _REVIEWS:
            return {**call.body, "status": _REVIEWS[path.resource.plural]}
        return self._state.create(path, call.body)

    def _create_subresource(self, call: ApiCall, path: ApiPath) -> KubeObject:
        pod = self._state.read(path.resource, NamespacedName(path.namespace, path.name))
        if (path.resource.plural, path.subresource) == ("pods", "eviction"):
            self._state.delete(path, call.body.get("deleteOptions") or {})
        elif (path.resource.plural, path.subresource) == ("pods", "binding"):
            spec = {**pod.get("spec", {}), "nodeName": call.body["target"]["name"]}
            self._state.update(path, {**pod, "spec": spec})
        else:
            raise _not_served()
        return _SUCCESS

    def _update(self, call: ApiCall, path: ApiPath) -> KubeObject:
        return self._state.update(path, call.body)

    def _patch(self, call: ApiCall, path: ApiPath) -> KubeObject:
        return self._state.patch(path, call.request.content_type, call.body)

    def _apply(self, call: ApiCall, path: ApiPath) -> KubeObject:
        manager = call.query.get("fieldManager", "")
        if not manager:
            message = "fieldManager: Required value: is required for apply patch"
            raise ApiFailureError(422, "Invalid", message)
        return self._state.apply(path, call.body, manager)

    def _delete(self, call: ApiCall, path: ApiPath) -> KubeObject:
        return self._state.delete(path, _delete_options(call))

    def _delete_collection(self, call: ApiCall, path: ApiPath) -> KubeObject:
        for body in self._state.objects(path.resource):
            if call.selects(body):
                one = ApiPath(path.resource, *key_of(body))
                self._state.delete(one, _delete_options(call))
        return _SUCCESS


def _without_type(body: KubeObject) -> KubeObject:
    return {key: value for key, value in body.items() if key not in {"apiVersion", "kind"}}


def _delete_options(call: ApiCall) -> KubeObject:
    options: KubeObject = dict(call.body or {})
    if "gracePeriodSeconds" in call.query:
        options["gracePeriodSeconds"] = int(call.query["gracePeriodSeconds"])
    return options


def _answer_path(call: ApiCall) -> web.Response:
    if call.path in {"/livez", "/readyz", "/healthz"}:
        return web.Response(text="ok")
    if call.path == "/version":
        return json_response({"major": "1", "minor": "37", "gitVersion": "v1.37.2"})
    raise _not_served()
