"""Strict numerics: which widths of passes agree with each other bit for bit, and what they cost.

Kernels differ by the number of rows, so a verify pass may round differently from plain decoding
and flip a near-tie. Inside one class of widths it cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.data.widths import WidthClass
from engine.llama.abort import AbortFlag
from engine.llama.context import Context, ContextOptions
from engine.llama.model import Model
from engine.llama.native_context import PREFILL_CHUNK
from engine.llama.recording import PassRecorder
from engine.llama.repeat import can_repeat, repeat_text
from engine.maths.proposal import Proposal
from engine.measure.calibrate import measure_passes

WIDTHS = (*range(1, 9), 10, 12, 16)
_FEW_WIDTHS = (1, 2, 4, 8, 16)
_SLOW_PASS = 0.2
"""Seconds of a one-row pass from which only a few widths are tried."""
_PART, _COPIES = 101, 4
_DEPTHS = (_PART * (1 + _COPIES), 24)
"""Attention changes kernels above 512 cached tokens: the deeper passes cross that line."""
_TRIAL_CONTEXT = 640
_SIBLINGS = 2

Rows = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class ExactWidths:
    """branches: whether a tree's rows agree with a chain's too."""

    widths: WidthClass
    branches: bool


@dataclass(frozen=True, slots=True)
class Trial:
    """One way to load a target. seconds: of a pass, by every width that was tried."""

    classes: tuple[ExactWidths, ...]
    seconds: Mapping[int, float]

    def to_json(self) -> dict[str, Any]:
        return {
            "classes": [
                {"widths": list(one.widths.widths), "branches": one.branches}
                for one in self.classes
            ],
            "seconds": {str(width): taken for width, taken in self.seconds.items()},
        }

    @staticmethod
    def from_json(content: Mapping[str, Any]) -> Trial:
        """ValueError, TypeError or KeyError when the content is not what to_json writes."""
        classes = tuple(
            ExactWidths(WidthClass(tuple(map(int, one["widths"]))), bool(one["branches"]))
            for one in content["classes"]
        )
        seconds = {int(width): float(taken) for width, taken in content["seconds"].items()}
        tried = {width for one in classes for width in one.widths.widths}
        if 1 not in tried or not tried <= seconds.keys() or min(seconds.values()) <= 0.0:
            raise ValueError("not a trial of widths")
        return Trial(classes, seconds)


class TrialContext(Protocol):
    """The part of a context that a trial needs. Rows [rows, anything] tell what they were computed
    from; see engine.llama.recording."""

    @property
    def tokens(self) -> list[int]: ...

    def extend(self, tokens: Sequence[int]) -> Rows: ...

    def verify(self, last_token: int, proposal: Proposal) -> Rows: ...

    def keep_path(self, last_token: int, proposal: Proposal, path: Sequence[int]) -> None: ...

    def truncate(self, length: int) -> None: ...


def try_widths(
    model: Model, threads: int, abort: AbortFlag, *, flash_attention: bool | None
) -> Trial:
    """A few seconds. A recurrent state is not tried: it cannot be cut back from every pass."""
    if model.has_recurrent_state:
        return Trial((ExactWidths(WidthClass((1,)), branches=False),), {1: 1.0})
    options = ContextOptions(
        _TRIAL_CONTEXT,
        max(WIDTHS),
        threads,
        max_leaves=1 + _SIBLINGS,
        flash_attention=flash_attention,
    )
    with Context(model, options, abort) as context:
        slow = measure_passes(context, (1,), 1)[1] > _SLOW_PASS
        seconds = measure_passes(context, _FEW_WIDTHS if slow else WIDTHS, 2)
    recorder = PassRecorder()
    with Context(model, replace(options, recorder=recorder), abort) as context:
        tokens = _trial_tokens(model.vocab.size)

        def stand_at(depth: int) -> Sequence[int]:
            recorder.begin(0)
            _stand_at(context, tokens, depth)
            return tokens[depth:]

        recorded = _RecordedContext(context, recorder)
        return Trial(find_classes(recorded, stand_at, sorted(seconds)), seconds)


class _RecordedContext:
    """A TrialContext whose rows are those of its recorder."""

    def __init__(self, context: Context, recorder: PassRecorder) -> None:
        self._context = context
        self._recorder = recorder
        self.truncate = context.truncate
        self.keep_path = context.keep_path

    @property
    def tokens(self) -> list[int]:
        return self._context.tokens

    def extend(self, tokens: Sequence[int]) -> Rows:
        self._recorder.begin(len(tokens))
        self._context.extend(tokens)
        return self._recorder.rows()

    def verify(self, last_token: int, proposal: Proposal) -> Rows:
        self._recorder.begin(1 + len(proposal))
        self._context.verify(last_token, proposal)
        return self._recorder.rows()


def find_classes(
    context: TrialContext, stand_at: Callable[[int], Sequence[int]], widths: Sequence[int]
) -> tuple[ExactWidths, ...]:
    """The classes of these widths, the narrowest first; together they may leave widths out: those
    whose rows differ by their place in the pass.

    stand_at: brings the context to a depth and returns the tokens that follow there.
    """
    found = [(tuple(widths), True)]
    for depth in _DEPTHS:
        here = _Depth(context, stand_at(depth), widths)
        parts = [
            (part, agrees)
            for group, agrees in found
            for part in _grouped([width for width in group if here.is_placed(width)], here)
        ]
        found = [(part, agrees and here.branches_agree(part[-1])) for part, agrees in parts]
    return tuple(ExactWidths(WidthClass(part), agrees) for part, agrees in sorted(found))


class _Depth:
    """Passes of every width after a given number of cached tokens, two of each: the second one's
    rows are the first one's, a place further up."""

    def __init__(
        self, context: TrialContext, following: Sequence[int], widths: Sequence[int]
    ) -> None:
        self._context = context
        self._following = following
        self._depth = len(context.tokens)
        self._rows: dict[int, Rows] = {}
        self._placed: dict[int, bool] = {}
        for width in widths:
            here = self._rows[width] = context.extend(following[:width]).copy()
            context.truncate(self._depth + 1)
            moved = context.extend(following[1 : 1 + width])
            context.truncate(self._depth)
            self._placed[width] = np.array_equal(here[1:], moved[: width - 1])

    def is_placed(self, width: int) -> bool:
        """Whether a row does not depend on its place in a pass of this width."""
        return self._placed[width]

    def agree(self, width: int, other: int) -> bool:
        rows = min(width, other)
        return np.array_equal(self._rows[width][:rows], self._rows[other][:rows])

    def branches_agree(self, width: int) -> bool:
        """A chain with branches between its first token and the rest, in a pass of this width."""
        nodes = width - 1
        siblings = min(_SIBLINGS, nodes - 1)
        if siblings < 1:
            return True  # such a pass has no room for a branch
        first, *rest = self._following[:width]
        others = [token + 1 for token in rest[:siblings]]
        parents = [-1] * siblings + [-1, *range(siblings, nodes - 1)]
        tokens = (*others, *rest[: nodes - siblings])
        tree = Proposal(tokens, tuple(parents), ("trial",) * nodes, (None,) * nodes)
        rows = self._context.verify(first, tree).copy()
        self._context.keep_path(first, tree, ())
        self._context.truncate(self._depth)
        on_path = np.concatenate([rows[:1], rows[1 + siblings :]])
        return np.array_equal(on_path, self._rows[width][: len(on_path)])


def _grouped(widths: Sequence[int], depth: _Depth) -> list[tuple[int, ...]]:
    """Each group is compared with its widest member so far: that one has the most rows."""
    groups: list[tuple[int, ...]] = []
    for width in widths:
        for index, group in enumerate(groups):
            if depth.agree(group[-1], width):
                groups[index] = (*group, width)
                break
        else:
            groups.append((width,))
    return groups


def _stand_at(context: Context, tokens: Sequence[int], depth: int) -> None:
    held = context.reuse(tokens[:depth])
    if held == 0 and depth == _PART * (1 + _COPIES) and can_repeat(context):
        context.feed(tokens[:_PART])
        repeat_text(context, _COPIES)
        return
    for start in range(held, depth, PREFILL_CHUNK):
        context.feed(tokens[start : min(start + PREFILL_CHUNK, depth)])


def _trial_tokens(vocabulary_size: int) -> list[int]:
    """A fixed, varied sequence of ordinary token ids, whose first part stands there repeatedly."""
    generator = np.random.Generator(np.random.Philox(7))
    high = min(vocabulary_size - 1, 20_000)
    drawn = [int(token) for token in generator.integers(high // 4, high, _TRIAL_CONTEXT)]
    return [*drawn[:_PART] * (1 + _COPIES), *drawn[_PART * (1 + _COPIES) :]]
