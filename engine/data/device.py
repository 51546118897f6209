"""Where models live: RAM, and the memory of graphics cards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    """A compute device besides the CPU. Memory in bytes."""

    name: str
    description: str
    free_bytes: int
    total_bytes: int

    def __str__(self) -> str:
        return f"{self.name} ({self.description}), {self.total_bytes / 2**30:.1f} GiB"


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes: of RAM, and of the graphics cards together."""

    host: int
    device: int = 0

    def __add__(self, other: Room) -> Room:
        return Room(self.host + other.host, self.device + other.device)


def used_devices(found: Sequence[tuple[Device, bool]]) -> tuple[Device, ...]:
    """Cards that llama.cpp uses: integrated ones (True) only where there is no other."""
    cards = tuple(device for device, integrated in found if not integrated)
    return cards or tuple(device for device, _ in found)
