"""Is a real pair's text exactly the target's? Greedy and seeded equality, and the sampled law."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from engine.data.events import Finished, RunEvent
from engine.data.prompts import TrialPrompt
from engine.data.request import (
    Coupling,
    DraftParams,
    GenerateRequest,
    Message,
    SamplingParams,
    Speculate,
)
from engine.data.rounds import RoundTrace
from engine.maths.randomness import CoupledStream

LAW_TOKENS = 3
"""Of each sampled beginning, compared."""

_BEGINNING = 6
"""Tokens that are asked for: enough for drafts of several tokens, which other rules verify."""

NEAR_TIE = 1.0
"""Logits move by up to this much between kernels for one and for many rows (measured: 0.8)."""

SIGNIFICANCE = 0.001
_PERMUTATIONS = 2000

Generate = Callable[[GenerateRequest], Sequence[RunEvent]]
"""Runs a request to its end and returns its events."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first token where plain and speculative text part. gap: in logits, of the two there."""

    prompt: str
    position: int
    plain_token: int
    speculative_token: int
    gap: float


@dataclass(frozen=True, slots=True)
class EqualityReport:
    """differences with a gap up to `tolerance` are near-ties: kernels rounded differently.

    long_drafts: rounds whose draft had two or more tokens; without any, the check says little.
    """

    prompts: int
    identical: int
    tolerance: float
    differences: tuple[Difference, ...]
    long_drafts: int = 0

    @property
    def ok(self) -> bool:
        return all(difference.gap <= self.tolerance for difference in self.differences)

    def to_json(self) -> dict[str, Any]:
        """An infinite gap, which JSON does not have, is null."""
        rows = [
            asdict(one) | {"gap": one.gap if math.isfinite(one.gap) else None}
            for one in self.differences
        ]
        return {**asdict(self), "differences": rows, "ok": self.ok}


@dataclass(frozen=True, slots=True)
class LawReport:
    """Two-sample G-test of the first tokens. detectable_tv: what these draws would notice.

    long_drafts: rounds among those tokens whose draft had two or more; without any, the rules for
    such drafts were not tested.
    """

    draws: int
    g: float
    p_value: float
    detectable_tv: float
    tokens: int = LAW_TOKENS
    long_drafts: int = 0

    @property
    def ok(self) -> bool:
        return self.p_value >= SIGNIFICANCE


@dataclass(frozen=True, slots=True)
class VerifyReport:
    greedy: EqualityReport
    seeded: EqualityReport
    sampled: LawReport | None

    @property
    def ok(self) -> bool:
        return self.greedy.ok and self.seeded.ok and (self.sampled is None or self.sampled.ok)

    @property
    def untested(self) -> tuple[str, ...]:
        """Parts in which no draft of two or more tokens occurred."""
        parts = {"greedy text": self.greedy, "seeded text": self.seeded}
        named: dict[str, EqualityReport | LawReport] = {**parts}
        if self.sampled is not None:
            named["sampled law"] = self.sampled
        return tuple(name for name, part in named.items() if not part.long_drafts)

    def to_json(self) -> dict[str, Any]:
        sampled = None
        if self.sampled is not None:
            sampled = {**asdict(self.sampled), "ok": self.sampled.ok}
        return {
            "ok": self.ok,
            "greedy": self.greedy.to_json(),
            "seeded": self.seeded.to_json(),
            "sampled": sampled,
            "untested": list(self.untested),
        }


def check_equality(
    generate: Generate,
    prompts: Sequence[TrialPrompt],
    sampling: SamplingParams,
    max_tokens: int,
    tolerance: float,
) -> EqualityReport:
    """The same text with and without speculation, prompt by prompt.

    For temperature > 0 the coupling "seed" is used: then the text depends on the seed alone.
    """
    differences = []
    long_drafts = 0
    coupling: Coupling = "seed" if sampling.temperature > 0 else "best"
    for prompt in prompts:
        request = GenerateRequest(
            messages=(Message("user", prompt.text),),
            max_tokens=max_tokens,
            sampling=sampling,
            drafting=DraftParams(speculate="off", coupling=coupling),
        )
        always = replace(request, drafting=DraftParams(speculate="always", coupling=coupling))
        drafted = generate(always)
        long_drafts += count_long_drafts(drafted)
        plain, speculative = _choices(generate(request)), _choices(drafted)
        if [choice.token for choice in plain] != [choice.token for choice in speculative]:
            differences.append(_difference(generate, request, plain, speculative))
    identical = len(prompts) - len(differences)
    return EqualityReport(len(prompts), identical, tolerance, tuple(differences), long_drafts)


def count_long_drafts(events: Sequence[RunEvent], first_tokens: int | None = None) -> int:
    """Rounds whose draft is two or more tokens deep: verified by the rules for longer drafts.

    first_tokens: of the reply; only rounds that decide one of these count.
    """
    rounds = [event for event in events if isinstance(event, RoundTrace)]
    end = math.inf
    if first_tokens is not None and rounds:
        end = rounds[0].position + first_tokens
    return sum(
        one.position < end and max((node.depth for node in one.proposed), default=0) >= 2
        for one in rounds
    )


@dataclass(frozen=True, slots=True)
class _Choice:
    """A token of a reply. index: its place in the context. p: as the pass saw it that chose it."""

    token: int
    index: int
    p: float


def _choices(events: Sequence[RunEvent]) -> list[_Choice]:
    return [
        _Choice(emitted.token, event.position + offset, emitted.p)
        for event in events
        if isinstance(event, RoundTrace)
        for offset, emitted in enumerate(event.emitted)
    ]


def _difference(
    generate: Generate,
    request: GenerateRequest,
    plain: Sequence[_Choice],
    speculative: Sequence[_Choice],
) -> Difference:
    position = next(
        (i for i, (a, b) in enumerate(zip(plain, speculative, strict=False)) if a.token != b.token),
        min(len(plain), len(speculative)),
    )
    at = [reply[position] if position < len(reply) else None for reply in (plain, speculative)]
    if at[0] is None or at[1] is None:
        gap = math.inf
    elif request.sampling.temperature > 0:
        gap = _race_gap(request.sampling, at[0], at[1])
    else:
        gap = top_two_gap(generate, request, tuple(choice.token for choice in plain[:position]))
    return Difference(
        prompt=request.messages[0].content[:80],
        position=position,
        plain_token=-1 if at[0] is None else at[0].token,
        speculative_token=-1 if at[1] is None else at[1].token,
        gap=gap,
    )


def _race_gap(sampling: SamplingParams, first: _Choice, second: _Choice) -> float:
    """Distance of two tokens in the coupled race that log p + Gumbel noise decides, in logits.

    Two likely tokens can be a near-tie there although one is far more likely than the other.
    """
    stream = CoupledStream(sampling.seed or 0)
    scores = []
    for choice in (first, second):
        arrival = stream.exponentials(np.array([choice.token]), choice.index)[0]
        scores.append(math.log(choice.p / arrival) if choice.p > 0.0 else -math.inf)
    return abs(scores[0] - scores[1]) * sampling.temperature


def top_two_gap(
    generate: Generate, request: GenerateRequest, continuation: tuple[int, ...]
) -> float:
    """Between the two likeliest tokens p1 / p2 is exp(gap), and either one's p tells it."""
    events = generate(
        replace(
            request,
            continuation=continuation,
            max_tokens=1,
            sampling=SamplingParams(temperature=1.0, top_k=2, seed=0),
            drafting=DraftParams(speculate="off"),
        )
    )
    p = next(event.emitted[0].p for event in events if isinstance(event, RoundTrace))
    return abs(math.log(p / (1.0 - p))) if 0.0 < p < 1.0 else math.inf


def check_law(
    generate: Generate, prompts: Sequence[TrialPrompt], sampling: SamplingParams, draws: int
) -> LawReport:
    """The first tokens of a reply, `draws` times plain and `draws` times speculative, other seeds
    each. Of the prompts, one is taken at whose beginning long drafts occur."""
    request = GenerateRequest(
        messages=(Message("user", "-"),),
        max_tokens=_BEGINNING,
        sampling=sampling,
        drafting=DraftParams("always", draft_max=_BEGINNING - 1),
    )
    request = _most_drafted(generate, request, prompts)
    samples: list[list[tuple[int, ...]]] = []
    long_drafts = 0
    for offset, speculate in enumerate(_MODES):
        drafting = replace(request.drafting, speculate=speculate)
        samples.append([])
        for draw in range(draws):
            seeded = replace(sampling, seed=2 * draw + offset)
            events = generate(replace(request, sampling=seeded, drafting=drafting))
            samples[-1].append(_tokens(events)[:LAW_TOKENS])
            long_drafts += count_long_drafts(events, LAW_TOKENS)
    return replace(compare_samples(samples[0], samples[1]), long_drafts=long_drafts)


_MODES: tuple[Speculate, ...] = ("off", "always")


def _most_drafted(
    generate: Generate, request: GenerateRequest, prompts: Sequence[TrialPrompt]
) -> GenerateRequest:
    """The request with the prompt whose beginning has most long drafts, on one try each.

    Chosen by its drafts, never by its text, so the comparison stays fair.
    """
    asked = [replace(request, messages=(Message("user", one.text),)) for one in prompts]
    return max(asked, key=lambda one: count_long_drafts(generate(one), LAW_TOKENS))


def compare_samples(
    first: Sequence[tuple[int, ...]], second: Sequence[tuple[int, ...]]
) -> LawReport:
    """G statistic of two equally large samples and its permutation p-value."""
    counts = Counter(first) + Counter(second)
    common = [value for value, count in counts.most_common() if count >= 10]
    cells = {value: index for index, value in enumerate(common)}
    labels = np.array([cells.get(value, len(common)) for value in (*first, *second)])
    draws = len(first)
    generator = np.random.Generator(np.random.Philox(20))
    observed = _g_statistic(labels[:draws], labels[draws:], len(common) + 1)
    exceeded = 0
    for _ in range(_PERMUTATIONS):
        shuffled = generator.permutation(labels)
        exceeded += _g_statistic(shuffled[:draws], shuffled[draws:], len(common) + 1) >= observed
    p_value = (exceeded + 1) / (_PERMUTATIONS + 1)
    shares = np.bincount(labels, minlength=len(common) + 1) / len(labels)
    # Mean distance of two samples of the same law: anything below it drowns in the noise.
    detectable = float(0.5 * np.sum(np.sqrt(4.0 * shares * (1.0 - shares) / (np.pi * draws))))
    if not common:  # too few draws for even one cell: nothing would show
        detectable = 1.0
    return LawReport(draws, observed, p_value, detectable)


def _g_statistic(first: Any, second: Any, cells: int) -> float:
    observed = np.stack([np.bincount(first, minlength=cells), np.bincount(second, minlength=cells)])
    expected = observed.sum(axis=0) / 2.0
    terms = observed * np.log(np.where(observed > 0, observed / np.maximum(expected, 1e-12), 1.0))
    return float(2.0 * terms.sum())


def _tokens(events: Sequence[RunEvent]) -> tuple[int, ...]:
    return next(event.tokens for event in events if isinstance(event, Finished))
