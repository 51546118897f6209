"""Between the target's context and the drafters that read its layers.

Drafters are built before the target's context, because they decide how it is made: they leave
here what they want, and are connected once the context is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engine.data.errors import EngineError
from engine.llama.context import Context


class Follower(Protocol):
    """A drafter that reads layer inputs. features: [rows, its layers x hidden] of a pass."""

    @property
    def layers(self) -> tuple[int, ...]: ...

    def connect(self, target: Context) -> None:
        """Opens what needs the target's context; EngineError when that is impossible."""
        ...

    def cut(self, length: int) -> int:
        """The target's cache goes back; returns how many tokens of it the drafter knows."""
        ...

    def fed(self, start: int, tokens: Sequence[int], features: NDArray[np.float32]) -> None: ...

    def verified(
        self, start: int, tokens: Sequence[int], features: NDArray[np.float32]
    ) -> None: ...

    def kept(self, rows: Sequence[int]) -> None:
        """Which rows of the verified pass stay, in the order of the text."""
        ...

    def fail(self, error: EngineError) -> None:
        """What went wrong while the target worked; to be raised when the drafter is asked."""
        ...


class HiddenStateCapture:
    """A context's listener. A failing drafter must not stop the target's pass."""

    def __init__(self) -> None:
        self._followers: list[Follower] = []
        self._context: Context | None = None
        self.ranked = 0
        """How many of the target's likeliest tokens after every row drafters want to be shown."""

    @property
    def layers(self) -> tuple[int, ...]:
        """Every layer that some drafter reads."""
        return tuple(sorted({layer for one in self._followers for layer in one.layers}))

    def want(self, follower: Follower) -> None:
        self._followers.append(follower)

    def want_ranked(self, count: int) -> None:
        self.ranked = max(self.ranked, count)

    def connect(self, context: Context) -> None:
        """EngineError when the target does not show its layers, or a drafter cannot be opened."""
        if not self._followers:
            return
        context.feed([max(context.model.vocab.bos, 0)])
        context.layer_inputs(1)
        context.clear()
        self._context = context
        context.listener = self
        for follower in self._followers:
            follower.connect(context)

    def cut(self, length: int) -> int:
        return min((follower.cut(length) for follower in self._followers), default=length)

    def fed(self, start: int, tokens: Sequence[int]) -> None:
        self._tell(len(tokens), lambda one, features: one.fed(start, tokens, features))

    def verified(self, start: int, tokens: Sequence[int]) -> None:
        self._tell(len(tokens), lambda one, features: one.verified(start, tokens, features))

    def kept(self, rows: Sequence[int]) -> None:
        for follower in self._followers:
            try:
                follower.kept(rows)
            except EngineError as error:
                follower.fail(error)

    def _tell(self, rows: int, tell: Callable[[Follower, NDArray[np.float32]], None]) -> None:
        if self._context is None:
            return
        for follower in self._followers:
            try:
                features = self._context.layer_inputs(rows)
                tell(follower, features[:, self._columns(follower)])
            except EngineError as error:
                follower.fail(error)

    def _columns(self, follower: Follower) -> NDArray[np.int64]:
        """Places of the follower's layers, in its order, among all that the context keeps."""
        hidden = self._context.model.hidden_size if self._context is not None else 0
        layers = self.layers
        starts = [layers.index(layer) * hidden for layer in follower.layers]
        return np.concatenate([np.arange(start, start + hidden) for start in starts])
