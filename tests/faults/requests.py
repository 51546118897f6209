"""HTTP requests to a page's server, as any program on this machine could send them."""

from __future__ import annotations

import http.client
import json
import re
import threading
from dataclasses import dataclass
from typing import Any

TIMEOUT = 30.0
_POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: bytes


def request(
    port: int, method: str, path: str, headers: dict[str, str] | None = None, body: str = ""
) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)
    try:
        connection.request(method, path, body or None, headers or {})
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read())
    finally:
        connection.close()


class Caller:
    """A page's side of its server functions, without a browser."""

    def __init__(self, port: int) -> None:
        self._port = port
        config = request(port, "GET", "/config").body.decode()
        components = json.loads(config)["components"]
        self._shell = next(one["id"] for one in components if one["type"] == "html")
        self.hello = self._function("hello", {"conversation": None})

    def ask(self, action: str, **arguments: Any) -> dict[str, Any]:
        payload = {"session": self.hello["session"], "action": action, "arguments": arguments}
        return self._function("call", payload)

    def _function(self, name: str, payload: Any) -> dict[str, Any]:
        body = {"data": payload, "component_id": self._shell, "fn_name": name, "session_hash": "x"}
        headers = {"Content-Type": "application/json"}
        answer = request(
            self._port, "POST", "/gradio_api/component_server", headers, json.dumps(body)
        )
        assert answer.status == 200, answer.body
        value: dict[str, Any] = json.loads(answer.body)
        return value


def ready_caller(port: int) -> Caller:
    """Once the model of the last start is loaded."""
    for _ in range(int(TIMEOUT / _POLL_SECONDS)):
        caller = Caller(port)
        if caller.hello["engine"]["loaded"]:
            return caller
        threading.Event().wait(_POLL_SECONDS)
    raise AssertionError("the model was not loaded")


def routes_of_gradio() -> list[str]:
    """Every address that the installed gradio serves, with something in place of its variables."""
    from gradio import routes

    with open(routes.__file__, encoding="utf-8") as file:
        source = file.read()
    found = re.findall(r"@(router|app)\.(?:get|post|head)\(\s*f?\"([^\"]+)\"", source)
    paths = [("/gradio_api" if kind == "router" else "") + path for kind, path in found]
    return sorted({re.sub(r"\{[^}]*\}", "x", path) for path in paths})
