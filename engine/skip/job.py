"""The search for layers to leave out, from the request to the remembered result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from engine.data.errors import BadOptionError, RunError, StopRequested
from engine.data.folders import DataFolder
from engine.data.machine import physical_cores
from engine.files.gguf import inspect
from engine.files.measurements import Measurements
from engine.llama.abort import AbortFlag
from engine.llama.log import NativeLog
from engine.llama.model import Model, ModelOptions
from engine.skip.choice import default_skip
from engine.skip.report import Ending, SkipPoint, SkipReport, SkipSearchRequest, remember_best
from engine.skip.search import (
    DraftCosts,
    SearchLimits,
    SearchStoppedError,
    Skip,
    SkipSearch,
    expected_speedup,
)
from engine.skip.state import SearchState, state_file
from engine.skip.trial import Budget, Reference, SkipTrial, measure_costs, share
from engine.text.chat import ChatTemplate

Report = Callable[[str, float], None]

_FINALISTS = 3


@dataclass(frozen=True, slots=True)
class SearchTools:
    """What a search needs of the process it runs in. cancelled: asked between two sets."""

    folder: DataFolder
    abort: AbortFlag
    log: NativeLog
    report: Report
    cancelled: Callable[[], bool]


def search_layers(path: Path, request: SkipSearchRequest, tools: SearchTools) -> SkipReport:
    """Cancelled or out of time it returns the best so far; a later call goes on from there."""
    info = inspect(path)
    inner = range(1, info.block_count - 1)
    most = min(request.most or max(1, info.block_count // 2), len(inner))
    if not inner:
        raise BadOptionError(f"{path.name} has no layers between the first and the last")
    state = SearchState(state_file(tools.folder.skip_searches, path, request))
    threads = request.threads or physical_cores()
    with Model(
        path,
        ModelOptions(),
        tools.log,
        lambda fraction: tools.report(f"reading {path.stem}", fraction),
    ) as model:
        trial = SkipTrial(model, threads, request.reply_tokens, tools.abort)
        try:
            if not state.references:
                with closing(ChatTemplate(info.chat_template, *_ends(model))) as template:
                    state.references = _write_references(trial, template, request, tools)
                state.save()
            spread = tuple(inner)[::2]
            tools.report("timing drafts", 0.0)
            costs = measure_costs(
                model, spread, tools.folder.derived, threads, tools.log, tools.abort
            )
            run = _Run(trial, state, costs, request, tools)
            report = run.search(inner, most, info.block_count)
        except StopRequested as error:
            raise RunError("cancelled before any set of layers was tried") from error
        finally:
            trial.close()
    if report.best is not None:
        remember_best(Measurements(tools.folder.measurements_file), path, report.best.skip)
    return report


class _Run:
    """Every second text is searched on, the others check what was found."""

    def __init__(
        self,
        trial: SkipTrial,
        state: SearchState,
        costs: DraftCosts,
        request: SkipSearchRequest,
        tools: SearchTools,
    ) -> None:
        self._trial = trial
        self._state = state
        self._costs = costs
        self._request = request
        self._tools = tools
        self._searched = state.references[0::2]
        self._checked = state.references[1::2]
        self._budget = Budget(request.minutes, tools.cancelled)
        self._search: SkipSearch | None = None

    def search(self, layers: range, most: int, all_layers: int) -> SkipReport:
        limits = SearchLimits(most, patience=2 * len(layers), seed=self._request.seed)
        guess = default_skip(all_layers)
        guesses = [guess] if len(guess) <= most and set(guess) <= set(layers) else []
        search = self._search = SkipSearch(layers, limits, self._evaluate, guesses)
        try:
            is_done = search.run()
        finally:
            self._state.save()
        points = self._check(search)
        ending: Ending = "budget"
        if is_done:
            ending = "done"
        elif self._tools.cancelled():
            ending = "cancelled"
        return SkipReport(
            layers=all_layers,
            points=points,
            passes=tuple(sorted(self._costs.passes.items())),
            tried=len(self._state.values),
            tokens_searched=_tokens(self._searched),
            tokens_checked=_tokens(self._checked),
            ending=ending,
        )

    def _evaluate(self, skip: Skip) -> float:
        known = self._state.values.get(skip)
        if known is not None:
            return known
        if self._budget.is_over:
            raise SearchStoppedError
        try:
            value = share(self._trial.agreement(skip, self._searched))
            self._state.note(skip, value)
            self._tools.report(self._standing(), self._budget.spent)
        except StopRequested as error:
            raise SearchStoppedError from error
        return value

    def _standing(self) -> str:
        search, tried = self._search, len(self._state.values)
        best = search.best if search is not None else {}
        if search is None or not best:
            return f"{tried} sets tried"
        speedups = {skip: self._speedup(count, search.value(skip)) for count, skip in best.items()}
        skip = max(speedups, key=lambda one: speedups[one][0])
        return (
            f"best so far {'+'.join(map(str, skip))}: agrees {search.value(skip):.0%},"
            f" {tried} sets tried"
        )

    def _speedup(self, count: int, agreement: float) -> tuple[float, int]:
        return expected_speedup(agreement, self._costs.draft_step(count), self._costs.passes)

    def _check(self, search: SkipSearch) -> tuple[SkipPoint, ...]:
        """A run-off on the texts that the search did not see; short, so it is not cancelled.

        The best of many sets on little text is often only lucky there: of the best few of each
        size the one that is best on all texts together is taken.
        """
        self._tools.abort.clear()
        return tuple(self._run_off(search, count, max(search.best)) for count in search.best)

    def _run_off(self, search: SkipSearch, count: int, largest: int) -> SkipPoint:
        self._tools.report("checking on other texts", count / largest)
        checks = {
            skip: self._trial.agreement(skip, self._checked)
            for skip in search.finalists(count, _FINALISTS)
        }
        seen, unseen = _tokens(self._searched), _tokens(self._checked)
        skip = max(checks, key=lambda one: seen * search.value(one) + unseen * share(checks[one]))
        agreement = share(checks[skip])
        speedup, length = self._speedup(count, agreement)
        by_category = tuple(
            (category, hits / max(1, total)) for category, (hits, total) in checks[skip].items()
        )
        step = self._costs.draft_step(count)
        value = search.value(skip)
        return SkipPoint(skip, value, agreement, by_category, step, speedup, length)


def _write_references(
    trial: SkipTrial, template: ChatTemplate, request: SkipSearchRequest, tools: SearchTools
) -> tuple[Reference, ...]:
    found = []
    for number, prompt in enumerate(request.prompts):
        tools.report("writing the target's own text", number / len(request.prompts))
        found.append(trial.write(prompt, template))
    return tuple(found)


def _ends(model: Model) -> tuple[str, str]:
    """Texts of the tokens that begin and end a text."""
    vocab = model.vocab
    return vocab.special_text(vocab.bos), vocab.special_text(vocab.eos)


def _tokens(references: Sequence[Reference]) -> int:
    return sum(len(one.reply) for one in references)
