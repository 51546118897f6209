"""A local server that speaks as much of the Hub's protocol as downloading a file takes."""

from __future__ import annotations

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from urllib.parse import urlsplit

COMMIT = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00"
_RESOLVE = re.compile(r"^/(?P<repo>[^/]+/[^/]+)/resolve/(?P<revision>[^/]+)/(?P<file>.+)$")
_INFO = re.compile(r"^/api/models/(?P<repo>[^/]+/[^/]+)/revision/(?P<revision>[^/]+)$")


@dataclass
class HubFile:
    """content: what is really sent. sha256, size: what is promised (None: the truth).

    cuts: how often the connection is cut after cut_after bytes. hold_after: stop sending there
    until the server's `release` event is set; `holding` tells the test that it is there.
    """

    content: bytes
    sha256: str | None = None
    size: int | None = None
    cuts: int = 0
    cut_after: int = 0
    hold_after: int | None = None

    @property
    def etag(self) -> str:
        return self.sha256 or hashlib.sha256(self.content).hexdigest()


@dataclass
class HubServer:
    """files: by (repository, name). gated: repositories that need the token "secret"."""

    files: dict[tuple[str, str], HubFile] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    requests: list[str] = field(default_factory=list)
    holding: threading.Event = field(default_factory=threading.Event)
    release: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> HubServer:
        hub = self

        class Handler(_Handler):
            server_hub = hub

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def environment(self, cache: Path) -> dict[str, str]:
        """What points huggingface_hub at this server and at a cache of its own."""
        return {
            "HF_ENDPOINT": self.address,
            "HF_HUB_CACHE": str(cache),
            "HF_HOME": str(cache.parent / "hf-home"),
            "HF_HUB_OFFLINE": "0",
        }


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_hub: HubServer

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, format: str, *arguments: object) -> None:
        self.server_hub.requests.append(f"{self.command} {self.path}")

    def _answer(self, with_body: bool) -> None:
        path = urlsplit(self.path).path
        info, resolve = _INFO.match(path), _RESOLVE.match(path)
        found = info or resolve
        if found is None:
            self._refuse(HTTPStatus.NOT_FOUND, "RepoNotFound")
            return
        repo = found["repo"]
        if repo in self.server_hub.gated and self.headers["Authorization"] != "Bearer secret":
            self._refuse(HTTPStatus.UNAUTHORIZED, "GatedRepo")
        elif not any(known == repo for known, _ in self.server_hub.files):
            self._refuse(HTTPStatus.NOT_FOUND, "RepoNotFound")
        elif info is not None:
            self._send_info(repo)
        elif resolve is not None:
            self._resolve(repo, resolve["file"], with_body)

    def _refuse(self, status: HTTPStatus, code: str) -> None:
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send_info(self, repo: str) -> None:
        siblings = [
            {
                "rfilename": name,
                "size": file.size or len(file.content),
                "lfs": {"sha256": file.etag, "size": len(file.content), "pointerSize": 134},
            }
            for (known, name), file in self.server_hub.files.items()
            if known == repo
        ]
        body = json.dumps({"id": repo, "sha": COMMIT, "siblings": siblings}).encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _resolve(self, repo: str, name: str, with_body: bool) -> None:
        file = self.server_hub.files.get((repo, name))
        if file is None:
            self._refuse(HTTPStatus.NOT_FOUND, "EntryNotFound")
            return
        start = self._range_start()
        self.send_response(HTTPStatus.PARTIAL_CONTENT if start else HTTPStatus.OK)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("X-Linked-Etag", f'"{file.etag}"')
        self.send_header("X-Linked-Size", str(file.size or len(file.content)))
        self.send_header("ETag", f'"{file.etag}"')
        self.send_header("Content-Length", str(len(file.content) - start))
        if start:
            end = len(file.content)
            self.send_header("Content-Range", f"bytes {start}-{end - 1}/{end}")
        self.end_headers()
        if with_body:
            self._send_body(file, start)

    def _range_start(self) -> int:
        asked = re.match(r"bytes=(\d+)-", self.headers["Range"] or "")
        return int(asked[1]) if asked else 0

    def _send_body(self, file: HubFile, start: int) -> None:
        content = file.content[start:]
        if file.cuts > 0:
            file.cuts -= 1
            self._write(content[: file.cut_after])
            self.close_connection = True
            return
        if file.hold_after is not None:
            self._write(content[: file.hold_after])
            self.server_hub.holding.set()
            self.server_hub.release.wait(30)
            content = content[file.hold_after :]
        self._write(content)

    def _write(self, content: bytes) -> None:
        try:
            self.wfile.write(content)
            self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True  # the client was cancelled
