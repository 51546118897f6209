"""The server over HTTP, with bodies that no page sends: a JSON error, no 500, and it goes on."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from app.gate import LARGEST_BODY
from tests.e2e.sites import fake_site

CALL, JOIN = "/gradio_api/component_server", "/gradio_api/queue/join"
HALF = "\ud83d"


class Client:
    def __init__(self, port: int) -> None:
        self.port = port
        _, content = self.request("GET", "/config")
        config = json.loads(content)
        self.component = next(one["id"] for one in config["components"] if one["type"] == "html")
        self.follow = next(one["id"] for one in config["dependencies"] if one["targets"])

    def request(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def served(self, name: Any, data: Any, **changes: Any) -> tuple[int, Any]:
        body = {"session_hash": "x", "component_id": self.component, "fn_name": name, "data": data}
        status, content = self.request("POST", CALL, json.dumps(body | changes).encode())
        return status, json.loads(content)

    def works(self) -> None:
        status, hello = self.served("hello", {"conversation": None})
        assert status == 200 and hello["session"]


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    site = fake_site(tmp_path_factory.mktemp("gate"), 400)
    site.start()
    yield Client(site.port)
    log = site.log.read_bytes()
    site.stop()
    assert b"Traceback" not in log


BODIES = [
    b"",
    b"x",
    b"[]",
    b"null",
    b"{}",
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b'{"a": "\xff"}',
    "{}".encode("utf-16"),
    b"1" * 10_000,
    b" " * (LARGEST_BODY + 1),
    b'{"data": 1, "session_hash": 5}',
    b'{"session_hash": "x", "component_id": 99, "fn_name": "hello", "data": 1, "fn_index": 99}',
]


@pytest.mark.parametrize(
    "path", [CALL, JOIN, f"{CALL}/", "/gradio_api/cancel", "/gradio_api/reset"]
)
def test_bodies_that_no_page_sends(client: Client, path: str) -> None:
    for body in BODIES:
        status, content = client.request("POST", path, body)
        assert status == 400 and json.loads(content)["error"], body[:40]
    client.works()


@pytest.mark.parametrize(
    "changes",
    [
        {"component_id": "x"},
        {"component_id": 10**30},
        {"component_id": True},
        {"fn_name": "__init__"},
        {"fn_name": ["hello"]},
        {"fn_name": HALF},
        {"session_hash": None},
        {"session_hash": "x" * 5_000},
    ],
)
def test_calls_that_no_page_makes(client: Client, changes: dict[str, Any]) -> None:
    status, answer = client.served("hello", {"x": 0.0}, **changes)
    assert status == 400 and answer["error"].isprintable()


@pytest.mark.parametrize("data", [None, 5, "x", HALF, [], {"conversation": "x"}, {HALF: HALF}])
@pytest.mark.parametrize("name", ["hello", "resync", "call"])
def test_data_of_any_kind_is_answered(client: Client, name: str, data: Any) -> None:
    status, answer = client.served(name, data)
    assert status == 200 and isinstance(answer, dict)


def test_hostile_requests_are_answered_and_the_page_still_opens(client: Client) -> None:
    _, hello = client.served("hello", {})
    session = hello["session"]

    def ask(action: Any, arguments: Any) -> Any:
        request = {"session": session, "action": action, "arguments": arguments}
        status, answer = client.served("call", request)
        assert status == 200
        return answer

    assert ask("open", {"conversation": 2**63 - 1})["result"]["conversation"] is None
    assert ask("open", {"conversation": 2**63})["error"]["kind"] == "BadRequest"
    assert ask("stop", 5)["error"]["kind"] == "BadRequest"
    assert ask("options", {"target": ["x"]})["error"]["kind"] == "BadRequest"
    saved = ask("settings", {"changes": {"system_prompt": f"be kind {HALF}"}})
    assert saved["result"]["system_prompt"] == "be kind �"
    status, again = client.served("hello", {})
    assert status == 200 and again["preferences"]["settings"]["system_prompt"] == "be kind �"
    client.served("resync", {"session": session, "after": -(2**63)})
    client.works()


@pytest.mark.parametrize(
    "event", [None, 5, "x", [], {}, {"session": 5}, {"session": "x"}, {"x": 1}]
)
def test_a_stream_that_no_page_opens(client: Client, event: Any) -> None:
    body = {"session_hash": "y", "fn_index": client.follow, "data": [], "event_data": event}
    status, _ = client.request("POST", JOIN, json.dumps(body).encode())
    assert status == 200
    client.works()


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_else_can_be_sent(client: Client, method: str) -> None:
    for path in ("/", "/config", "/login", "/gradio_api/call/x", "/gradio_api/process_recording"):
        assert client.request(method, path, b"{}")[0] in (403, 404)


@pytest.mark.parametrize(
    "path", ["/static/", "/assets/", "/forerun/", "/svelte/", "/gradio_api/file="]
)
def test_paths_that_no_disk_has(client: Client, path: str) -> None:
    for name in ("a" * 300, "a" * 5_000, "%00", "%ff", "%ed%a0%bd", "..%2f..%2fx"):
        assert client.request("GET", path + name)[0] in (403, 404)


def test_a_request_that_breaks_off_leaves_the_server_well(client: Client) -> None:
    for part in (b"POST ", b"\x00\xff\r\n\r\n", _head(100) + b'{"a', _head(10**30), _head(-1)):
        with socket.create_connection(("127.0.0.1", client.port), timeout=10) as connection:
            connection.sendall(part)
    client.works()


def _head(length: int) -> bytes:
    return f"POST {CALL} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n".encode()
