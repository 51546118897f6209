"""`forerun bench`: plain decoding against every way of drafting, on real prompts."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from dataclasses import replace
from pathlib import Path

from engine.bench import PLAIN, BenchMode, BenchReport, BenchSample, ModeFigures, run_bench
from engine.cli.engine_access import load_shown, open_engine
from engine.cli.options import (
    add_sampling_options,
    existing_file,
    sampling_params,
)
from engine.cli.parser import Subparsers
from engine.client import EngineClient
from engine.errors import BadOptionError, RunError
from engine.events import Finished
from engine.prompts import TrialPrompt, read_prompts
from engine.request import DraftParams, GenerateRequest, LoadRequest, Message, SamplingParams


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser("bench", description="Measure modes, interleaved.")
    parser.add_argument("--target", required=True, metavar="M")
    parser.add_argument(
        "--drafter", action="append", required=True, metavar="D", help="may be given repeatedly"
    )
    parser.add_argument("--prompts", type=existing_file, metavar="F.jsonl")
    parser.add_argument("--limit", type=int, metavar="N", help="prompts at most")
    parser.add_argument("--per-category", type=int, metavar="N", help="prompts of each category")
    parser.add_argument("--max-tokens", type=int, default=128, metavar="N")
    parser.add_argument("--ctx", type=int, default=4096, metavar="N")
    parser.add_argument("--threads", type=int, default=0, metavar="N")
    parser.add_argument("--gpu-layers", type=int, default=-1, metavar="N")
    parser.add_argument(
        "--fixed", type=int, action="append", default=[], metavar="K", help="also a fixed length K"
    )
    add_sampling_options(parser)
    parser.add_argument("--json", type=Path, metavar="F", help="write all figures here")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    for name in ("limit", "per_category"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise BadOptionError(f"--{name.replace('_', '-')} must be 1 or more")
    prompts = read_prompts(arguments.prompts)
    if arguments.per_category:
        prompts = _of_each_category(prompts, arguments.per_category)
    prompts = prompts[: arguments.limit]
    with contextlib.ExitStack() as stack:
        modes = _modes(arguments, stack)
        report = run_bench(modes, prompts, _show_sample)
    print("\n".join(_lines(report)))
    if arguments.json:
        arguments.json.write_text(json.dumps(report.to_json(), indent=1), encoding="utf-8")
    return 0


def _modes(arguments: argparse.Namespace, stack: contextlib.ExitStack) -> list[BenchMode]:
    """One engine process for each drafter, so that no mode has to load anything in between."""
    sampling = sampling_params(arguments)
    modes: list[BenchMode] = []
    for drafter in arguments.drafter:
        client = stack.enter_context(open_engine(arguments))
        request = LoadRequest(
            arguments.target,
            drafter,
            context_length=arguments.ctx,
            threads=arguments.threads,
            gpu_layers=arguments.gpu_layers,
        )
        load_shown(client, request, verbose=arguments.verbose)
        if not modes:
            modes.append(_mode(PLAIN, client, arguments, sampling, DraftParams(speculate="off")))
        name = f"{drafter} auto"
        modes.append(_mode(name, client, arguments, sampling, DraftParams(speculate="auto")))
        for length in arguments.fixed:
            fixed = DraftParams(speculate="always", draft_max=length)
            modes.append(_mode(f"{drafter} k={length}", client, arguments, sampling, fixed))
    return modes


def _mode(
    name: str,
    client: EngineClient,
    arguments: argparse.Namespace,
    sampling: SamplingParams,
    drafting: DraftParams,
) -> BenchMode:
    sampling = replace(sampling, seed=0 if sampling.seed is None else sampling.seed)

    def reply(prompt: TrialPrompt) -> Finished:
        request = GenerateRequest(
            messages=(Message("user", prompt.text),),
            max_tokens=arguments.max_tokens,
            sampling=sampling,
            drafting=drafting,
            overflow="trim",
            reuse=False,
        )
        for event in client.generate(request).events():
            if isinstance(event, Finished):
                return event
        raise RunError("the reply ended without its last event")

    return BenchMode(name, reply)


def _of_each_category(prompts: tuple[TrialPrompt, ...], count: int) -> tuple[TrialPrompt, ...]:
    seen: dict[str, int] = {}
    chosen = []
    for prompt in prompts:
        seen[prompt.category] = seen.get(prompt.category, 0) + 1
        if seen[prompt.category] <= count:
            chosen.append(prompt)
    return tuple(chosen)


def _show_sample(sample: BenchSample) -> None:
    rate = sample.stats.tokens_per_second or 0.0
    print(
        f"{sample.category:16} {sample.mode:40} {sample.stats.emitted:4} tokens {rate:6.1f}/s",
        file=sys.stderr,
    )


def _lines(report: BenchReport) -> list[str]:
    lines = [_HEADER, *(_line("all", figures) for figures in report.overall)]
    for category, modes in report.by_category.items():
        lines.extend(_line(category, figures) for figures in modes if figures.mode != PLAIN)
    return lines


_HEADER = (
    f"{'category':16} {'mode':40} {'tokens/s':>8} {'speed-up':>8} {'95 %':>13} "
    f"{'accept.':>7} {'tau':>5} {'draft':>6} {'same text':>9}"
)


def _line(category: str, figures: ModeFigures) -> str:
    interval = f"{figures.speedup_low:.2f}-{figures.speedup_high:.2f}"
    rate = "" if figures.acceptance_rate is None else f"{figures.acceptance_rate:.0%}"
    same = "" if figures.same_text is None else f"{figures.same_text}/{figures.prompts}"
    return (
        f"{category:16} {figures.mode[:40]:40} {figures.tokens_per_second:8.1f} "
        f"{figures.speedup:7.2f}x {interval:>13} {rate:>7} {figures.mean_accepted_length:5.2f} "
        f"{figures.draft_share:6.0%} {same:>9}"
    )
