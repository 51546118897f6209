"""`python -m engine.train.corpus.collect_child TASK`: the process in which a corpus is collected.

TASK is `prepare` (which copy of the weights is fastest here) or `collect`. The settings come as one
JSON line on stdin; when stdin ends, the parent is gone or wants an end: what was collected is
written, a choice that is not made yet is given up.
On stdout JSON lines: progress, at last {"result": ...} or {"error": ..., "message": ...}.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from engine.children.speaking import claim_stdout
from engine.data.errors import EngineError
from engine.data.machine import allow_many_files
from engine.files.gguf import inspect
from engine.llama.abort import AbortFlag
from engine.llama.library import Library, start_library
from engine.llama.many import ManyContext, ManyOptions
from engine.llama.model import Model, ModelOptions
from engine.text.chat import ChatTemplate
from engine.train.corpus.batched_generator import BatchedGenerator, BatchLimits
from engine.train.corpus.collect import Collector, CollectProgress, Goal
from engine.train.corpus.settings import CollectSettings, read_layers
from engine.train.corpus.sources import all_blocks
from engine.train.corpus.weights_choice import choose_weights

HELDOUT_SEQUENCES = 4


Say = Callable[[dict[str, Any]], None]


def main(outgoing: TextIO) -> int:
    def say(message: dict[str, Any]) -> None:
        try:
            print(json.dumps(message), file=outgoing, flush=True)
        except BrokenPipeError:
            pass  # the parent is gone; the end of stdin says so too

    task = sys.argv[1]
    content = json.loads(sys.stdin.readline())
    lists = {name: tuple(content[name]) for name in ("text", "prompts")}
    settings = CollectSettings(**{**content, **lists})
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    threading.Thread(target=_wait_for_end, args=(stop, task), daemon=True).start()
    allow_many_files()
    try:
        library = start_library()
        if task == "prepare":
            say({"result": choose_weights(settings, library)})
        else:
            say({"result": asdict(_collect(settings, library, stop, say))})
    except EngineError as error:
        say({"error": type(error).__name__, "message": str(error)})
        return error.exit_code
    return 0


def _wait_for_end(stop: threading.Event, task: str) -> None:
    sys.stdin.read()
    stop.set()
    if task == "prepare":
        os._exit(1)  # a copy that llama.cpp is writing cannot be stopped otherwise


def _collect(
    settings: CollectSettings, library: Library, stop: threading.Event, say: Say
) -> CollectProgress:
    with ExitStack() as opened:
        target = opened.enter_context(_open(settings, settings.target, library))
        if settings.fast_copy:
            copy = opened.enter_context(_open(settings, settings.fast_copy, library))
            generators = [
                _lane(settings, copy, settings.sequences, opened),
                _lane(settings, target, HELDOUT_SEQUENCES, opened),
            ]
        else:
            generators = [_lane(settings, target, settings.sequences, opened)]
        collector = Collector(
            Path(settings.folder), all_blocks(settings), generators, target.hidden_size
        )
        opened.callback(collector.close)
        return collector.run(
            Goal(settings.answer_tokens, settings.seconds),
            stop.is_set,
            lambda progress: say({"progress": asdict(progress)}),
        )


def _open(settings: CollectSettings, path: str, library: Library) -> Model:
    # Repacked weights are for passes of one row; with many rows they are slower (and not for F16).
    return Model(Path(path), ModelOptions(settings.gpu_layers, repack=False), library.log)


def _lane(
    settings: CollectSettings, model: Model, count: int, opened: ExitStack
) -> BatchedGenerator:
    options = ManyOptions(
        count, settings.sequence_length, settings.threads, read_layers(model.layers)
    )
    context = opened.enter_context(ManyContext(model, options, AbortFlag()))
    vocab = model.vocab
    template = ChatTemplate(
        inspect(Path(settings.target)).chat_template,
        vocab.special_text(vocab.bos),
        vocab.special_text(vocab.eos),
    )
    opened.callback(template.close)
    return BatchedGenerator(context, template, BatchLimits(settings.prompt, settings.answer))


if __name__ == "__main__":
    sys.exit(main(claim_stdout()))
