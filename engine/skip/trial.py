"""Tries out sets of skipped layers on a model: its own text, and who still agrees with it."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from engine.data.prompts import TrialPrompt
from engine.data.request import Message
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.derived import derived_path
from engine.llama.log import NativeLog
from engine.llama.model import Model, ModelOptions
from engine.llama.native_context import PREFILL_CHUNK
from engine.llama.quantize import copy_without_layers
from engine.llama.skipping import LayerSkipper
from engine.measure.calibrate import measure_passes
from engine.skip.search import DraftCosts, Skip
from engine.text.chat import ChatTemplate
from engine.text.prompt import prompt_tokens

_PROMPT_TOKENS = 448
"""Of a prompt at most: its end is kept."""

_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 9)


@dataclass(frozen=True, slots=True)
class Reference:
    """A prompt and the target's own greedy reply to it."""

    category: str
    prompt: tuple[int, ...]
    reply: tuple[int, ...]


class SkipTrial:
    """One model and one context, in which layers are left out for a pass at a time."""

    def __init__(self, model: Model, threads: int, reply_tokens: int, abort: AbortFlag) -> None:
        self._skipper = LayerSkipper()
        self._reply_tokens = reply_tokens
        self._context = Context(
            model,
            ContextOptions(
                _PROMPT_TOKENS + reply_tokens + 64,
                max_rows=reply_tokens,
                threads=threads,
                skipper=self._skipper,
            ),
            abort,
        )

    def write(self, prompt: TrialPrompt, template: ChatTemplate) -> Reference:
        """The target's greedy reply; shorter than wanted if it ends by itself."""
        vocab = self._context.model.vocab
        text = template.prompt([Message("user", prompt.text)])
        tokens = prompt_tokens(vocab, text, ())[-_PROMPT_TOKENS:]
        self._skipper.skip(())
        self._fill(tokens[:-1])
        reply: list[int] = []
        last = tokens[-1]
        while len(reply) < self._reply_tokens:
            last = int(np.argmax(self._context.extend_to_last([last])))
            reply.append(last)
            if vocab.ends_generation(last):
                break
        return Reference(prompt.category, tuple(tokens), tuple(reply))

    def agreement(self, skip: Skip, references: Sequence[Reference]) -> dict[str, tuple[int, int]]:
        """By category, how many of the replies' tokens are also chosen without these layers.

        Teacher forcing: every token is predicted after the target's own text.
        """
        found: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        self._skipper.skip(skip)
        for one in references:
            self._fill(one.prompt[:-1])
            logits = self._context.extend([one.prompt[-1], *one.reply[:-1]])
            chosen = np.argmax(logits, axis=1)
            found[one.category][0] += int(np.count_nonzero(chosen == np.array(one.reply)))
            found[one.category][1] += len(one.reply)
        self._skipper.require_effect()
        return {category: (hits, total) for category, (hits, total) in found.items()}

    def _fill(self, tokens: Sequence[int]) -> None:
        self._context.clear()
        for start in range(0, len(tokens), PREFILL_CHUNK):
            self._context.feed(tokens[start : start + PREFILL_CHUNK])

    def close(self) -> None:
        self._context.close()


def share(counts: dict[str, tuple[int, int]]) -> float:
    hits = sum(hits for hits, _ in counts.values())
    return hits / max(1, sum(total for _, total in counts.values()))


def measure_costs(
    model: Model, skip: Skip, folder: Path, threads: int, log: NativeLog, abort: AbortFlag
) -> DraftCosts:
    """T(n) of the model, and T(1) of a copy without the layers, written and deleted here."""
    folder.mkdir(parents=True, exist_ok=True)
    path = derived_path(model.path, "skip-trial", folder).with_suffix(".part")
    try:
        copy_without_layers(model.path, path, skip, log)
        options = ContextOptions(256, max(_WIDTHS), threads)
        with (
            Context(model, options, abort) as whole,
            Model(path, ModelOptions(model.options.gpu_layers), log) as short,
            Context(short, options, abort) as part,
        ):
            steps: list[dict[int, float]] = []
            passes: list[dict[int, float]] = []
            for _ in range(3):  # in turn, so that both see the same machine
                steps.append(measure_passes(part, (1,), 3))
                passes.append(measure_passes(whole, _WIDTHS, 1))
        fastest = {width: min(one[width] for one in passes) for width in passes[0]}
        return DraftCosts(fastest, min(one[1] for one in steps), len(skip))
    finally:
        path.unlink(missing_ok=True)


class Budget:
    """Minutes that run only while sets are tried."""

    def __init__(self, minutes: float, cancelled: Callable[[], bool]) -> None:
        self._seconds = 60.0 * minutes
        self._started = time.monotonic()
        self.cancelled = cancelled

    @property
    def spent(self) -> float:
        """Share of the budget, 1 when it is used up."""
        return min(1.0, (time.monotonic() - self._started) / self._seconds)

    @property
    def is_over(self) -> bool:
        return self.cancelled() or self.spent >= 1.0
