"""Files that go with messages: read by the server, kept with the message, told to the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from app.attachments.routes import add_file_routes
from tests.app.page_side import Page
from tests.fakes_engine import FakeEngine


@pytest.fixture
def client(page: Page) -> Iterator[TestClient]:
    app = FastAPI()
    sessions = page.services.sessions
    add_file_routes(app, page.services.files, lambda name: sessions.get(name) is not None)
    with TestClient(app) as client:
        yield client


def read(client: TestClient, page: Page, name: str, data: bytes) -> dict[str, Any]:
    query = {"session": page.session, "name": name}
    answer: dict[str, Any] = client.post("/files/read", params=query, content=data).json()
    return answer


def test_a_file_goes_with_its_message_and_its_versions(
    client: TestClient, page: Page, engine: FakeEngine
) -> None:
    file = read(client, page, "../notes.txt", b"the sky is green\n")
    assert (file["name"], file["kind"], file["bytes"]) == ("notes.txt", "text", 17)
    named = [{"sha256": file["sha256"], "name": file["name"]}]
    count = page.ask("count", conversation=None, text="hello", files=named)["result"]
    bare = page.ask("count", conversation=None, text="hello")["result"]
    assert count["tokens"] > bare["tokens"] and count["typed"] == bare["typed"]
    answer = page.ask("send", conversation=None, text="hello", files=named)
    page.wait_for("end")
    prompt = "--- File: notes.txt ---\nthe sky is green\n\nhello"
    assert engine.requests[-1].messages[-1].content == prompt
    conversation = answer["result"]["conversation"]
    drawn = page.ask("open", conversation=conversation)["result"]["messages"]
    assert drawn[0]["content"] == "hello" and drawn[0]["files"] == [file]
    assert page.wait_for("user")[0]["files"] == [file]

    page.ask("regenerate", message=drawn[1]["id"])
    page.wait_for("end", 2)
    assert engine.requests[-1].messages[-1].content == prompt
    page.ask("edit", message=drawn[0]["id"], text="bye")
    page.wait_for("end", 3)
    assert engine.requests[-1].messages[-1].content.endswith("green\n\nbye")
    page.ask("edit", message=drawn[0]["id"], text="bare", files=[])
    page.wait_for("end", 4)
    assert engine.requests[-1].messages[-1].content == "bare"


def test_what_cannot_be_read_or_is_not_here_is_refused(client: TestClient, page: Page) -> None:
    assert "images cannot be read yet" in read(client, page, "cat.png", b"\x89PNG\r\n")["error"]
    assert read(client, page, "none.txt", b"") == {"error": "none.txt is empty"}
    big = read(client, page, "big.txt", b"x" * 20_000_001)
    assert "more than 20,000,000 bytes" in big["error"]
    foreign = client.post("/files/read", params={"session": "x", "name": "a"}, content=b"x")
    assert foreign.status_code == 403
    gone = [{"sha256": "0" * 64, "name": "gone.txt"}]
    answer = page.ask("send", conversation=None, text="hello", files=gone)
    assert "gone.txt is not here any more" in answer["error"]["message"]
    assert page.services.chat.conversations()["items"] == []
    file = read(client, page, "a.txt", b"text")
    many = [{"sha256": file["sha256"], "name": "a.txt"}] * 11
    answer = page.ask("send", conversation=None, text="hello", files=many)
    assert "at most 10 files" in answer["error"]["message"]
