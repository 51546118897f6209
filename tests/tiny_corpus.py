"""A corpus of a tiny target: random prompts, its own greedy answers, and the features of both."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.model import Model
from engine.train.corpus.disk import LIKELIEST
from engine.train.corpus.settings import read_layers
from engine.train.corpus.shards import Document, ShardWriter

PROMPT = 6
ANSWER = 26


def write_tiny_corpus(folder: Path, model: Model, documents: int, seed: int = 0) -> Path:
    """Every fourth document is held out."""
    random = np.random.default_rng(seed)
    writer = ShardWriter(folder, model.hidden_size)
    length = PROMPT + ANSWER
    options = ContextOptions(64, length, 1, embeddings=True, layer_inputs=read_layers(model.layers))
    with Context(model, options, AbortFlag()) as context:
        for number in range(documents):
            tokens = random.integers(97, 123, PROMPT).tolist()
            context.clear()
            row = context.extend(tokens)[-1]
            while len(tokens) < length:
                tokens.append(int(row.argmax()))
                row = context.extend(tokens[-1:])[-1]
            writer.add(_document(context, tokens, str(number), heldout=number % 4 == 0))
    writer.write()
    return folder


def _document(context: Context, tokens: list[int], name: str, heldout: bool) -> Document:
    context.clear()
    logits = context.extend(tokens).astype(np.float64)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    top = np.argsort(-logits, axis=1, kind="stable")[:, :LIKELIEST]
    count = len(tokens)
    return Document(
        id=name,
        category="tiny",
        heldout=heldout,
        tokens=np.array(tokens, np.int32),
        answer=np.arange(count) >= PROMPT,
        hidden=context.hidden_states(count).astype(np.float16),
        layers=context.layer_inputs(count).astype(np.float16),
        top_ids=top.astype(np.int32),
        top_logprobs=np.take_along_axis(logits, top, axis=1).astype(np.float16),
    )
