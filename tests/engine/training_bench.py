"""A tiny target with a corpus of its answers, for tests of what learns from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from engine.llama.library import Library
from engine.llama.model import Model, ModelOptions
from engine.train.corpus.settings import read_layers
from engine.train.corpus.shards import Document
from engine.train.draft_vocabulary import positions_of
from engine.train.target_weights import TargetWeights
from engine.train.torch.student import DraftHead
from engine.train.training import HeadKind, TrainRequest, TrainSettings
from tests.tiny_corpus import write_tiny_corpus
from tests.tiny_gguf import write_tiny_gguf

CPU = torch.device("cpu")
SETTINGS = TrainSettings(
    epochs=2, batch=60, draft_vocabulary=120, keep_layers=3, learning_rate=3e-3, evaluate_every=1e9
)
Array = NDArray[np.float32]
Floats = NDArray[np.floating[Any]]
TEXT = [72, 101, 108, 108, 111, 44, 32, 119, 17, 33, 80, 81, 82]


class TrainingBench:
    """A tiny target of one architecture with a corpus of its answers."""

    def __init__(self, library: Library, folder: Path, architecture: str) -> None:
        self.library = library
        self.folder = folder
        self.path = write_tiny_gguf(
            folder / f"{architecture}.gguf", layers=6, architecture=architecture
        )
        self.target = TargetWeights(self.path)
        self.layers = read_layers(self.target.layers)
        self.model = Model(self.path, ModelOptions(), library.log)
        self.corpus = write_tiny_corpus(folder / f"corpus-{architecture}", self.model, 16)
        self.ids = np.arange(0, self.target.vocabulary, 2)

    def head(self, ids: NDArray[np.int64]) -> DraftHead:
        rows = self.target.head_rows(ids)
        return DraftHead(rows, ids, positions_of(ids, self.target.vocabulary), CPU)

    def document(self, layers: Floats, hidden: Floats, tokens: list[int]) -> Document:
        count = len(tokens)
        return Document(
            "d", "c", False, np.array(tokens, np.int32), np.arange(count) > 3,
            hidden.astype(np.float16), layers.astype(np.float16), np.zeros((count, 1), np.int32),
            np.zeros((count, 1), np.float16),
        )  # fmt: skip

    def request(self, kind: HeadKind, output: str = "", checkpoint: str = "") -> TrainRequest:
        return TrainRequest(
            kind, "tiny", str(self.path), "0" * 64, str(self.corpus),
            output or str(self.folder / f"out-{kind}"), checkpoint, f"train {kind}", SETTINGS,
        )  # fmt: skip


def shaken(weights: dict[str, Array]) -> dict[str, Array]:
    """Fresh weights moved a little, so that no part of them is neutral."""
    random = np.random.default_rng(3)
    return {
        name: (value + 0.05 * random.standard_normal(value.shape)).astype(np.float32)
        for name, value in weights.items()
    }
