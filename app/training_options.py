"""What the page must know before it offers a training: targets, room, data that is there."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from app.model_service import ModelService
from app.training_request import TrainingRequest, training_request
from engine.data.errors import BadOptionError, IncompatiblePairError
from engine.data.folders import DataFolder
from engine.files.disk import disk_room, size_text
from engine.models.trained import trained_drafters
from engine.train.corpus.disk import CONTEXT_SHARE, bytes_per_token
from engine.train.corpus.shards import count
from engine.train.forecast import NOT_MEASURED, TrainingBudget


@dataclass(frozen=True, slots=True)
class TrainingTarget:
    """token_bytes: what an answer token of its training data takes on disk, 0 if not known."""

    value: str
    label: str
    token_bytes: int


@dataclass(frozen=True, slots=True)
class StoredData:
    """Training data of one target; bytes on disk."""

    name: str
    bytes: int
    tokens: int


def training_options(models: ModelService, folder: DataFolder, problem: str) -> dict[str, Any]:
    """problem: why nothing can be trained, "" if it can. taken: names of what was trained."""
    return {
        "problem": problem,
        "targets": [asdict(target) for target in _targets(models)],
        "data": [asdict(data) for data in stored_data(folder)],
        "taken": [one.name for one in trained_drafters(folder)],
        "free_bytes": disk_room(folder.training),
    }


def forecast_answer(data: dict[str, Any], models: ModelService) -> dict[str, Any]:
    """For the form as it stands. possible: whether such a drafter can be learned at all. pays: None
    when the target was never measured here. bytes: that so many tokens will still take on disk,
    None with a budget of time.
    """
    request = training_request(data)
    budget = TrainingBudget(request.minutes or 0, request.tokens)
    try:
        found = models.training_forecast(request.kind, request.target, budget, request.settings)
    except IncompatiblePairError as error:
        return {"possible": False, "pays": False, "text": f"{error}.", "bytes": None}
    tokens = request.tokens
    needed = None if tokens is None else models.training_bytes(request.target, tokens)
    pays, text = (None, NOT_MEASURED) if found is None else (found.pays, found.sentence)
    return {"possible": True, "pays": pays, "text": text, "bytes": needed}


def require_room(request: TrainingRequest, models: ModelService, folder: DataFolder) -> None:
    """BadOptionError when the data of so many tokens would not fit on the disk."""
    if request.tokens is None:
        return
    needed = models.training_bytes(request.target, request.tokens)
    free = disk_room(folder.training)
    if needed > free:
        raise BadOptionError(
            f"{request.tokens:,} tokens need {size_text(needed)} more and {size_text(free)} are "
            "free: ask for fewer tokens, or free some space"
        )


def stored_data(folder: DataFolder) -> list[StoredData]:
    if not folder.training.is_dir():
        return []
    corpora = sorted(one for one in folder.training.iterdir() if (one / "shards").is_dir())
    return [StoredData(one.name, _size(one), count(one).tokens) for one in corpora]


def delete_data(folder: DataFolder, name: str) -> None:
    """Heads made from it stay. BadOptionError when there is no such data."""
    if name not in {data.name for data in stored_data(folder)}:
        raise BadOptionError(f"there is no training data called {name!r}")
    shutil.rmtree(folder.training / name)


def _targets(models: ModelService) -> list[TrainingTarget]:
    return [
        TrainingTarget(model.id, model.name, _token_bytes(models, model.id))
        for model in models.models()
        if model.downloaded and not model.problem and not model.heads
    ]


def _token_bytes(models: ModelService, target: str) -> int:
    hidden = models.hidden_size(target)
    return int(CONTEXT_SHARE * bytes_per_token(hidden)) if hidden else 0


def _size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
