"""The form of settings: one table of what each field is called, may be, and does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from engine.data.documents import sound
from engine.data.errors import BadOptionError
from engine.data.request import LONGEST_REPLY, UNLIMITED

FieldKind = Literal["text", "integer", "number", "choice"]
FieldGroup = Literal["Reply", "Drafting", "Loading"]
TEXT_LIMIT = 100_000


@dataclass(frozen=True, slots=True)
class Field:
    """One row of the settings form. empty: what no entry stands for, "" where one is needed.

    suggested: numbers that are offered, any other may be written.
    """

    name: str
    label: str
    kind: FieldKind
    group: FieldGroup
    help: str
    minimum: float | None = None
    maximum: float | None = None
    step: float | None = None
    choices: tuple[tuple[str, str], ...] = ()
    empty: str = ""
    suggested: tuple[int, ...] = ()


FIELDS = (
    Field(
        "system_prompt",
        "System prompt",
        "text",
        "Reply",
        "Instructions that come before every conversation. Empty: none.",
    ),
    Field(
        "temperature",
        "Temperature",
        "number",
        "Reply",
        "How freely the next token is chosen. 0 always takes the most likely one.",
        0,
        5,
        0.05,
    ),
    Field(
        "top_k",
        "Top-k",
        "integer",
        "Reply",
        "Only the k most likely tokens may be chosen. 0 switches it off.",
        0,
        1000,
        1,
    ),
    Field(
        "top_p",
        "Top-p",
        "number",
        "Reply",
        "Only the most likely tokens that together reach this probability. 1 switches it off.",
        0.01,
        1,
        0.01,
    ),
    Field(
        "min_p",
        "Min-p",
        "number",
        "Reply",
        "Only tokens at least this fraction as likely as the best one. 0 switches it off.",
        0,
        0.99,
        0.01,
    ),
    Field(
        "repeat_penalty",
        "Repeat penalty",
        "number",
        "Reply",
        "Above 1, tokens that were used lately become less likely. 1 switches it off.",
        0.1,
        10,
        0.05,
    ),
    Field(
        "presence_penalty",
        "Presence penalty",
        "number",
        "Reply",
        "Above 0, tokens that stand among the last 64 become less likely, however often they do."
        " 0 switches it off.",
        -10,
        10,
        0.1,
    ),
    Field(
        "seed",
        "Seed",
        "integer",
        "Reply",
        "The same seed, prompt and settings give the same reply; with speculation on auto, where"
        " drafting depends on the clock, only with the coupling Same text per seed. Empty: a new"
        " random seed each time; the one used is kept with the reply.",
        0,
        2**53 - 1,
        1,
        empty="random",
    ),
    Field(
        "max_tokens",
        "Longest reply",
        "integer",
        "Reply",
        "In tokens, thoughts included. A reply that is cut there can be continued. Empty: a reply"
        " may go on until the context is full.",
        1,
        131072,
        1,
        empty="until the context is full",
        suggested=(512, 2048, LONGEST_REPLY),
    ),
    Field(
        "overflow",
        "Conversation longer than the context",
        "choice",
        "Reply",
        "Refuse tells you the numbers. Trim leaves out the oldest messages.",
        choices=(("refuse", "Refuse"), ("trim", "Trim oldest")),
    ),
    Field(
        "thinking",
        "Thinking",
        "choice",
        "Reply",
        "Of models that think before they answer, and can be told not to. Automatic: what the"
        " model's own template does.",
        choices=(("auto", "Automatic"), ("on", "On"), ("off", "Off")),
    ),
    Field(
        "effort",
        "Thinking effort",
        "choice",
        "Reply",
        "How much a model thinks, of models that can be told. Automatic: what the model's own"
        " template does, also with a model that does not have the chosen level.",
        choices=(
            ("auto", "Automatic"),
            ("minimal", "Minimal"),
            ("low", "Low"),
            ("medium", "Medium"),
            ("high", "High"),
            ("xhigh", "Very high"),
            ("max", "Most"),
        ),
    ),
    Field(
        "thinking_budget",
        "Thinking budget",
        "integer",
        "Reply",
        "Tokens that a thought may have; then its end is written for the model, and the answer"
        " begins. 0: no thoughts, -1: no limit. Empty: 4,096, and at most half of what the context"
        " has left.",
        UNLIMITED,
        131072,
        1,
        empty="automatic",
        suggested=(512, 2048, 8192),
    ),
    Field(
        "speculate",
        "Speculation",
        "choice",
        "Drafting",
        "Off: the target works alone. Always: every round drafts. Auto: draft only where it is"
        " likely to pay. The text follows the same distribution in all three.",
        choices=(("auto", "Auto"), ("always", "Always"), ("off", "Off")),
    ),
    Field(
        "draft_max",
        "Longest draft",
        "integer",
        "Drafting",
        "Tokens a drafter may propose in one round. Empty: 8 with Always, up to 16 with Auto, which"
        " stops where it no longer pays.",
        1,
        64,
        1,
        empty="automatic",
    ),
    Field(
        "draft_mode",
        "Draft choice",
        "choice",
        "Drafting",
        "How a drafting model picks its tokens above temperature 0: drawn from its own"
        " distribution, or always its most likely one.",
        choices=(("sampled", "Sampled"), ("argmax", "Most likely")),
    ),
    Field(
        "coupling",
        "Coupling",
        "choice",
        "Drafting",
        "Best accepts the most drafts. Seed gives the same text for the same seed with and"
        " without drafting.",
        choices=(("best", "Best acceptance"), ("seed", "Same text per seed")),
    ),
    Field(
        "acceptance",
        "Acceptance",
        "choice",
        "Drafting",
        "Exact: the text follows the target's own distribution. Typical keeps more drafts, but"
        " changes the text above temperature 0; such replies say so.",
        choices=(("exact", "Exact"), ("typical", "Typical (changes the text)")),
    ),
    Field(
        "earlier_chats",
        "Copy from earlier chats",
        "choice",
        "Drafting",
        "Lets the n-gram lookup also draft from your other chats in this list. They stay on this"
        " machine and do not become part of the prompt.",
        choices=(("off", "Off"), ("on", "On")),
    ),
    Field(
        "context_length",
        "Context size",
        "integer",
        "Loading",
        "Tokens of conversation the model can see. 0: the model's own, at most 8,192; of a model"
        " that thinks 16,384, if there is memory for it.",
        0,
        1048576,
        1,
    ),
    Field(
        "threads",
        "Threads",
        "integer",
        "Loading",
        "Processor threads. 0: one for each physical core.",
        0,
        512,
        1,
    ),
    Field(
        "gpu_layers",
        "GPU layers",
        "integer",
        "Loading",
        "Layers kept on the GPU. -1: all of them when the build has a GPU; 0: none.",
        -1,
        1000,
        1,
    ),
    Field(
        "numerics",
        "Numerics",
        "choice",
        "Loading",
        "Strict computes every token with passes that agree bit for bit, so that text is the same"
        " byte for byte with and without drafting. Automatic does so where it costs under 5 % on"
        " this machine. Fast never does.",
        choices=(("auto", "Automatic"), ("strict", "Strict"), ("fast", "Fast")),
    ),
    Field(
        "combination",
        "Several drafters",
        "choice",
        "Loading",
        "First: the first one with something to say drafts. Best: the one the target agreed with"
        " most. Vote: the token most of them would write. Mixture: drawn from all of them together."
        " Union: everything they propose, as one tree.",
        choices=(
            ("first", "First with evidence"),
            ("best", "Best so far"),
            ("vote", "Weighted vote"),
            ("mixture", "Mixture"),
            ("union", "Union, one tree"),
        ),
    ),
)

_BY_NAME = {item.name: item for item in FIELDS}


def field_value(name: str, value: Any) -> Any:
    """A value from the page as the setting has it; BadOptionError if it is unknown or bad."""
    known = _BY_NAME.get(name)
    if known is None:
        raise BadOptionError(f"unknown setting {name!r}")
    if known.kind == "text":
        if not isinstance(value, str) or len(value) > TEXT_LIMIT:
            raise BadOptionError(f"{known.label} must be text of at most {TEXT_LIMIT:,} characters")
        return sound(value)
    if known.kind == "choice":
        if value not in [choice for choice, _ in known.choices]:
            raise BadOptionError(f"{known.label}: {value!r} is not one of the choices")
        return value
    if value is None and known.empty:
        return None
    return _number(known, value)


def _number(known: Field, value: Any) -> float | int:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    low, high = known.minimum or 0, known.maximum or 0
    if not is_number or not low <= value <= high:
        raise BadOptionError(f"{known.label} must be a number between {low:g} and {high:,.15g}")
    if known.kind == "number":
        return float(value)
    if value != int(value):
        raise BadOptionError(f"{known.label} must be a whole number")
    return int(value)
