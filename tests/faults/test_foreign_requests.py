"""Requests that are not the page's own: nothing is done for them, and nobody reads the answer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from app.guard import OPEN
from tests.e2e.sites import fake_site
from tests.faults.requests import Caller, request, routes_of_gradio


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    site = fake_site(tmp_path_factory.mktemp("server"), 400)
    site.start()
    yield site.port
    site.stop()


FOREIGN = ["http://evil.example", "null", "http://127.0.0.1:1", "http://localhost:1"]
USED = ["/", "/config", "/health", "/theme.css", "/forerun/main.js", "/gradio_api/info"]


@pytest.mark.parametrize("origin", [*FOREIGN, "https://localhost.evil.example"])
def test_other_origins_neither_write_nor_read(port: int, origin: str) -> None:
    headers = {"Origin": origin, "Content-Type": "application/json"}
    for path in ("/gradio_api/component_server", "/gradio_api/queue/join", "/gradio_api/upload"):
        assert request(port, "POST", path, headers, "{}").status == 403
    for path in USED:
        for method in ("GET", "OPTIONS"):
            answer = request(port, method, path, headers)
            assert answer.status == 403
            assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", USED)
def test_no_answer_allows_another_site_to_read_it(port: int, path: str) -> None:
    own = request(port, "GET", path, {"Origin": f"http://127.0.0.1:{port}"})
    assert own.status == 200
    assert not [name for name in own.headers if name.lower().startswith("access-control-")]
    assert own.headers["cross-origin-resource-policy"] == "same-origin"


def test_other_sites_may_link_to_the_page_and_nothing_else(port: int) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    script = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}
    assert request(port, "GET", "/", link).status == 200
    assert request(port, "POST", "/gradio_api/component_server", link, "{}").status == 403
    for path in USED:
        assert request(port, "GET", path, script).status == 403


def test_every_route_of_gradio_that_the_page_does_not_use_is_closed(port: int) -> None:
    routes = routes_of_gradio()
    shut = [path for path in routes if not OPEN.fullmatch(path.rstrip("/") or "/")]
    assert "/gradio_api/process_recording" in shut and "/gradio_api/upload" in shut
    for path in shut:
        for method in ("GET", "POST", "HEAD"):
            answer = request(port, method, path)
            assert answer.status == 403, f"{method} {path}: {answer.status}"
    print(f"{len(routes)} routes of gradio, {len(shut)} of them closed")


@pytest.mark.parametrize(
    "path",
    [
        "/gradio_api/file=http://example.invalid/x",
        "/gradio_api/file=https%3A//example.invalid/x",
        "/gradio_api/file=HTTP://example.invalid/x",
        "/gradio_api/file=/etc/passwd",
        "/gradio_api/file=pyproject.toml",
        "/file=http://example.invalid/x",
        "/gradio_api/proxy=http://example.invalid/",
        "/gradio_api/deep_link?session_hash=x",
        "/gradio_api//process_recording",
        "//gradio_api/process_recording",
        "/gradio_api/process_recording/",
        "/GRADIO_API/process_recording",
        "/gradio_api/process%5Frecording",
        "/gradio_api/heartbeat/../process_recording",
        "/forerun/../pyproject.toml",
        "/forerun/%2e%2e/pyproject.toml",
        "/forerun/no-such.js",
        "/assets/%2e%2e/%2e%2e/routes.py",
        "/docs",
        "/monitoring",
    ],
)
def test_nothing_is_reached_by_another_spelling(port: int, path: str) -> None:
    for method in ("GET", "POST"):
        assert request(port, method, path).status in (403, 404, 405)


def test_the_page_itself_is_served(port: int) -> None:
    caller = Caller(port)
    assert caller.ask("search", text="")["result"] == {"items": [], "more": False, "folders": []}
