"""What a reply has come to, for the case that its engine process does not tell its end itself."""

from __future__ import annotations

from engine.data.events import Finished, PromptProgress, RunEvent, Thought
from engine.data.request import GenerateRequest
from engine.data.rounds import EmittedToken, RoundTrace
from engine.data.stats import StatsCounter


class ReplySoFar:
    """Not thread-safe: the run's owner adds events in order."""

    def __init__(self, request: GenerateRequest) -> None:
        self._request = request
        self._counter = StatsCounter()
        self._prompt: PromptProgress | None = None
        self._texts: list[str] = []
        self._tokens: list[int] = []
        self._thought: Thought | None = None

    def add(self, event: RunEvent) -> None:
        if isinstance(event, PromptProgress):
            self._prompt = event
        elif isinstance(event, RoundTrace):
            self._counter.add(event)
            for emitted in event.emitted:
                self._add(emitted)

    def _add(self, emitted: EmittedToken) -> None:
        if emitted.part == "answer":
            self._texts.append(emitted.shown)
        else:
            start = len(self._tokens) if self._thought is None else self._thought.start
            text = (self._thought.text if self._thought else "") + emitted.shown
            self._thought = Thought(text, start, len(self._tokens) + 1)
        self._tokens.append(emitted.token)

    def cancelled(self) -> Finished:
        """The last event of a run that was stopped. A seed that the engine chose is not known."""
        stats, prompt = self._counter.snapshot(), self._prompt
        begun = len(self._request.continuation)
        return Finished(
            text="".join(self._texts),
            tokens=tuple(self._tokens),
            finish="cancelled",
            # The prompt's last token belongs to the first round, and is not counted in the prefill.
            prompt_tokens=0 if prompt is None else prompt.total + 1 - begun,
            reused_prompt_tokens=0 if prompt is None else prompt.reused,
            seed=self._request.sampling.seed or 0,
            stats=stats,
            exact=not (self._request.may_change_text and stats.proposed),
            thought=self._thought,
        )
