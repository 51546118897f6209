"""The state of an unfinished training run, written beside and renamed: never half a file."""

from __future__ import annotations

import pickle
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine.data.errors import RunError
from engine.train.training import HeldOut


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """best: the weights that did best on held-out documents, heldout: how they did.

    worse: looks since then. latest: figures of the last look. curve: seconds and expected length of
    every look.
    """

    best: dict[str, Tensor]
    steps: int = 0
    anchors: int = 0
    seconds: float = 0.0
    worse: int = 0
    heldout: HeldOut | None = None
    latest: HeldOut | None = None
    curve: tuple[tuple[float, float], ...] = ()


def save_checkpoint(
    path: Path,
    state: Checkpoint,
    parameters: dict[str, Tensor],
    optimiser: torch.optim.Optimizer,
    mark: dict[str, str],
) -> None:
    """mark: what the run is of, by name; see load_checkpoint. RunError when the disk refuses."""
    unfinished = path.with_name(path.name + ".unfinished")
    content = {
        "mark": mark,
        "parameters": {name: value.detach() for name, value in parameters.items()},
        "optimiser": optimiser.state_dict(),
        "best": state.best,
        "steps": state.steps,
        "anchors": state.anchors,
        "seconds": state.seconds,
        "worse": state.worse,
        "heldout": None if state.heldout is None else asdict(state.heldout),
        "latest": None if state.latest is None else asdict(state.latest),
        "curve": [list(point) for point in state.curve],
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        torch.save(content, unfinished)
        unfinished.replace(path)
    except (OSError, RuntimeError) as error:  # torch reports a full disk as a RuntimeError
        unfinished.unlink(missing_ok=True)
        raise RunError(f"{path} cannot be written: {error}; free some space") from error


def load_checkpoint(
    path: Path,
    parameters: dict[str, Tensor],
    optimiser: torch.optim.Optimizer,
    mark: dict[str, str],
    device: torch.device,
) -> Checkpoint:
    """Fills the parameters and the optimiser. RunError: damaged, or of another run."""
    try:
        content = torch.load(path, map_location=device, weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise RunError(f"{path} is damaged; delete it to start again") from error
    made = content["mark"]
    if not isinstance(made, dict):
        raise RunError(f"{path} was written by another version; delete it to start again")
    other = [name for name, value in mark.items() if made.get(name) != value]
    if other:
        raise RunError(
            f"{path} is of a run with other {', '.join(other)}; give the options it was started "
            "with, or delete it to start again"
        )
    with torch.no_grad():
        for name, value in parameters.items():
            value.copy_(content["parameters"][name])
    optimiser.load_state_dict(content["optimiser"])
    return Checkpoint(
        best=content["best"],
        steps=content["steps"],
        anchors=content["anchors"],
        seconds=content["seconds"],
        worse=content["worse"],
        heldout=_figures(content["heldout"]),
        latest=_figures(content["latest"]),
        curve=tuple((point[0], point[1]) for point in content["curve"]),
    )


def _figures(stored: dict[str, Any] | None) -> HeldOut | None:
    if stored is None:
        return None
    return HeldOut(
        tuple(stored["hits"]), tuple(stored["conditional"]), stored["accepted"], stored["anchors"]
    )
