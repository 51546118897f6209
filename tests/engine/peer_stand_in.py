"""Stands in for llama-server: its options' names, /health, /tokenize and /completion.

A token is a byte of the text. A reply repeats the prompt's last token; the content is the request
itself, so that a test can read what was asked. Modes by arguments: --crash ends at
once, --die at the first completion, --refuse refuses it.
"""

from __future__ import annotations

import json
import os
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

HELP = """options:
--spec-type [none,draft-simple,ngram-simple,ngram-mod]
--spec-draft-n-max N
--spec-draft-p-min P
"""


class Handler(BaseHTTPRequestHandler):
    arguments: tuple[str, ...] = ()
    asked = 0

    def do_GET(self) -> None:
        """Loads a little while, as the real one does."""
        Handler.asked += 1
        self._answer({"status": "ok"}, 200 if Handler.asked > 1 else 503)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/tokenize":
            first = [1] if body["add_special"] else []
            self._answer({"tokens": [*first, *body["content"].encode()]})
        elif "--die" in self.arguments:
            os._exit(3)
        elif "--refuse" in self.arguments:
            self._answer({"error": {"message": "the request exceeds the context"}}, 400)
        else:
            self._answer(completion(body, self.arguments))

    def _answer(self, content: dict[str, Any], status: int = 200) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *parts: object) -> None:
        pass


def completion(body: dict[str, Any], arguments: tuple[str, ...]) -> dict[str, Any]:
    count = body["n_predict"]
    timings = {
        "prompt_n": len(body["prompt"]),
        "prompt_ms": 50.0,
        "predicted_n": count,
        "predicted_ms": 10.0 * count,
    }
    if "--spec-type" in arguments:
        timings |= {"draft_n": 6, "draft_n_accepted": 4}
    return {
        "content": json.dumps({"body": body, "arguments": arguments}),
        "tokens": [body["prompt"][-1]] * count,
        "stop_type": "limit",
        "timings": timings,
    }


def main(arguments: tuple[str, ...]) -> None:
    if "--help" in arguments:
        print(HELP)
        return
    if "--crash" in arguments:
        print("error: unable to load model")
        sys.exit(1)
    Handler.arguments = arguments
    port = int(arguments[arguments.index("--port") + 1])
    ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def executable(folder: Path) -> Path:
    """A program file that runs this one."""
    program = folder / "llama-server"
    code = f"import runpy\nrunpy.run_path({__file__!r}, run_name='__main__')\n"
    program.write_text(f"#!{sys.executable}\n{code}", encoding="utf-8")
    program.chmod(0o755)
    return program


if __name__ == "__main__":
    main(tuple(sys.argv[1:]))
