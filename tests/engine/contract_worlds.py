"""Targets, and every kind of drafter for them: what the contract test goes through.

A new kind of drafter gets one line in DRAFTERS, and is then held to the whole contract.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from engine.data.request import Coupling, SamplingParams
from engine.data.widths import WidthClass
from engine.drafters.base import Drafter
from engine.drafters.build_context import BuildContext
from engine.drafters.features.capture import HiddenStateCapture
from engine.drafters.parse import parse_expression
from engine.files.gguf_types import TOKEN_NORMAL
from engine.heads.medusa_file import quantised, write_medusa
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.derived import requantized_copy, skipped_copy
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.measure.exact_widths import try_widths
from engine.models.vocabulary import read_vocabulary
from tests.eagle3_gguf import Eagle3Shape, write_eagle3
from tests.eagle_files import EagleSizes, write_eagle
from tests.engine.conftest import THREADS
from tests.engine.head_files import medusa_arrays, medusa_heads
from tests.engine.open_drafter import build_drafter
from tests.engine.tiny_replies import GREEDY, TinyReply
from tests.mtp_gguf import write_mtp_gguf
from tests.tiny_gguf import write_tiny_gguf

DRAFTERS = {
    "ngram": "ngram",
    "model": "model:{relative}",
    "early-exit": "early-exit:skip={skip}",
    "tli": "tli:{other}",
    "recycle": "recycle",
    "recycle tree": "recycle:tree=9",
    "medusa": "medusa:{medusa}",
    "medusa tree": "medusa:tree=9:{medusa}",
    "eagle": "eagle:{eagle}",
    "eagle tree": "eagle:tree=9:{eagle}",
    "eagle3": "eagle3:{eagle3}",
    "eagle3 tree": "eagle3:tree=9:{eagle3}",
    "mtp": "mtp",
    "first": "first(ngram,model:{relative})",
    "best": "best(ngram,model:{relative},eagle:{eagle})",
    "vote": "vote(recycle,model:{relative},early-exit:skip={skip})",
    "mixture": "mixture(ngram,model:{relative},medusa:{medusa})",
    "union": "union(ngram,model:{relative},eagle3:{eagle3})",
    "tree": "tree(model:{relative})",
}
LEARNING = {"ngram", "recycle", "recycle tree", "first", "best", "vote", "mixture", "union"}
"""Those that keep something of earlier chats on purpose: a fresh one may draft otherwise."""

TINY_PROMPT = [72, 101, 108, 108, 111, 44, 32, 119, 72, 101, 108]
STARTER_PROMPT = "Write the numbers: one, two, three, one, two, three, one,"
LENGTH, DEPTH, MOST_ROWS = 256, 3, 8


@dataclass(frozen=True)
class Opened:
    """A drafter and the context it drafts for."""

    context: Context
    drafter: Drafter | None
    width: int
    ranked: int

    def reply(
        self,
        prompt: Sequence[int],
        count: int,
        sampling: SamplingParams,
        coupling: Coupling = "seed",
        stop_at: int = 0,
    ) -> TinyReply:
        return TinyReply(
            self.context, self.drafter, prompt, count, sampling, DEPTH, self.width,
            coupling=coupling, ranked=self.ranked, stop_at=stop_at,
        )  # fmt: skip


class World:
    """One target under strict numerics; files for its drafters are made when they are asked for."""

    def __init__(self, model: Model, library: Library, folder: Path, prompt: list[int]) -> None:
        self.model = model
        self.prompt = prompt
        trial = try_widths(model, THREADS, AbortFlag(), flash_attention=True)
        classes = [one.widths.up_to(MOST_ROWS) for one in trial.classes if one.branches]
        best = max(classes, key=lambda one: (one.widest, len(one.widths)))
        # With gaps, so that passes are filled up everywhere.
        self.widths = WidthClass(tuple(w for w in best.widths if w not in (1, 3, 5)))
        self._library = library
        self._folder = folder
        self._plain: dict[object, list[int]] = {}

    @cached_property
    def plain_context(self) -> Context:
        return Context(self.model, self._options(), AbortFlag())

    def plain(self, prompt: Sequence[int], count: int, sampling: SamplingParams) -> list[int]:
        """What the target writes alone."""
        key = (tuple(prompt), count, sampling)
        if key not in self._plain:
            reply = TinyReply(self.plain_context, None, prompt, count, sampling, width=1)
            self._plain[key] = reply.tokens
        return self._plain[key]

    @property
    def width(self) -> int:
        return self.widths.widest

    @contextmanager
    def opened_plain(self) -> Iterator[Opened]:
        """The target alone, with nothing in its cache."""
        with Context(self.model, self._options(), AbortFlag()) as context:
            yield Opened(context, None, self.width, 0)

    @contextmanager
    def reopened(self, name: str) -> Iterator[Opened]:
        """Everything read again, the target too."""
        options = ModelOptions(mtp=name == "mtp")
        with (
            Model(self.model.path, options, self._library.log) as target,
            self.opened(name, target) as opened,
        ):
            yield opened

    @contextmanager
    def opened(self, name: str, target: Model | None = None) -> Iterator[Opened]:
        target = target or self.model
        capture = HiddenStateCapture()
        build = BuildContext(
            target, LENGTH, THREADS, 0, AbortFlag(), self._library.log, self._folder,
            lambda _label, _fraction: None, capture,
        )  # fmt: skip
        drafter = build_drafter(parse_expression(self.expression(name)), build)
        context = Context(target, self._options(drafter, capture), AbortFlag())
        try:
            capture.connect(context)
            width = min(self.width, context.widest_verify)
            yield Opened(context, drafter, width, capture.ranked)
        finally:
            drafter.close()
            context.close()

    def _options(
        self, drafter: Drafter | None = None, capture: HiddenStateCapture | None = None
    ) -> ContextOptions:
        return ContextOptions(
            LENGTH, 33, THREADS,
            max_leaves=drafter.max_leaves if drafter is not None else 1,
            embeddings=drafter is not None and drafter.needs == "final hidden state",
            flash_attention=True,
            exact=self.widths,
            layer_inputs=capture.layers if capture is not None else (),
        )  # fmt: skip

    def expression(self, name: str) -> str:
        wording = DRAFTERS[name]
        kinds: dict[str, Callable[[], Path]] = {
            "relative": lambda: self.relative,
            "other": lambda: self.other,
            "medusa": lambda: self.medusa,
            "eagle": lambda: self.eagle,
            "eagle3": lambda: self.eagle3,
        }
        wanted = {kind: str(make()) for kind, make in kinds.items() if f"{{{kind}}}" in wording}
        skip = f"{self.model.layers // 2}+{self.model.layers // 2 + 2}"
        return wording.format(skip=skip, **wanted)

    # Files

    @cached_property
    def words(self) -> list[int]:
        """What plain replies are made of: heads that know no other words are right now and then."""
        long = SamplingParams(temperature=0.8, seed=11)
        return sorted({t for one in (GREEDY, long) for t in self.plain(self.prompt, 12, one)})

    @cached_property
    def relative(self) -> Path:
        """The target without a layer: a model that often agrees with it."""
        skip = (self.model.layers // 2,)
        path, layers = self.model.path, self.model.layers
        return skipped_copy(path, layers, skip, self._folder, self._library.log, lambda _: None)

    @cached_property
    def other(self) -> Path:
        """A small model with another tokenizer: few words, in another order."""
        known = read_vocabulary(self.model.path)
        texts = [
            text.decode()
            for text, kind in zip(known.tokens, known.types, strict=True)
            if kind == TOKEN_NORMAL
        ]
        single = [text for text in texts if len(text) == 1]
        words = [*single, *(text for text in reversed(texts[::5]) if len(text) > 1)]
        return write_tiny_gguf(self._folder / "other.gguf", tokens=words)

    @cached_property
    def medusa(self) -> Path:
        path = self._folder / "medusa.gguf"
        heads = medusa_heads(medusa_arrays(self.model.hidden_size, len(self.words)))
        write_medusa(path, quantised(replace(heads, token_ids=np.array(self.words))))
        return path

    @cached_property
    def eagle3(self) -> Path:
        hidden, size, layers = self.model.hidden_size, self.model.vocab.size, self.model.layers
        read = (1, layers // 2, layers - 1)
        heads = 9 if hidden % 9 == 0 else 4
        shape = Eagle3Shape(
            hidden, size, read, self.words, heads=heads, kv_heads=3 if heads == 9 else 2
        )
        return write_eagle3(self._folder / "eagle3.gguf", shape)

    @cached_property
    def eagle(self) -> Path:
        hidden, size = self.model.hidden_size, self.model.vocab.size
        heads = 9 if hidden % 9 == 0 else 4
        sizes = EagleSizes(hidden, size, heads, 3 if heads == 9 else 2, likely=True)
        return write_eagle(self._folder / "eagle", sizes)

    def close(self) -> None:
        self.plain_context.close()


@contextmanager
def tiny_world(library: Library, folder: Path) -> Iterator[World]:
    """Quantised, because passes over several rows of it are exact; with float weights none are."""
    source = write_tiny_gguf(folder / "target.gguf", layers=5)
    path = requantized_copy(source, "Q4_1", folder, library.log, lambda _: None)
    with Model(path, ModelOptions(), library.log) as model:
        world = World(model, library, folder, TINY_PROMPT)
        yield world
        world.close()


@contextmanager
def mtp_world(library: Library, folder: Path) -> Iterator[World]:
    source = write_mtp_gguf(folder / "mtp.gguf")
    path = requantized_copy(source, "Q8_0", folder, library.log, lambda _: None)
    with Model(path, ModelOptions(mtp=True), library.log) as model:
        world = World(model, library, folder, TINY_PROMPT)
        yield world
        world.close()


@contextmanager
def starter_world(library: Library, starter: Model, folder: Path) -> Iterator[World]:
    prompt = starter.vocab.tokenize(STARTER_PROMPT, add_special=True, parse_special=False)
    world = World(starter, library, folder, prompt)
    yield world
    world.close()
