"""Generation and load settings, and the requests made of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from app.settings_form import field_value
from engine.data.errors import BadOptionError
from engine.data.reasoning import Reasoning, Thinking
from engine.data.request import (
    CHAT_SAMPLING,
    USUAL_NUMERICS,
    Acceptance,
    Coupling,
    DraftMode,
    DraftParams,
    GenerateRequest,
    LoadRequest,
    Message,
    Numerics,
    Overflow,
    SamplingParams,
    Speculate,
)
from engine.drafters.expression import DrafterExpression
from engine.drafters.parse import parse_expression

EarlierChats = Literal["off", "on"]
ThinkingChoice = Literal["auto", "on", "off"]
EffortChoice = Literal["auto", "minimal", "low", "medium", "high", "xhigh", "max"]
Combination = Literal["first", "best", "vote", "mixture", "union"]

EARLIER_CHARACTERS = 400_000
"""Of other chats, about 100,000 tokens, which take half a second to read and index."""

_DRAFTING = DraftParams()
_LOADING = LoadRequest(target="")


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults suit a chat. seed None: a new random one for every reply. draft_max None: what
    suits the way of drafting. max_tokens None: until the context is full."""

    system_prompt: str = ""
    temperature: float = CHAT_SAMPLING.temperature
    top_k: int = CHAT_SAMPLING.top_k
    top_p: float = CHAT_SAMPLING.top_p
    min_p: float = CHAT_SAMPLING.min_p
    repeat_penalty: float = CHAT_SAMPLING.repeat_penalty
    presence_penalty: float = CHAT_SAMPLING.presence_penalty
    seed: int | None = CHAT_SAMPLING.seed
    max_tokens: int | None = None
    overflow: Overflow = "refuse"
    thinking: ThinkingChoice = "auto"
    effort: EffortChoice = "auto"
    thinking_budget: int | None = None
    speculate: Speculate = _DRAFTING.speculate
    draft_max: int | None = _DRAFTING.draft_max
    draft_mode: DraftMode = _DRAFTING.mode
    coupling: Coupling = _DRAFTING.coupling
    acceptance: Acceptance = _DRAFTING.acceptance
    earlier_chats: EarlierChats = "off"
    context_length: int = _LOADING.context_length
    threads: int = _LOADING.threads
    gpu_layers: int = _LOADING.gpu_layers
    numerics: Numerics = USUAL_NUMERICS
    combination: Combination = "first"

    def generate_request(
        self,
        messages: tuple[Message, ...],
        earlier: tuple[str, ...] = (),
        reasoning: Reasoning | None = None,
    ) -> GenerateRequest:
        """earlier: texts of other chats, for drafters that copy. reasoning: of the loaded template,
        which is asked for nothing that it does not have."""
        system = (Message("system", self.system_prompt),) if self.system_prompt.strip() else ()
        return GenerateRequest(
            messages=system + messages,
            max_tokens=self.max_tokens,
            sampling=self.sampling_params(),
            drafting=DraftParams(
                self.speculate, self.draft_max, self.draft_mode, self.coupling, self.acceptance
            ),
            overflow=self.overflow,
            copy_from=earlier,
            thinking=self._thinking(reasoning),
            effort=self._effort(reasoning),
            thinking_budget=self.thinking_budget,
        )

    def _thinking(self, reasoning: Reasoning | None) -> Thinking | None:
        if self.thinking == "auto" or reasoning is None or reasoning.switch is None:
            return None
        return self.thinking

    def _effort(self, reasoning: Reasoning | None) -> str | None:
        levels = reasoning.effort.levels if reasoning is not None and reasoning.effort else ()
        return self.effort if self.effort in levels else None

    def sampling_params(self) -> SamplingParams:
        return SamplingParams(
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repeat_penalty=self.repeat_penalty,
            presence_penalty=self.presence_penalty,
            seed=self.seed,
        )

    def load_request(self, target: str, drafters: tuple[str, ...]) -> LoadRequest:
        return LoadRequest(
            target=target,
            drafter=combined(drafters, self.combination),
            context_length=self.context_length,
            threads=self.threads,
            gpu_layers=self.gpu_layers,
            numerics=self.numerics,
        )


def combined(drafters: tuple[str, ...], combination: Combination) -> str | None:
    """The drafter expression for what is chosen, in the chosen order. BadOptionError.

    Each is read and written again: a path with a comma must stay one drafter among others.
    """
    if len(drafters) < 2:
        return drafters[0] if drafters else None
    members = tuple(parse_expression(drafter) for drafter in drafters)
    return str(DrafterExpression(combination, members=members))


def settings_from_json(data: dict[str, Any]) -> Settings:
    """Raises BadOptionError naming the first setting that is unknown or has a bad value."""
    values = {name: field_value(name, value) for name, value in data.items()}
    settings = Settings(**values)
    # The requests check what only they know.
    settings.generate_request((Message("user", "check"),))
    settings.load_request("check", ())
    if settings.acceptance == "typical" and settings.numerics == "strict":
        raise BadOptionError("Typical acceptance changes the text, and strict numerics keep it")
    return settings
