"""The state of an unfinished training run, written beside and renamed: never half a file."""

from __future__ import annotations

import pickle
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine.errors import RunError
from engine.train.training import HeldOut


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """best: the weights that did best on held-out documents, heldout: how they did.

    worse: looks since then. curve: seconds and expected length of every look.
    """

    best: dict[str, Tensor]
    steps: int = 0
    anchors: int = 0
    seconds: float = 0.0
    worse: int = 0
    heldout: HeldOut | None = None
    curve: tuple[tuple[float, float], ...] = ()


def save_checkpoint(
    path: Path,
    state: Checkpoint,
    parameters: dict[str, Tensor],
    optimiser: torch.optim.Optimizer,
    mark: str,
) -> None:
    """mark: what the run is of; see load_checkpoint. RunError when the disk refuses."""
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
    mark: str,
    device: torch.device,
) -> Checkpoint:
    """Fills the parameters and the optimiser. RunError: damaged, or of another run."""
    try:
        content = torch.load(path, map_location=device, weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        raise RunError(f"{path} is damaged; delete it to start again") from error
    if content["mark"] != mark:
        raise RunError(
            f"{path} is of another run; delete it, or give the settings it was made with"
        )
    with torch.no_grad():
        for name, value in parameters.items():
            value.copy_(content["parameters"][name])
    optimiser.load_state_dict(content["optimiser"])
    heldout = content["heldout"]
    return Checkpoint(
        best=content["best"],
        steps=content["steps"],
        anchors=content["anchors"],
        seconds=content["seconds"],
        worse=content["worse"],
        heldout=None
        if heldout is None
        else HeldOut(
            tuple(heldout["hits"]),
            tuple(heldout["conditional"]),
            heldout["accepted"],
            heldout["anchors"],
        ),
        curve=tuple((point[0], point[1]) for point in content["curve"]),
    )
