"""Does the written file say in llama.cpp what torch says? The last stage of every training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from engine.drafters.medusa_graph import MedusaGraph
from engine.errors import RunError
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.draft_layer import Eagle3Context
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.models.heads import require_medusa
from engine.train.settings import read_layers
from engine.train.shards import Document
from engine.train.torch_batches import Batch, anchors_of, make_batch
from engine.train.torch_eagle3 import Eagle3Trainee
from engine.train.torch_early_exit import EarlyExitTrainee
from engine.train.torch_medusa import MedusaTrainee
from engine.train.torch_trainee import Trainee

Rows = NDArray[np.float32]
Text = tuple[list[int], list[int]]
"""Tokens, and the rows among them that are anchors."""
Opened = tuple[Library, int]
"""The library, and how many threads its passes use."""
LONGEST = 192  # tokens of the document that is tried
ANCHORS = 12
_TOLERANCE = 0.15  # of the logits' standard deviation, on average
_LEAST_AGREEMENT = 0.75


@dataclass(frozen=True, slots=True)
class Check:
    """Logits of the first draft step in llama.cpp against torch with the same stored weights.

    rows compared; largest and mean difference; spread: standard deviation of the logits; agreeing:
    share of rows with the same likeliest token.
    """

    rows: int
    largest: float
    mean: float
    spread: float
    agreeing: float


def check_file(
    path: Path,
    trainee: Trainee,
    heldout: Sequence[Document],
    target: Path,
    threads: int,
    library: Library,
) -> Check:
    """trainee: with the weights as they are in the file. RunError when the two do not agree."""
    text, opened = _text(heldout), (library, threads)
    with Model(target, ModelOptions(gpu_layers=0), library.log) as model:
        if isinstance(trainee, Eagle3Trainee):
            ours, theirs = _eagle3(path, trainee, model, text, opened)
        elif isinstance(trainee, MedusaTrainee):
            ours, theirs = _medusa(path, trainee, model, text, threads)
        elif isinstance(trainee, EarlyExitTrainee):
            ours, theirs = _early_exit(path, trainee, text, opened)
        else:
            raise TypeError(f"nothing is known of {type(trainee).__name__}")
    return _compared(path, ours, theirs)


def _compared(path: Path, ours: Rows, theirs: Rows) -> Check:
    difference = np.abs(ours - theirs)
    check = Check(
        rows=len(ours),
        largest=float(difference.max()),
        mean=float(difference.mean()),
        spread=float(ours.std()),
        agreeing=float((ours.argmax(axis=1) == theirs.argmax(axis=1)).mean()),
    )
    if check.mean > _TOLERANCE * check.spread or check.agreeing < _LEAST_AGREEMENT:
        raise RunError(
            f"{path.name} says other things in llama.cpp than in training (mean difference "
            f"{check.mean:.2f}, {check.agreeing:.0%} same first choices); it was not kept"
        )
    return check


def _text(heldout: Sequence[Document]) -> Text:
    """The start of a document, and rows in it that are anchors, the last ones."""
    for document in heldout:
        rows = np.flatnonzero(anchors_of(document.answer[:LONGEST], 1))
        if len(rows) >= ANCHORS:
            return document.tokens[:LONGEST].tolist(), rows[-ANCHORS:].tolist()
    document = max(heldout, key=lambda one: int(one.answer[:LONGEST].sum()))
    rows = np.flatnonzero(anchors_of(document.answer[:LONGEST], 1))
    return document.tokens[:LONGEST].tolist(), rows.tolist()


def _batch(trainee: Trainee, text: Text, hidden: Rows, layers: Rows) -> Batch:
    """One document whose only anchors are these."""
    tokens, anchors = text
    answer = np.zeros(len(tokens), np.bool_)
    answer[[anchor + 2 for anchor in anchors]] = True
    nothing = np.zeros((len(tokens), 1), np.int32)
    document = Document(
        "check", "check", True, np.array(tokens, np.int32), answer, hidden.astype(np.float16),
        layers.astype(np.float16), nothing, nothing.astype(np.float16),
    )  # fmt: skip
    device = next(iter(trainee.parameters.values())).device
    return make_batch([document], trainee.positions, trainee.features, device)


def _logits(states: torch.Tensor, rows: torch.Tensor) -> Rows:
    found: Rows = (states @ rows.t()).detach().numpy(force=True)
    return found


def _eagle3(
    path: Path,
    trainee: Eagle3Trainee,
    model: Model,
    text: Text,
    opened: Opened,
) -> tuple[Rows, Rows]:
    (tokens, anchors), (library, threads) = text, opened
    layers = read_layers(model.layers)
    options = ContextOptions(LONGEST + 8, 8, threads, layer_inputs=layers)
    abort = AbortFlag()
    theirs = []
    with (
        Context(model, options, abort) as context,
        Model(path, ModelOptions(gpu_layers=0), library.log) as drafter,
    ):
        context.feed(tokens)
        features = context.layer_inputs(len(tokens)).copy()
        ids = trainee.head.token_ids.numpy(force=True)
        decoder = Eagle3Context(drafter, context, threads, abort)
        try:
            states = np.concatenate(
                [decoder.encode(features[i : i + 64]) for i in range(0, len(tokens), 64)]
            )
            for anchor in anchors:
                for start in range(decoder.length, anchor, 64):
                    stop = min(anchor, start + 64)
                    decoder.feed(tokens[start + 1 : stop + 1], states[start:stop])
                row, _ = decoder.draft(tokens[anchor + 1], states[anchor])
                theirs.append(row[ids].copy())
        finally:
            decoder.close()
    batch = _batch(trainee, text, features[:, : model.hidden_size], features)
    return _logits(trainee.final_states(batch)[0], trainee.head.rows), np.stack(theirs)


def _medusa(
    path: Path,
    trainee: MedusaTrainee,
    model: Model,
    text: Text,
    threads: int,
) -> tuple[Rows, Rows]:
    tokens, anchors = text
    options = ContextOptions(LONGEST + 8, LONGEST, threads, embeddings=True)
    with Context(model, options, AbortFlag()) as context:
        context.extend(tokens)
        hidden = context.hidden_states(len(tokens)).copy()
    graph = MedusaGraph(require_medusa(model.path, path), threads)
    theirs = []
    try:
        for anchor in anchors:
            graph.run(hidden[anchor])
            theirs.append(graph.logits(0).copy())
    finally:
        graph.close()
    batch = _batch(trainee, text, hidden, hidden)
    own = trainee.own_rows(0)
    rows = trainee.head.rows if own is None else own
    return _logits(trainee.final_states(batch)[0], rows), np.stack(theirs)


def _early_exit(
    path: Path,
    trainee: EarlyExitTrainee,
    text: Text,
    opened: Opened,
) -> tuple[Rows, Rows]:
    (tokens, anchors), (library, threads) = text, opened
    with (
        Model(path, ModelOptions(gpu_layers=0), library.log) as model,
        Context(model, ContextOptions(LONGEST + 8, LONGEST, threads), AbortFlag()) as context,
    ):
        theirs = context.extend(tokens)[anchors].copy()
    nothing = np.zeros((len(tokens), 1), np.float32)
    batch = _batch(trainee, text, nothing, nothing)
    return _logits(trainee.final_states(batch)[anchors], trainee.head.rows), theirs
