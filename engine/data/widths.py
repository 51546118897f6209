"""Widths of passes whose rows agree bit for bit, and how a pass is filled up to one of them."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WidthClass:
    """widths: ascending. A row is the same bit for bit in a pass of any of them, in any place.

    Kernels differ by the number of rows, so other widths round differently. A pass of fewer rows
    is filled up with rows that are thrown away.
    """

    widths: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.widths or self.widths[0] < 1 or list(self.widths) != sorted(set(self.widths)):
            raise ValueError(f"{self.widths} is no class of widths")

    @property
    def widest(self) -> int:
        return self.widths[-1]

    def filled(self, rows: int) -> int:
        """The narrowest width of the class with room for so many rows."""
        place = bisect_left(self.widths, rows)
        if place == len(self.widths):
            raise ValueError(f"{rows} rows do not fit the widths {self.widths}")
        return self.widths[place]

    @property
    def most_filler(self) -> int:
        """Rows that are thrown away in the worst case."""
        return max(wide - narrow - 1 for narrow, wide in itertools.pairwise((0, *self.widths)))

    def up_to(self, widest: int) -> WidthClass:
        """Without the wider ones; at least the narrowest stays."""
        return WidthClass(tuple(w for w in self.widths if w <= widest) or self.widths[:1])
