"""Learning curves that were measured: how often a drafter is right after so much data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

from engine.train.training import HeadKind

Curve = Mapping[int, tuple[float, ...]]
"""Hit rates by position, each where those before it hit, by answer tokens."""

_FILE = Path(__file__).resolve().parents[2] / "assets" / "learning_curves.toml"


def read_curves(path: Path = _FILE) -> dict[HeadKind, dict[int, Curve]]:
    """By kind of drafter and weights of the target. The file says how they were measured."""
    curves: dict[HeadKind, dict[int, Curve]] = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["curve"]:
        points = {point["tokens"]: tuple(point["hits"]) for point in entry["points"]}
        curves.setdefault(entry["kind"], {})[entry["weights"]] = points
    return curves


CURVES = read_curves()
