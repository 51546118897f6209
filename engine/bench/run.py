"""Every prompt in every mode, interleaved.

Ratios come from one run in which the modes take turns. Plain decoding answers each prompt twice,
before the drafting modes and after them, which change places (plain A B plain, plain B A plain): a
machine whose speed drifts treats all of them alike, and what plain decoding's two replies differ by
is the noise that every figure has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from engine.bench.oracles import PassTimes, oracle_of
from engine.bench.samples import (
    PLAIN,
    BenchMode,
    BenchReply,
    BenchSample,
    Difference,
    between,
    passed,
    seconds_per_token,
)
from engine.data.errors import BadOptionError, RunError
from engine.data.prompts import TrialPrompt, numbered

_WARM_UP = TrialPrompt("Say hello in three languages.")  # not counted, and none of the prompts


@dataclass(frozen=True, slots=True)
class BenchProgress:
    """Replies done of all. doing: the mode whose reply comes next. seconds_left: None at first.

    predicted: speed-ups by mode, as far as they were predicted before the first reply.
    """

    done: int
    total: int
    doing: str
    seconds: float
    seconds_left: float | None
    predicted: Mapping[str, float] = field(default_factory=dict)


OnProgress = Callable[[BenchProgress], None]


def check_modes(modes: Sequence[BenchMode]) -> None:
    """BadOptionError unless the first mode is plain and every name stands once."""
    if not modes or modes[0].name != PLAIN:
        raise BadOptionError("the first mode of a bench is plain decoding")
    if len({mode.name for mode in modes}) < len(modes):
        raise BadOptionError("two modes have the same name; was a drafter given twice?")


def check_prompts(prompts: Sequence[TrialPrompt]) -> None:
    """BadOptionError when a prompt occurs twice."""
    if len({prompt.text for prompt in prompts}) < len(prompts):
        raise BadOptionError("a prompt occurs twice; what was learned from it would count twice")


def probe_prompts(prompts: Sequence[TrialPrompt]) -> tuple[TrialPrompt, ...]:
    """Every other one of each category, half of the prompts at most, spread over all of them."""
    chosen = [prompt for number, prompt in numbered(prompts) if number % 2 == 0]
    count = min(len(chosen), max(1, len(prompts) // 2))
    return tuple(chosen[index * len(chosen) // count] for index in range(count))


class Bench:
    """One run. greedy: whether text must equal plain's, so that it is compared. predicts: speed-ups
    are predicted first; a run that is gone on with has its predictions."""

    def __init__(
        self,
        modes: Sequence[BenchMode],
        *,
        greedy: bool,
        on_progress: OnProgress,
        predicts: bool = True,
    ) -> None:
        check_modes(modes)
        self._modes = modes
        self._greedy = greedy
        self._predicts = predicts
        self._on_progress = on_progress
        self._times = PassTimes()
        self._done = 0
        self._total = 0
        self._started = 0.0
        self._predicted: dict[str, float] = {}

    def samples(self, prompts: Sequence[TrialPrompt]) -> Iterator[tuple[BenchSample, ...]]:
        """The samples of one prompt after the other, all modes of a prompt together.

        Whoever stops early keeps complete prompts only.
        """
        check_prompts(prompts)
        plain, *drafting = self._modes
        self._done, self._total = 0, len(prompts) * (len(self._modes) + 1)
        for mode in self._modes:
            self._tell(f"{mode.name}: warming up")
            mode.reply(_WARM_UP)
        self._predict(prompts)
        self._started = time.perf_counter()
        for index, prompt in enumerate(prompts):
            taken = {PLAIN: self._reply(plain, prompt)}
            # Another mode starts each time: whoever comes first finds a cooler machine.
            for offset in range(len(drafting)):
                mode = drafting[(index + offset) % len(drafting)]
                taken[mode.name] = self._reply(mode, prompt)
            again = self._reply(plain, prompt)
            self._tell("")
            yield self._compared(prompt, taken, again)

    def _reply(self, mode: BenchMode, prompt: TrialPrompt) -> BenchReply:
        self._tell(mode.name)
        reply = mode.reply(prompt)
        self._done += 1
        return reply

    def _predict(self, prompts: Sequence[TrialPrompt]) -> None:
        for mode in self._modes:
            if mode.predict is None or not self._predicts:
                continue
            self._tell(f"{mode.name}: short replies to predict its speed")
            predicted = mode.predict(probe_prompts(prompts))
            if predicted is not None:
                self._predicted[mode.name] = predicted

    def _tell(self, doing: str) -> None:
        seconds = time.perf_counter() - self._started if self._started else 0.0
        left = seconds / self._done * (self._total - self._done) if self._done else None
        predicted = dict(self._predicted)
        self._on_progress(BenchProgress(self._done, self._total, doing, seconds, left, predicted))

    def _compared(
        self, prompt: TrialPrompt, taken: dict[str, BenchReply], again: BenchReply
    ) -> tuple[BenchSample, ...]:
        plain = taken[PLAIN].finished
        replies = [(mode, taken[mode.name]) for mode in self._modes]
        for reply in (*taken.values(), again):
            self._times.add(reply)
        measured = (seconds_per_token(plain.stats), seconds_per_token(again.finished.stats))
        samples = []
        for mode, reply in replies:
            if reply.finished.prompt_tokens != plain.prompt_tokens:
                raise RunError(
                    f"{mode.name} read {reply.finished.prompt_tokens} tokens of a prompt that has "
                    f"{plain.prompt_tokens}: choose a larger --ctx"
                )
            compared = self._greedy and mode.name != PLAIN
            same = reply.finished.tokens == plain.tokens if compared else None
            difference = None
            if same is False:
                difference = self._difference(prompt, plain.tokens, reply.finished.tokens)
            sample = _sample(mode, prompt, reply, measured)
            oracle = oracle_of(mode, replies, self._times) if self._greedy else None
            judged = replace(sample, same_text=same, difference=difference, oracle=oracle)
            samples.append(replace(judged, predicted=self._predicted.get(mode.name)))
        return tuple(samples)

    def _difference(
        self, prompt: TrialPrompt, plain: tuple[int, ...], other: tuple[int, ...]
    ) -> Difference:
        position = next(
            (i for i, (a, b) in enumerate(zip(plain, other, strict=False)) if a != b),
            min(len(plain), len(other)),
        )
        gap = self._modes[0].gap
        return Difference(position, None if gap is None else gap(prompt, plain[:position]))


def _sample(
    mode: BenchMode, prompt: TrialPrompt, reply: BenchReply, plain: tuple[float, float]
) -> BenchSample:
    return BenchSample(
        mode=mode.name,
        prompt=prompt.text,
        category=prompt.category,
        stats=reply.finished.stats,
        prompt_tokens=reply.finished.prompt_tokens,
        plain_seconds_per_token=between(*plain),
        plain_measured=plain,
        memory_bytes=reply.memory_bytes,
        passes=tuple(map(passed, reply.rounds)),
        is_peer=mode.is_peer,
    )
