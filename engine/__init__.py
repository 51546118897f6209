"""The engine, as a library: the door for other programs.

    from engine import EngineClient, GenerateRequest, LoadRequest, Message, open_data_folder

Names are imported when they are first used: a module of the engine loads only what it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.data.errors import EngineError, RequestError, RunError
    from engine.data.events import Finished, Notice, PromptProgress, Queued, Retold, RunEvent
    from engine.data.folders import DataFolder, open_data_folder
    from engine.data.loaded import LoadedSummary
    from engine.data.request import (
        DraftParams,
        GenerateRequest,
        LoadRequest,
        Message,
        SamplingParams,
    )
    from engine.data.rounds import EmittedToken, ProposedToken, RoundTrace
    from engine.data.stats import Stats
    from engine.process.client import EngineClient
    from engine.process.run import Run

_HOMES = {
    "engine.data.errors": ("EngineError", "RequestError", "RunError"),
    "engine.data.events": ("Finished", "Notice", "PromptProgress", "Queued", "Retold", "RunEvent"),
    "engine.data.folders": ("DataFolder", "open_data_folder"),
    "engine.data.loaded": ("LoadedSummary",),
    "engine.data.request": (
        "DraftParams",
        "GenerateRequest",
        "LoadRequest",
        "Message",
        "SamplingParams",
    ),
    "engine.data.rounds": ("EmittedToken", "ProposedToken", "RoundTrace"),
    "engine.data.stats": ("Stats",),
    "engine.process.client": ("EngineClient",),
    "engine.process.run": ("Run",),
}
_HOME = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "DataFolder",
    "DraftParams",
    "EmittedToken",
    "EngineClient",
    "EngineError",
    "Finished",
    "GenerateRequest",
    "LoadRequest",
    "LoadedSummary",
    "Message",
    "Notice",
    "PromptProgress",
    "ProposedToken",
    "Queued",
    "RequestError",
    "Retold",
    "RoundTrace",
    "Run",
    "RunError",
    "RunEvent",
    "SamplingParams",
    "Stats",
    "open_data_folder",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)
