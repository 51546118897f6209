"""What is in memory after a load, and what was measured of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.data.device import Device, Room
from engine.data.reasoning import Reasoning
from engine.data.request import LoadRequest


@dataclass(frozen=True, slots=True)
class BreakEven:
    """acceptance: chance per token above which drafting `length` tokens a round beats plain
    decoding; None where not even a drafter that is always right does. most: its speed-up then,
    which is never more than the tokens of such a round."""

    length: int
    acceptance: float | None
    most: float


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """A model as it is loaded. bytes: weights on disk; kv_bytes: KV cache and recurrent states.

    vocabulary: its identity, the same where ids stand for the same tokens; "" where nobody knows.
    """

    id: str
    path: str
    architecture: str
    description: str
    bytes: int
    kv_bytes: int
    context_length: int
    vocabulary_size: int
    vocabulary: str = ""


@dataclass(frozen=True, slots=True)
class DrafterSummary:
    """A loaded drafter: its name in traces, what it costs in memory, and what it is.

    members: of an ensemble; its memory is theirs.
    """

    name: str
    description: str
    memory_bytes: int
    members: tuple[DrafterSummary, ...] = ()

    def by_member(self) -> dict[str, int]:
        """Memory of every drafter that is not made of others, by name."""
        if not self.members:
            return {self.name: self.memory_bytes}
        return {name: size for one in self.members for name, size in one.by_member().items()}


@dataclass(frozen=True, slots=True)
class DraftSpeed:
    """One drafter's seconds: of a draft step, of a token of text taken in before drafting.

    advice: one sentence on whether it can pay on this machine.
    """

    name: str
    step: float
    token: float
    break_evens: tuple[BreakEven, ...]
    advice: str


@dataclass(frozen=True, slots=True)
class SpeedSummary:
    """What was measured of the loaded models. passes: seconds of T(n) by width n; prefill: prompt
    tokens per second.

    predicted: expected speed-up of automatic drafting over plain decoding, by kind of text
    ("greedy", "sampled"), from what the last replies gained. plain_attention: without llama.cpp's
    fused kernel.
    """

    passes: Mapping[int, float]
    prefill: float
    threads: int
    repack: bool
    drafters: tuple[DraftSpeed, ...] = ()
    predicted: Mapping[str, float] = field(default_factory=dict)
    plain_attention: bool = False


@dataclass(frozen=True, slots=True)
class LoadedSummary:
    """What is in memory after a load. strict_width: widest bit-identical pass, None if fast: text
    with and without drafting is then the same byte for byte. strict_widths: of the passes.

    speed: None where nothing was measured, because nothing drafts. reasoning: what the target's
    template says of thinking, None where it knows of none. cards: the graphics cards that are used,
    with what is free beside the load. on_cards: bytes of memory_bytes that are there.
    """

    request: LoadRequest
    target: ModelSummary
    drafters: tuple[DrafterSummary, ...]
    has_chat_template: bool
    strict_width: int | None
    notices: tuple[str, ...] = ()
    speed: SpeedSummary | None = None
    strict_widths: tuple[int, ...] = ()
    reasoning: Reasoning | None = None
    cards: tuple[Device, ...] = ()
    on_cards: int = 0

    @property
    def room(self) -> Room:
        """What the next load gets back."""
        return Room(max(0, self.memory_bytes - self.on_cards), self.on_cards)

    @property
    def memory_bytes(self) -> int:
        """Weights and KV caches of all that is loaded."""
        drafters = sum(drafter.memory_bytes for drafter in self.drafters)
        return self.target.bytes + self.target.kv_bytes + drafters

    @property
    def predicted(self) -> Mapping[str, float]:
        """Expected speed-ups by kind of text, as far as they are known."""
        return self.speed.predicted if self.speed is not None else {}
