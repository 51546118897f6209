"""The starter with random heads under strict numerics: its text is the plain one, byte for byte."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from engine.drafters.build import build_drafter
from engine.drafters.expression import parse_expression
from engine.drafters.tap import TargetTap
from engine.drafters.workshop import Workshop
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.layers import FINAL_STATE
from engine.llama.library import Library
from engine.llama.model import Model
from engine.models.medusa_file import quantised, write_medusa
from engine.request import SamplingParams
from engine.strict import exact_width
from tests.eagle3_gguf import Eagle3Shape, write_eagle3
from tests.eagle_files import EagleSizes, write_eagle
from tests.engine.conftest import THREADS
from tests.engine.head_files import medusa_arrays, medusa_heads
from tests.engine.tiny_replies import TinyReply

pytestmark = pytest.mark.model

LAYERS = (2, 15, 27)
PROMPT = "Write the numbers: one, two, three, one, two, three, one,"
COUNT = 16
SEEDED = SamplingParams(temperature=0.8, seed=11)


class Starter:
    """A strict context that gives layer inputs and hidden states, and drafters that know few words.

    The tokens of the plain replies are all that the heads know: some proposals are right by chance.
    """

    def __init__(self, model: Model, context: Context, width: int) -> None:
        self.context = context
        self.width = width
        vocab = model.vocab
        self.prompt = vocab.tokenize(PROMPT, add_special=True, parse_special=False)
        self.plain = {
            sampling: self.reply(None, sampling).tokens
            for sampling in (SamplingParams(temperature=0.0), SEEDED)
        }
        self.words = sorted({token for tokens in self.plain.values() for token in tokens})

    def reply(self, drafter: object, sampling: SamplingParams) -> TinyReply:
        return TinyReply(
            self.context, drafter, self.prompt, COUNT, sampling, depth=3, width=self.width
        )  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def target(starter: Model) -> Iterator[Starter]:
    width = exact_width(starter, THREADS, flash_attention=True, widest=8, depths=(24,))
    options = ContextOptions(
        256, 33, THREADS, max_leaves=14, embeddings=True, flash_attention=True,
        exact_order=True, layer_inputs=(FINAL_STATE, *LAYERS),
    )  # fmt: skip
    with Context(starter, options, AbortFlag()) as context:
        yield Starter(starter, context, width)


def heads(target: Starter, kind: str, folder: Path) -> Path:
    path = folder / f"{kind}.gguf"
    model = target.context.model
    if kind == "eagle3":
        shape = Eagle3Shape(
            model.hidden_size, model.vocab.size, LAYERS, target.words,
            heads=9, kv_heads=3, feed_forward=1536,
        )  # fmt: skip
        return write_eagle3(path, shape)
    if kind == "eagle":
        sizes = EagleSizes(
            model.hidden_size, model.vocab.size, 9, 3, 1536, likely=True, embeddings=False
        )
        return write_eagle(folder / "eagle", sizes)
    known = medusa_heads(medusa_arrays(model.hidden_size, len(target.words)))
    write_medusa(path, quantised(replace(known, token_ids=np.array(target.words))))
    return path


@pytest.mark.parametrize(
    "wording",
    [
        "eagle3:{eagle3}",
        "eagle3:tree=7:{eagle3}",
        "tree(eagle3:{eagle3})",
        "medusa:{medusa}",
        "medusa:tree=7:{medusa}",
        "eagle:{eagle}",
        "eagle:tree=7:{eagle}",
    ],
)
def test_strict_replies_are_the_plain_ones(
    target: Starter, library: Library, tmp_path: Path, wording: str
) -> None:
    assert target.width >= 3
    files = {
        kind: heads(target, kind, tmp_path)
        for kind in ("eagle3", "medusa", "eagle")
        if f"{{{kind}}}" in wording
    }
    tap = TargetTap()
    workshop = Workshop(
        target.context.model, 256, THREADS, 0, AbortFlag(), library.log, tmp_path, Path,
        lambda _label, _fraction: None, tap,
    )  # fmt: skip
    drafter = build_drafter(parse_expression(wording.format(**files)), workshop)
    tap.connect(target.context)
    for sampling, tokens in target.plain.items():
        target.context.clear()
        reply = target.reply(drafter, sampling)
        assert reply.notices == []
        assert reply.tokens == tokens
        assert sum(len(trace.proposed) for trace in reply.rounds) >= COUNT // 2
    drafter.close()
    target.context.listener = None
