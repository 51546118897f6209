"""The server over real HTTP: who may ask, what it sends, and that it starts and stops."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.guard import POLICY
from app.launch import free_port
from app.page import ASSETS, STYLES
from engine.data.errors import BadOptionError
from tests.e2e.sites import fake_site


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """In its own process: gradio leaves event loops behind."""
    site = fake_site(tmp_path_factory.mktemp("server"), 400)
    site.start()
    yield site.port
    site.stop()


def request(
    port: int, method: str, path: str, headers: dict[str, str] | None = None, body: str = ""
) -> tuple[int, http.client.HTTPMessage, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body or None, headers or {})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read()
    finally:
        connection.close()


def test_health(port: int) -> None:
    status, _, body = request(port, "GET", "/health")
    assert status == 200
    assert json.loads(body).keys() == {"status", "target", "drafters"}


def test_page_carries_the_policy_and_no_foreign_address(port: int) -> None:
    status, headers, body = request(port, "GET", "/")
    assert status == 200
    assert headers["content-security-policy"] == POLICY
    assert headers["x-content-type-options"] == "nosniff"
    assert all(f"forerun/css/{name}.css".encode() in body for name in STYLES)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_own_names_are_served(port: int, host: str) -> None:
    assert request(port, "GET", "/health", {"Host": f"{host}:{port}"})[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.evil"])
def test_foreign_host_names_are_refused(port: int, host: str) -> None:
    status, _, body = request(port, "GET", "/", {"Host": host})
    assert status == 403 and b"host name" in body


def test_script_files_are_served_and_revalidated(port: int) -> None:
    status, headers, body = request(port, "GET", "/forerun/main.js")
    assert status == 200
    assert "javascript" in headers["content-type"]
    assert headers["cache-control"] == "no-cache"
    assert body == (ASSETS / "main.js").read_bytes()


def test_scripts_never_write_html() -> None:
    scripts = [path for path in ASSETS.rglob("*.js") if "vendor" not in path.parts]
    assert len(scripts) > 40
    for path in scripts:
        text = path.read_text(encoding="utf-8")
        for forbidden in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
        ):
            assert forbidden not in text, path.name


def test_the_template_has_nothing_to_fill_in() -> None:
    shell = (ASSETS / "shell.html").read_text(encoding="utf-8")
    assert "${" not in shell and "{{" not in shell and "`" not in shell and "\\" not in shell


def test_a_wanted_port_in_use_is_an_error_and_none_wanted_finds_another(port: int) -> None:
    with pytest.raises(BadOptionError, match=f"port {port} of 127.0.0.1 cannot be used"):
        free_port("127.0.0.1", port)
    with pytest.raises(BadOptionError, match="between 1 and 65535"):
        free_port("127.0.0.1", 70000)
    assert 7860 <= free_port("127.0.0.1", None) < 7880


def test_unwritable_data_folder_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from app.__main__ import main

    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    assert main(["--no-browser", "--data-dir", str(blocked)]) == 1
    error = capsys.readouterr().err
    assert error.startswith("forerun: ") and error.count("\n") == 1


def test_every_style_sheet_is_linked_once() -> None:
    assert sorted(STYLES) == sorted(path.stem for path in (ASSETS / "css").glob("*.css"))
