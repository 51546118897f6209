"""What building a drafter needs of the loaded target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from engine.drafters.copying.earlier import EarlierTexts
from engine.drafters.features.capture import HiddenStateCapture
from engine.llama.abort import AbortFlag
from engine.llama.library import devices
from engine.llama.log import NativeLog
from engine.llama.model import Model

Report = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class BuildContext:
    """capture: for drafters that read the target's layers. earlier: texts to copy from besides the
    chat. plain_attention: whether models do without llama.cpp's fused kernel.

    report: what is being done, fraction of it done.
    """

    target: Model
    context_length: int
    threads: int
    gpu_layers: int
    abort: AbortFlag
    log: NativeLog
    derived_folder: Path
    report: Report
    capture: HiddenStateCapture = field(default_factory=HiddenStateCapture)
    earlier: EarlierTexts | None = None
    plain_attention: bool = False

    @property
    def threads_of_members(self) -> int:
        """For members that draft side by side: one graphics card runs one pass at a time."""
        uses_gpu = self.gpu_layers != 0 and bool(devices())
        return 1 if uses_gpu else self.threads
