"""Where random decisions come from: one protocol, independent streams, and a coupled one.

Knows distributions, nothing of models or verification. The target's and the drafter's streams
are independent: a shared one would tie the draft to the test it has to pass and bias the text.
"""

from __future__ import annotations

import secrets
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from engine.maths.distribution import Distribution

Purpose = Literal["target", "draft"]

_SPAWN_KEYS: dict[str, int] = {"target": 1, "draft": 2, "coupled": 3}
_MASK = 2**64 - 1
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB


class DrawStream(Protocol):
    """Random decisions in the order they are asked for."""

    def uniform(self) -> float:
        """A number in [0, 1)."""
        ...

    def accept(self, probability: float) -> bool:
        """True with this probability; always at 1, never at 0."""
        ...

    def draw(self, distribution: Distribution, position: int) -> int:
        """A token of the distribution. position: index in the context the token will take."""
        ...


DraftStream = DrawStream
TargetStream = DrawStream


class IndependentStream:
    """A Philox generator of its own for each purpose; draws by inverse CDF."""

    def __init__(self, seed: int, purpose: Purpose, start: int = 0) -> None:
        """start: tokens that the reply has already. What they were drawn with is not used again."""
        self._generator = _philox(seed, _SPAWN_KEYS[purpose], start)

    def uniform(self) -> float:
        return self._generator.random()

    def accept(self, probability: float) -> bool:
        return self._generator.random() < probability

    def draw(self, distribution: Distribution, position: int) -> int:
        if len(distribution.ids) == 1:
            return int(distribution.ids[0])
        return distribution.draw(self._generator.random())


class CoupledStream:
    """Draws that depend on (seed, position, distribution) alone, not on what was drawn before.

    The noise of a token is a hash of seed, position and token id, shared by drafter and target,
    so the target's text does not depend on the drafter, and a drafter with a similar
    distribution tends to draw the same token (Gumbel coupling: Daliri et al. 2024, 2408.07978).
    """

    def __init__(self, seed: int) -> None:
        self._key = _mix(_mix(seed) + _GOLDEN)
        self._generator = _philox(seed, _SPAWN_KEYS["coupled"])

    def uniform(self) -> float:
        return self._generator.random()

    def accept(self, probability: float) -> bool:
        return self._generator.random() < probability

    def draw(self, distribution: Distribution, position: int) -> int:
        """argmax of log p + Gumbel noise, written as a race: argmin of exponential / p."""
        if len(distribution.ids) == 1:
            return int(distribution.ids[0])
        with np.errstate(over="ignore"):  # a subnormal p arrives at infinity: never
            arrivals = self.exponentials(distribution.ids, position) / distribution.probabilities
        return int(distribution.ids[int(np.argmin(arrivals))])

    def exponentials(self, ids: NDArray[np.int64], position: int) -> NDArray[np.float64]:
        """Exponential noise of the tokens at one position, [n] in, [n] out."""
        start = _mix(self._key ^ _mix(position + _GOLDEN))
        state = ids.astype(np.uint64)
        state *= np.uint64(_GOLDEN)
        state += np.uint64(start)
        _mix_in_place(state)
        _mix_in_place(state)
        state >>= np.uint64(12)
        # 52 bits and a half: strictly inside (0, 1), both ends exactly representable.
        noise = state.astype(np.float64)
        noise += 0.5
        noise *= 2.0**-52
        np.log(noise, out=noise)
        return np.negative(noise, out=noise)


def random_seed() -> int:
    """A seed for a request that gave none; small enough to be typed in again."""
    return secrets.randbelow(2**31)


def _philox(seed: int, spawn_key: int, start: int = 0) -> np.random.Generator:
    keys = (spawn_key, start) if start else (spawn_key,)
    sequence = np.random.SeedSequence(seed, spawn_key=keys)
    return np.random.Generator(np.random.Philox(sequence))


def _mix(value: int) -> int:
    """The finaliser of splitmix64 (Steele, Lea, Flood 2014) on one 64-bit number."""
    value &= _MASK
    value = ((value ^ (value >> 30)) * _MIX_1) & _MASK
    value = ((value ^ (value >> 27)) * _MIX_2) & _MASK
    return value ^ (value >> 31)


def _mix_in_place(values: NDArray[np.uint64]) -> None:
    """`_mix` of every element (array arithmetic on uint64 wraps around)."""
    values ^= values >> np.uint64(30)
    values *= np.uint64(_MIX_1)
    values ^= values >> np.uint64(27)
    values *= np.uint64(_MIX_2)
    values ^= values >> np.uint64(31)
