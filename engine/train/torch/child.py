"""`python -m engine.train.torch.child`: the process in which a drafter is trained.

The request comes as one JSON line on stdin. After it, a line "finish" asks for what was best so
far; when stdin ends without it, or at SIGTERM, nobody waits: the state is kept, so that `--resume`
goes on. On stdout JSON lines: progress as `forerun train --json` prints it, at last {"done": true,
"card": ...} or {"error": ..., "message": ...}.

`torch_child device NAME` only says whether torch finds such a device.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, TextIO

from engine.children.speaking import claim_stdout
from engine.data.errors import EngineError, SuspendedError
from engine.data.machine import allow_many_files
from engine.llama.library import start_library
from engine.train.child import FINISH
from engine.train.torch.compute import choose_compute
from engine.train.torch.run import train
from engine.train.training import TrainProgress, TrainRequest, TrainSettings

Say = Callable[[dict[str, Any]], None]


def main(outgoing: TextIO) -> int:
    def say(message: dict[str, Any]) -> None:
        print(json.dumps(message), file=outgoing, flush=True)

    try:
        say(_device(sys.argv[2]) if sys.argv[1:2] == ["device"] else _trained(say))
    except EngineError as error:
        say({"error": type(error).__name__, "message": str(error)})
        return error.exit_code
    return 0


def _device(name: str) -> dict[str, Any]:
    return {"result": str(choose_compute(name, "auto", cpu_multiplies_bf16=False).device)}


def _trained(say: Say) -> dict[str, Any]:
    content = json.loads(sys.stdin.readline())
    request = TrainRequest(**{**content, "settings": TrainSettings(**content["settings"])})
    wishes = _Wishes()
    allow_many_files()
    card = train(request, start_library(), lambda one: say(_as_json(one)), wishes.stop)
    return {"done": True, "card": card}


class _Wishes:
    """What the parent wants, or that there is none any more."""

    def __init__(self) -> None:
        self._finish = threading.Event()
        self._suspend = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self._suspend.set())
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        (self._finish if sys.stdin.readline().strip() == FINISH else self._suspend).set()

    def stop(self) -> bool:
        """Whether to finish. SuspendedError when there is nobody to finish for."""
        if self._suspend.is_set():
            raise SuspendedError("the training was ended in the middle; --resume goes on with it")
        return self._finish.is_set()


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
    raise SystemExit(main(claim_stdout()))
