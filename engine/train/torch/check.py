"""Does the written file say in llama.cpp what torch says? The last stage of every training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from engine.data.errors import RunError
from engine.drafters.features.medusa_graph import MedusaGraph
from engine.heads.pairing import require_medusa
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.draft_layer import Eagle3Context
from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.train.corpus.settings import read_layers
from engine.train.corpus.shards import Document
from engine.train.torch.batches import Batch, anchors_of, make_batch
from engine.train.torch.eagle3 import Eagle3Student
from engine.train.torch.early_exit import EarlyExitStudent
from engine.train.torch.medusa import MedusaStudent
from engine.train.torch.student import Student

Rows = NDArray[np.float32]
LONGEST = 192  # tokens of the document that is tried
ANCHORS = 12
_TOLERANCE = 0.15  # of the logits' standard deviation, on average
_LEAST_AGREEMENT = 0.75


@dataclass(frozen=True, slots=True)
class Text:
    """anchors: rows among the tokens whose drafts are compared."""

    tokens: list[int]
    anchors: list[int]


@dataclass(frozen=True, slots=True)
class Runtime:
    """threads: that the library's passes use."""

    library: Library
    threads: int


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
    student: Student,
    heldout: Sequence[Document],
    target: Path,
    threads: int,
    library: Library,
) -> Check:
    """student: with the weights as they are in the file. RunError when the two do not agree."""
    text, runtime = _text(heldout), Runtime(library, threads)
    with Model(target, ModelOptions(gpu_layers=0), library.log) as model:
        if isinstance(student, Eagle3Student):
            ours, theirs = _eagle3(path, student, model, text, runtime)
        elif isinstance(student, MedusaStudent):
            ours, theirs = _medusa(path, student, model, text, threads)
        elif isinstance(student, EarlyExitStudent):
            ours, theirs = _early_exit(path, student, text, runtime)
        else:
            raise TypeError(f"nothing is known of {type(student).__name__}")
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
            return Text(document.tokens[:LONGEST].tolist(), rows[-ANCHORS:].tolist())
    document = max(heldout, key=lambda one: int(one.answer[:LONGEST].sum()))
    rows = np.flatnonzero(anchors_of(document.answer[:LONGEST], 1))
    return Text(document.tokens[:LONGEST].tolist(), rows.tolist())


def _batch(student: Student, text: Text, hidden: Rows, layers: Rows) -> Batch:
    """One document whose only anchors are these."""
    tokens, anchors = text.tokens, text.anchors
    answer = np.zeros(len(tokens), np.bool_)
    answer[[anchor + 2 for anchor in anchors]] = True
    nothing = np.zeros((len(tokens), 1), np.int32)
    document = Document(
        "check", "check", True, np.array(tokens, np.int32), answer, hidden.astype(np.float16),
        layers.astype(np.float16), nothing, nothing.astype(np.float16),
    )  # fmt: skip
    device = next(iter(student.parameters.values())).device
    return make_batch([document], student.positions, student.features, device)


def _logits(states: torch.Tensor, rows: torch.Tensor) -> Rows:
    found: Rows = (states @ rows.t()).detach().numpy(force=True)
    return found


def _eagle3(
    path: Path,
    student: Eagle3Student,
    model: Model,
    text: Text,
    runtime: Runtime,
) -> tuple[Rows, Rows]:
    tokens, anchors, threads = text.tokens, text.anchors, runtime.threads
    layers = read_layers(model.layers)
    options = ContextOptions(LONGEST + 8, 8, threads, layer_inputs=layers)
    abort = AbortFlag()
    theirs = []
    with (
        Context(model, options, abort) as context,
        Model(path, ModelOptions(gpu_layers=0), runtime.library.log) as drafter,
    ):
        context.feed(tokens)
        features = context.layer_inputs(len(tokens)).copy()
        ids = student.head.token_ids.numpy(force=True)
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
    batch = _batch(student, text, features[:, : model.hidden_size], features)
    return _logits(student.final_states(batch)[0], student.head.rows), np.stack(theirs)


def _medusa(
    path: Path,
    student: MedusaStudent,
    model: Model,
    text: Text,
    threads: int,
) -> tuple[Rows, Rows]:
    tokens, anchors = text.tokens, text.anchors
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
    batch = _batch(student, text, hidden, hidden)
    own = student.own_rows(0)
    rows = student.head.rows if own is None else own
    return _logits(student.final_states(batch)[0], rows), np.stack(theirs)


def _early_exit(
    path: Path,
    student: EarlyExitStudent,
    text: Text,
    runtime: Runtime,
) -> tuple[Rows, Rows]:
    tokens, anchors, threads = text.tokens, text.anchors, runtime.threads
    with (
        Model(path, ModelOptions(gpu_layers=0), runtime.library.log) as model,
        Context(model, ContextOptions(LONGEST + 8, LONGEST, threads), AbortFlag()) as context,
    ):
        theirs = context.extend(tokens)[anchors].copy()
    nothing = np.zeros((len(tokens), 1), np.float32)
    batch = _batch(student, text, nothing, nothing)
    return _logits(student.final_states(batch)[anchors], student.head.rows), theirs
