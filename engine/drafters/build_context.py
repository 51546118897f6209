"""What building a drafter needs of the loaded target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.drafters.copying.earlier import EarlierTexts
from engine.drafters.features.capture import HiddenStateCapture
from engine.files.measurements import Measurements
from engine.llama.abort import AbortFlag
from engine.llama.log import NativeLog
from engine.llama.model import Model

Report = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class BuildContext:
    """find_model: catalogue id or path to a file. tap: for drafters that read the target's layers.
    earlier: texts to copy from besides the chat. measurements: where searches left their results.
    plain_attention: whether models do without llama.cpp's fused kernel.

    report: what is being done, share of it done.
    """

    target: Model
    context_length: int
    threads: int
    gpu_layers: int
    abort: AbortFlag
    log: NativeLog
    derived_folder: Path
    find_model: Callable[[str], Path]
    report: Report
    capture: HiddenStateCapture = field(default_factory=HiddenStateCapture)
    earlier: EarlierTexts | None = None
    measurements: Measurements | None = None
    plain_attention: bool = False
