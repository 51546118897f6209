"""`python -m engine.train.torch_child`: the process in which a drafter is trained.

The request comes as one JSON line on stdin; when stdin ends, the parent is gone or wants an end:
what was best so far is written. On stdout JSON lines: progress as `forerun train --json` prints it,
at last {"done": true, "card": ...} or {"error": ..., "message": ...}.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from typing import Any

from engine.errors import EngineError
from engine.llama.library import start_library
from engine.train.torch_run import train
from engine.train.training import TrainProgress, TrainRequest, TrainSettings


def main() -> int:
    content = json.loads(sys.stdin.readline())
    request = TrainRequest(**{**content, "settings": TrainSettings(**content["settings"])})
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=_wait_for_end, args=(stop,), daemon=True).start()
    try:
        card = train(request, start_library(), lambda one: _say(_as_json(one)), stop.is_set)
    except EngineError as error:
        _say({"error": type(error).__name__, "message": str(error)})
        return error.exit_code
    _say({"done": True, "card": card})
    return 0


def _wait_for_end(stop: threading.Event) -> None:
    sys.stdin.read()
    stop.set()


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def _as_json(progress: TrainProgress) -> dict[str, Any]:
    heldout = progress.heldout
    return {
        "stage": progress.stage,
        "done": progress.done,
        "total": progress.total,
        "seconds": round(progress.seconds, 1),
        "seconds_left": None if progress.seconds_left is None else round(progress.seconds_left, 1),
        "heldout": None if heldout is None else [round(rate, 4) for rate in heldout.hits],
        "accepted": None if heldout is None else round(heldout.accepted, 4),
        "loss": None if progress.loss is None else round(progress.loss, 4),
    }


if __name__ == "__main__":
    raise SystemExit(main())
