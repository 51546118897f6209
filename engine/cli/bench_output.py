"""What `forerun bench` prints and writes: lines, the JSON file, the report."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from engine.bench.figures import BenchReport, ModeFigures, summarise
from engine.bench.recommend import Candidate, recommend
from engine.bench.report import (
    html_report,
    oracle_sentences,
    peer_sentence,
    plain_sentences,
    prediction_sentences,
)
from engine.bench.run import BenchProgress
from engine.bench.samples import PLAIN, BenchSample, sample_from_json
from engine.cli.options import sampling_params
from engine.data.documents import parse_json
from engine.data.errors import BadOptionError, RunError
from engine.data.machine import processor
from engine.files.disk import write_atomically
from engine.files.stored import MISREAD


@dataclass(frozen=True, slots=True)
class Conditions:
    """What figures of one file have in common. prompts: how many there are to be."""

    target: str
    drafters: tuple[str, ...]
    fixed: tuple[int, ...]
    peer: str | None
    peer_settings: tuple[str, ...]
    max_tokens: int
    context_length: int
    threads: int
    gpu_layers: int
    sampling: dict[str, Any]
    machine: str
    prompts: int
    numerics: str = "fast"

    @classmethod
    def of(cls, arguments: argparse.Namespace, prompts: int) -> Conditions:
        cpu = processor()
        return cls(
            target=arguments.target,
            drafters=tuple(arguments.drafter),
            fixed=tuple(arguments.fixed),
            peer=None if arguments.peer is None else str(arguments.peer),
            peer_settings=tuple(arguments.peer_setting),
            max_tokens=arguments.max_tokens,
            context_length=arguments.ctx,
            threads=arguments.threads or cpu.physical_cores,
            gpu_layers=arguments.gpu_layers,
            sampling=asdict(sampling_params(arguments)),
            machine=f"{cpu.model}, {cpu.physical_cores} cores",
            prompts=prompts,
            numerics=arguments.numerics,
        )

    def to_json(self) -> dict[str, Any]:
        """As it is read back: lists for tuples."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return data

    def facts(self) -> list[tuple[str, str]]:
        sampling = self.sampling
        how = "greedy"
        if sampling["temperature"]:
            how = f"temperature {sampling['temperature']}, top-k {sampling['top_k']}"
            how += f", top-p {sampling['top_p']}"
        return [
            ("target", self.target),
            ("drafters", "; ".join(self.drafters)),
            ("machine", f"{self.machine}, {self.threads} threads"),
            ("reply", f"{self.max_tokens} tokens, {how}"),
            ("numerics", self.numerics),
        ]


_UNSAID = {"numerics": "fast"}
"""What files that do not say it were measured with."""


@dataclass(frozen=True, slots=True)
class BenchFiles:
    """The JSON file and the report, each None if it is not wanted."""

    json_file: Path | None
    report_file: Path | None
    conditions: Conditions

    def write(self, report: BenchReport) -> None:
        """Raises RunError when a file cannot be written."""
        try:
            if self.json_file is not None:
                write_atomically(self.json_file, json.dumps(self._content(report), indent=1))
            if self.report_file is not None:
                write_atomically(self.report_file, self._html(report))
        except OSError as error:
            raise RunError(f"{error.filename} cannot be written: {error.strerror}") from error

    def read(self) -> list[BenchSample]:
        """Samples of an earlier run, none if there was none.

        BadOptionError when that run had other conditions, or the file is not of this command.
        """
        if self.json_file is None:
            raise BadOptionError("--resume needs --json F, the file to go on with")
        if not self.json_file.exists():
            return []
        try:
            data = parse_json(self.json_file.read_bytes(), repair=True)
            then, samples = data["conditions"], data["samples"]
            before = [sample_from_json(one) for one in samples]
        except MISREAD as error:
            raise BadOptionError(f"{self.json_file} is not a bench's file: {error!r}") from error
        now = self.conditions.to_json()
        then = _UNSAID | then
        other = [name for name in now if name != "prompts" and then.get(name) != now[name]]
        if other:
            raise BadOptionError(
                f"{self.json_file} was measured with another {', '.join(other)}: "
                "choose another --json file, or leave out --resume"
            )
        return before

    def _content(self, report: BenchReport) -> dict[str, Any]:
        return {
            "complete": self._measured(report) >= self.conditions.prompts,
            "conditions": self.conditions.to_json(),
            "recommendation": _recommendation(report),
            **report.to_json(),
        }

    def _html(self, report: BenchReport) -> str:
        notes = [_recommendation(report), peer_sentence(report), *oracle_sentences(report)]
        notes += [*prediction_sentences(report), *plain_sentences(report)]
        measured = self._measured(report)
        if measured < self.conditions.prompts:
            notes.append(f"Incomplete: {measured} of {self.conditions.prompts} prompts.")
        title = f"Bench of {Path(self.conditions.target).name}"
        facts = [*self.conditions.facts(), ("prompts", str(measured))]
        return html_report(report, title, facts, [note for note in notes if note])

    @staticmethod
    def _measured(report: BenchReport) -> int:
        return len({sample.prompt for sample in report.samples})


def write_outputs(files: BenchFiles, samples: Sequence[BenchSample]) -> None:
    """The table on stdout, and the files once more."""
    report = summarise(samples)
    files.write(report)
    print("\n".join(report_lines(report)))


def sample_line(sample: BenchSample) -> str:
    rate = sample.stats.tokens_per_second or 0.0
    return (
        f"{sample.category:16} {sample.mode:40} {sample.stats.emitted:4} tokens {rate:6.1f}/s "
        f"{sample.speedup:5.2f}x"
    )


def time_left(progress: BenchProgress) -> str:
    minutes, seconds = divmod(round(progress.seconds_left or 0.0), 60)
    return f"{progress.done} of {progress.total} replies, about {minutes}:{seconds:02d} left"


def report_lines(report: BenchReport) -> list[str]:
    lines = [_HEADER, *(_line("all", figures) for figures in report.overall)]
    for category, modes in report.by_category.items():
        lines.extend(_line(category, figures) for figures in modes if figures.mode != PLAIN)
    passes = "  ".join(f"{n}: {1e3 * value:.0f}" for n, value in report.pass_seconds.items())
    lines.append(f"T(n) in ms, medians of all rounds: {passes}")
    lines.append("Each prompt is asked in each mode, its cache cleared before; plain's twice.")
    lines.extend(plain_sentences(report))
    lines.extend((*oracle_sentences(report), *prediction_sentences(report)))
    lines.extend(line for line in (peer_sentence(report), _recommendation(report)) if line)
    return lines


def _recommendation(report: BenchReport) -> str:
    candidates = [
        Candidate(one.mode, one.mode, one.mode)
        for one in report.overall
        if one.mode != PLAIN and not one.is_peer
    ]
    return recommend(report, candidates).sentence


_HEADER = (
    f"{'category':16} {'mode':40} {'tokens/s':>8} {'speed-up':>8} {'95 %':>13} "
    f"{'accept.':>7} {'tau':>5} {'draft':>6} {'MB':>6} {'same text':>9}"
)


def _line(category: str, figures: ModeFigures) -> str:
    interval = f"{figures.speedup_low:.2f}-{figures.speedup_high:.2f}"
    if figures.prompts == 1 or figures.mode == PLAIN:
        interval = ""
    rate = "" if figures.acceptance_rate is None else f"{figures.acceptance_rate:.0%}"
    same = "" if figures.same_text is None else f"{figures.same_text}/{figures.prompts}"
    gap = "" if figures.largest_gap is None else f" gap {figures.largest_gap:.2f}"
    draft = "" if figures.draft_share is None else f"{figures.draft_share:.0%}"
    memory = "" if figures.memory_bytes is None else f"{figures.memory_bytes / 1e6:.0f}"
    return (
        f"{category:16} {figures.mode[:40]:40} {figures.tokens_per_second:8.1f} "
        f"{figures.speedup:7.2f}x {interval:>13} {rate:>7} {figures.mean_accepted_length:5.2f} "
        f"{draft:>6} {memory:>6} {same:>9}{gap}"
    )
