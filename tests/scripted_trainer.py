"""Stands in for `forerun train`: the same output, nothing trained. The result's name steers it.

"fails..." ends with an error after the first line, "waits..." goes on until it is interrupted,
"stubborn..." even then, "garbled..." writes much besides its messages, anything else trains for a
moment. Its arguments go to `arguments.json` in the data folder.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
from pathlib import Path

STEPS = 20
interrupted = threading.Event()


def say(message: dict[str, object]) -> None:
    print(json.dumps(message), flush=True)


def progress(stage: str, done: int, total: int, heldout: list[float] | None = None) -> None:
    left = (total - done) * 0.5
    loss = None if heldout is None else 4.0 / (1 + done)
    say({"stage": stage, "done": done, "total": total, "seconds": done * 0.5,
         "seconds_left": left, "heldout": heldout, "loss": loss})  # fmt: skip


def rates(step: int) -> list[float]:
    grown = step / (step + 6)
    return [round(grown * best, 4) for best in (0.52, 0.4, 0.31, 0.25)]


def card(arguments: list[str], step: int) -> dict[str, object]:
    value = {arguments[i]: arguments[i + 1] for i in range(len(arguments) - 1)}
    name = value["--out"]
    return {
        "kind": arguments[2], "name": name,
        "target": {"name": f"{value['--target']}.gguf", "sha256": "b179c9523d0e"},
        "corpus": {"documents": 310, "tokens": 90000, "answer_tokens": 48200},
        "training": {"steps": step, "learned_tokens": 48200, "seconds": step * 0.5},
        "settings": {"seed": 0}, "format": "Q8_0", "bytes": {"heads.gguf": 4000000},
        "heldout": {"hits": rates(step), "accepted": 1.9},
        "command": " ".join(["forerun", "train", *arguments[2:]]),
    }  # fmt: skip


def garble() -> None:
    """What is no message, and messages that say nothing that is known."""
    odd = (b"words\n", b"\xff\xfe\n", b"{half\n", b"x" * 10_000_000 + b"\n", b"[1]\n")
    for line in odd:
        sys.stdout.buffer.write(line)
    sys.stdout.flush()
    messages: tuple[dict[str, object], ...] = (
        {}, {"stage": 7}, {"done": True}, {"done": True, "card": 5},
        {"stage": "training", "done": "x", "total": None, "heldout": ["y"], "seconds": []},
        {"stage": "training", "heldout": 5},
    )  # fmt: skip
    for message in messages:
        say(message)


def main() -> int:
    arguments = sys.argv[1:]
    folder, name = Path(arguments[1]), arguments[arguments.index("--out") + 1]
    (folder / "arguments.json").write_text(json.dumps(arguments))
    stubborn = name.startswith("stubborn")
    signal.signal(signal.SIGINT, lambda *_: None if stubborn else interrupted.set())
    progress("generating", 1000, 48200)
    if name.startswith("garbled"):
        garble()
    if name.startswith("fails"):
        print("some progress\nforerun: the disk is full: free some space", file=sys.stderr)
        return 1
    waits = stubborn or name.startswith("waits")
    step = 0
    while not interrupted.is_set() and (waits or step < STEPS):
        step = min(step + 1, STEPS)
        progress("training", step, STEPS, rates(step))
        interrupted.wait(0.05 if not waits or step < STEPS else 60.0)
    if name.startswith("waits-nothing"):
        return 130
    progress("writing", 1, 1)
    say({"done": True, "card": card(arguments, step)})
    return 0


if __name__ == "__main__":
    sys.exit(main())
