"""Stands in for the installation of torch: python -m tests.scripted_installer MARK [fails|waits]

MARK is a file that says "torch is missing"; a successful run removes it.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path


def say(text: str, done: int, announced: int) -> None:
    print(json.dumps({"text": text, "done": done, "announced": announced}), flush=True)


def main() -> int:
    mark, script = Path(sys.argv[1]), sys.argv[2:]
    say("Collecting torch", 0, 0)
    say("Downloading torch-2.whl (104.0 MB)", 26_000_000, 104_000_000)
    word = mark.read_text() if mark.exists() else ""
    if "waits" in (*script, word):
        threading.Event().wait()
    if "fails" in (*script, word):
        print("the package index has no torch", file=sys.stderr)
        return 1
    mark.unlink(missing_ok=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
