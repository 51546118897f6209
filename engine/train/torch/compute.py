"""What training computes on, and the numbers it multiplies in."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engine.data.errors import BadOptionError

_FIRST_CUDA_WITH_BF16 = (8, 0)


@dataclass(frozen=True, slots=True)
class Compute:
    """bfloat16: matrices are multiplied in it, as mixed precision does (Micikevicius et al. 2018,
    arXiv 1710.03740); weights, norms, losses and the optimiser's state stay in float32."""

    device: torch.device
    bfloat16: bool

    @property
    def precision(self) -> str:
        return "bfloat16" if self.bfloat16 else "float32"

    def products(self) -> torch.autocast:
        """The context in which a loss is computed."""
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.bfloat16)


def choose_compute(device: str, precision: str, cpu_multiplies_bf16: bool) -> Compute:
    """precision: "auto" is bfloat16 where the device has an instruction for it.

    BadOptionError when a CUDA card is asked for and torch finds none.
    """
    found = torch.cuda.is_available()
    if device == "cuda" and not found:
        raise BadOptionError("torch finds no CUDA card here; use --device cpu")
    chosen = torch.device("cuda" if found and device != "cpu" else "cpu")
    if precision != "auto":
        return Compute(chosen, precision == "bfloat16")
    if chosen.type == "cuda":
        return Compute(chosen, torch.cuda.get_device_capability(chosen) >= _FIRST_CUDA_WITH_BF16)
    return Compute(chosen, cpu_multiplies_bf16)
