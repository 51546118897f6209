"""Whether a drafter that is to be learned will pay on this machine, before time is spent on it.

The passes of the target were measured when it was loaded. What a draft step will take follows from
the drafter's weights, since it takes as long as reading them. How often it will be right is taken
from a learning curve at the same number of answer tokens: that of the measured target which is
nearest in size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from engine.control.cost import CostModel
from engine.control.speedup import PAYS
from engine.data.folders import DataFolder
from engine.files.gguf import GgufInfo, inspect
from engine.files.measurements import Measurements
from engine.models.locate import LocatedModel
from engine.train.corpus.collection import corpus_folder
from engine.train.corpus.shards import count
from engine.train.curves import CURVES, Curve
from engine.train.fitting import plan_budget
from engine.train.training import HeadKind, TrainSettings

_Q8_0 = 34 / 32  # bytes a weight
_SHARE_OF_PROMPTS = 1.3  # what prompts and waiting add to the time of generating answers

NOT_MEASURED = (
    "Whether it will pay here is not known yet: load the target once, or run `forerun calibrate`."
)


@dataclass(frozen=True, slots=True)
class TrainingBudget:
    """minutes of everything, unless it is tokens of data."""

    minutes: float
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class Forecast:
    """tokens: of answers it will learn from. hits: expected rates, by position. length: drafted
    tokens a round at which it does best, 0 if nothing pays. speedup: then, against plain."""

    kind: HeadKind
    tokens: int
    hits: tuple[float, ...]
    length: int
    speedup: float

    @property
    def pays(self) -> bool:
        return self.speedup >= PAYS

    @property
    def sentence(self) -> str:
        data = f"about {_rounded(self.tokens):,} answer tokens"
        right = f"its first token would be right {self.hits[0]:.0%} of the time"
        if not self.pays:
            return (
                f"This will probably not pay on this machine: after {data} {right}, and checking "
                "drafted tokens takes longer than that saves."
            )
        return (
            f"This will probably make replies {self.speedup:.2f} times as fast as plain decoding: "
            f"after {data} {right}."
        )


def target_forecast(
    kind: HeadKind,
    target: LocatedModel,
    sha256: str,
    folder: DataFolder,
    budget: TrainingBudget,
    settings: TrainSettings,
) -> Forecast | None:
    """None when the target's passes were never measured here."""
    passes = Measurements(folder.measurements_file).passes(target.path)
    if passes is None:
        return None
    present = count(corpus_folder(folder.training, target, sha256)).answer_tokens
    if budget.tokens is not None:
        tokens = budget.tokens
    else:
        tokens = tokens_in(plan_budget(budget.minutes).collecting, passes, present)
    return forecast(kind, tokens, inspect(target.path), passes, settings)


def forecast(
    kind: HeadKind,
    tokens: int,
    info: GgufInfo,
    passes: Mapping[int, float],
    settings: TrainSettings,
) -> Forecast:
    """info: of the target. passes: seconds of T(n) by width n, with T(1). Of more positions than
    the curve has, it says nothing: they are rarely reached."""
    hits = expected_hits(curve_for(kind, info.parameters), tokens)[: settings.positions]
    cost = CostModel(passes)
    plain = cost.pass_seconds(1)
    step = plain * drafter_bytes(kind, info, settings) / info.bytes
    best, length = 1.0, 0
    accepted, path = 1.0, 1.0
    for number, hit in enumerate(hits, start=1):
        path *= hit
        accepted += path
        steps = 1 if kind == "medusa" else number
        gain = accepted * plain / (max(plain, cost.pass_seconds(number + 1)) + steps * step)
        if gain > best:
            best, length = gain, number
    return Forecast(kind, tokens, hits, length, best)


def curve_for(kind: HeadKind, parameters: int) -> Curve:
    """Of the measured target with about as many weights."""
    curves = CURVES[kind]
    return curves[min(curves, key=lambda size: abs(math.log(size / parameters)))]


def expected_hits(curve: Curve, tokens: int) -> tuple[float, ...]:
    """Between the curve's points by the logarithm of tokens, beyond them as at the ends."""
    points = sorted(curve.items())
    below = max((point for point in points if point[0] <= tokens), default=points[0])
    above = min((point for point in points if point[0] >= tokens), default=points[-1])
    if below[0] >= above[0]:
        return below[1] if tokens >= points[0][0] else _scaled(points[0][1], tokens / points[0][0])
    share = math.log(tokens / below[0]) / math.log(above[0] / below[0])
    return tuple(low + share * (high - low) for low, high in zip(below[1], above[1], strict=True))


def _rounded(tokens: int) -> int:
    """To two digits: more would claim to know more."""
    digits: int = 10 ** max(0, len(str(tokens)) - 2)
    return round(tokens / digits) * digits


def _scaled(hits: Sequence[float], share: float) -> tuple[float, ...]:
    """With hardly any data there is hardly anything learned."""
    return tuple(hit * math.sqrt(share) for hit in hits)


def drafter_bytes(kind: HeadKind, info: GgufInfo, settings: TrainSettings) -> float:
    """What one draft step reads; heads are written with 8 bits a weight."""
    hidden, per_weight = info.embedding_length, info.bytes / info.parameters
    layer = layer_parameters(info)
    rows = min(settings.draft_vocabulary, info.vocabulary_size) * hidden
    if kind == "medusa":
        return _Q8_0 * settings.positions * hidden**2 + per_weight * rows
    if kind == "early-exit":
        return per_weight * (settings.keep_layers * layer + info.vocabulary_size * hidden)
    doubled = hidden * (info.head_count[0] + 2 * info.head_count_kv[0]) * info.key_length
    return _Q8_0 * (layer + doubled + 3 * hidden**2 + rows)


def layer_parameters(info: GgufInfo) -> int:
    """Weights of one layer: attention and a gated feed-forward network."""
    hidden = info.embedding_length
    queries = info.head_count[0] * info.key_length
    keys = info.head_count_kv[0] * (info.key_length + info.value_length)
    return hidden * (2 * queries + keys + 3 * info.feed_forward_length)


def tokens_in(seconds: float, passes: Mapping[int, float], present: int) -> int:
    """Answer tokens that a corpus will have after collecting for so long.

    Many sequences are answered at once, so about as fast as the widest pass that was measured.
    """
    fastest = max(width / taken for width, taken in passes.items())
    return present + int(seconds * fastest / _SHARE_OF_PROMPTS)
