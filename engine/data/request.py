"""What a caller asks for: plain, frozen, picklable values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from engine.data.errors import BadOptionError
from engine.data.reasoning import Thinking

Role = Literal["system", "user", "assistant"]
Speculate = Literal["off", "always", "auto"]
Numerics = Literal["auto", "fast", "strict"]
Coupling = Literal["best", "seed"]
DraftMode = Literal["sampled", "argmax"]
Acceptance = Literal["exact", "typical"]
Overflow = Literal["refuse", "trim"]

LONGEST_REPLY = 8192
"""In tokens, where a number is wanted: few replies are longer, thoughts included."""
UNLIMITED = -1
"""As a thinking budget."""
MOST_THREADS = 512
_LARGEST = 2**31 - 1
"""llama.cpp counts in 32 bits: of a larger number it would see only the rest."""


def _require(condition: bool, name: str, expected: str) -> None:
    if not condition:
        raise BadOptionError(f"{name} must be {expected}")


def _require_count(
    value: int, name: str, least_means: str, least: int = 0, most: int = _LARGEST
) -> None:
    _require(least <= value <= most, name, f"between {least_means} and {most:,}")


def _require_one_of(choices: tuple[str, ...], value: str, name: str) -> None:
    *others, last = choices
    _require(value in choices, name, f"{', '.join(others)} or {last}")


@dataclass(frozen=True, slots=True)
class Message:
    """reasoning: what an assistant thought before it wrote the content, None if it did not."""

    role: Role
    content: str
    reasoning: str | None = None


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How the next token is chosen from the target's logits.

    Order of the steps: penalties, top-k, top-p, min-p, temperature. 0 switches top_k and min_p
    off, 1 switches top_p and repeat_penalty off, temperature 0 is greedy.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last_n: int = 64
    seed: int | None = None

    def __post_init__(self) -> None:
        _require(0.0 <= self.temperature <= 100.0, "temperature", "between 0 and 100")
        _require_count(self.top_k, "top-k", "0 (off)")
        _require(0.0 < self.top_p <= 1.0, "top-p", "above 0 and at most 1")
        _require(0.0 <= self.min_p < 1.0, "min-p", "at least 0 and below 1")
        _require(0.0 < self.repeat_penalty <= 10.0, "repeat-penalty", "above 0 and at most 10")
        _require(-10.0 <= self.frequency_penalty <= 10.0, "frequency-penalty", "between -10 and 10")
        _require(-10.0 <= self.presence_penalty <= 10.0, "presence-penalty", "between -10 and 10")
        _require_count(self.penalty_last_n, "penalty-last-n", "0")
        _require(self.seed is None or 0 <= self.seed < 2**63, "seed", "between 0 and 2^63 - 1")


CHAT_SAMPLING = SamplingParams(temperature=0.7, top_k=40, top_p=0.95, min_p=0.05)
"""What suits a chat on the page; a command is greedy unless it is told otherwise."""


LONGEST_AUTO_DRAFT = 16
_LONGEST_BLIND_DRAFT = 8


@dataclass(frozen=True, slots=True)
class DraftParams:
    """How far and how to draft. draft_max: tokens a round may propose; None is what suits the way
    of drafting: automatic drafting stops by itself where it no longer pays.

    acceptance: "typical" changes the text above temperature 0; see engine.maths.typical.
    """

    speculate: Speculate = "auto"
    draft_max: int | None = None
    mode: DraftMode = "sampled"
    coupling: Coupling = "best"
    acceptance: Acceptance = "exact"

    def __post_init__(self) -> None:
        _require_one_of(get_args(Speculate), self.speculate, "speculate")
        _require(1 <= self.longest_draft <= 64, "draft-max", "between 1 and 64")
        _require_one_of(get_args(DraftMode), self.mode, "draft-mode")
        _require_one_of(get_args(Coupling), self.coupling, "coupling")
        _require_one_of(get_args(Acceptance), self.acceptance, "acceptance")
        if self.acceptance == "typical" and self.coupling == "seed":
            raise BadOptionError(
                "typical acceptance changes the text, and the coupling seed keeps it: choose one"
            )

    @property
    def longest_draft(self) -> int:
        """The deepest proposal of a round, in tokens."""
        if self.draft_max is not None:
            return self.draft_max
        return LONGEST_AUTO_DRAFT if self.speculate == "auto" else _LONGEST_BLIND_DRAFT


@dataclass(frozen=True, slots=True)
class GenerateRequest:
    """One reply. Either messages (rendered with the chat template) or a raw prompt, never both.

    continuation: tokens that the reply already starts with; generation goes on after them.
    vocabulary: the identity of the one that they are of, None where the caller is sure.
    reuse: keep what the KV caches hold of the prompt; False prefills all of it (benchmarks).
    max_tokens: new ones; None: until the context is full.
    copy_from: texts that drafters may copy from besides the chat itself, the most recent last; the
    target never sees them, only the tokens that are drafted from them.
    thinking, effort: of models that think; None is what the model's own template does.
    thinking_budget: tokens of a thought at most, then its end is written for the model; 0 ends it
    at once, UNLIMITED never; None: 4,096, and at most half of what the context has left.
    """

    messages: tuple[Message, ...] = ()
    raw_prompt: str | None = None
    continuation: tuple[int, ...] = ()
    vocabulary: str | None = None
    max_tokens: int | None = None
    sampling: SamplingParams = SamplingParams()
    drafting: DraftParams = DraftParams()
    overflow: Overflow = "refuse"
    reuse: bool = True
    copy_from: tuple[str, ...] = ()
    thinking: Thinking | None = None
    effort: str | None = None
    thinking_budget: int | None = None

    def __post_init__(self) -> None:
        if self.max_tokens is not None:
            _require_count(self.max_tokens, "max-tokens", "1", least=1)
        if bool(self.messages) == (self.raw_prompt is not None):
            raise BadOptionError("give either messages or a raw prompt")
        if self.thinking is not None:
            _require_one_of(get_args(Thinking), self.thinking, "thinking")
        if self.thinking_budget is not None:
            _require_count(self.thinking_budget, "thinking-budget", "-1 (no limit)", UNLIMITED)
        if self.raw_prompt is not None and (self.thinking or self.effort) is not None:
            raise BadOptionError("a raw prompt says itself how to think; leave the options out")

    def longest_reply(self, room: int) -> int:
        """New tokens at most. room: those that the context has left for them."""
        return room if self.max_tokens is None else min(self.max_tokens, room)

    @property
    def may_change_text(self) -> bool:
        """Whether drafts can change the text: typical acceptance, above temperature 0."""
        return self.drafting.acceptance == "typical" and self.sampling.temperature > 0.0


USUAL_NUMERICS: Numerics = "auto"
"""Of the commands and the page."""


@dataclass(frozen=True, slots=True)
class LoadRequest:
    """What should be in memory afterwards.

    target: catalogue id, GGUF path or hub:owner/repo/file.gguf.
    drafter: a drafter expression such as "first(ngram,model:qwen-coder-0.5b)", or None.
    context_length: tokens (0: see engine.serving.context_choice). threads: 0 means physical cores.
    gpu_layers: -1 means all layers when the build has a GPU.
    numerics: strict makes text with and without drafting identical byte for byte; auto does so
    where it costs little, see engine.measure.exact_widths.
    """

    target: str
    drafter: str | None = None
    context_length: int = 0
    threads: int = 0
    gpu_layers: int = -1
    numerics: Numerics = "fast"

    def __post_init__(self) -> None:
        _require_count(self.context_length, "ctx", "0 (automatic)")
        _require_count(self.threads, "threads", "0 (automatic)", most=MOST_THREADS)
        _require_count(self.gpu_layers, "gpu-layers", "-1 (all)", least=-1)
        _require_one_of(get_args(Numerics), self.numerics, "numerics")
