"""`forerun bench`: plain decoding against every way of drafting, on real prompts."""

from __future__ import annotations

import argparse
import contextlib
import functools
import sys
from collections.abc import Mapping
from pathlib import Path

from engine.bench.figures import summarise
from engine.bench.modes import (
    BenchSettings,
    EngineUnderTest,
    drafting_modes,
    length_groups,
    plain_mode,
)
from engine.bench.peer import PeerServer
from engine.bench.run import Bench, BenchProgress, check_prompts
from engine.bench.samples import BenchMode, BenchSample
from engine.cli.bench_output import BenchFiles, Conditions, sample_line, time_left, write_outputs
from engine.cli.bench_peer import add_peer_options, chosen_settings, peer_plan
from engine.cli.engine_access import load_shown, open_engine
from engine.cli.options import (
    add_numerics_option,
    add_sampling_options,
    existing_file,
    sampling_params,
)
from engine.cli.parser import Subparsers
from engine.data.errors import BadOptionError
from engine.data.prompts import TrialPrompt, numbered, read_prompts
from engine.data.request import LoadRequest
from engine.process.client import EngineClient


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
    add_numerics_option(parser)
    parser.add_argument(
        "--fixed", type=int, action="append", default=[], metavar="K", help="also a fixed length K"
    )
    add_sampling_options(parser)
    add_peer_options(parser)
    parser.add_argument("--json", type=Path, metavar="F", help="write all figures here")
    parser.add_argument("--report", type=Path, metavar="F.html", help="write a report with plots")
    parser.add_argument(
        "--resume", action="store_true", help="go on with the prompts that --json F lacks"
    )
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    """What is complete is written after every prompt, so that Ctrl+C loses one prompt at most."""
    prompts = _prompts(arguments)
    files = BenchFiles(arguments.json, arguments.report, Conditions.of(arguments, len(prompts)))
    samples = files.read() if arguments.resume else []
    done = {sample.prompt for sample in samples}
    left = [prompt for prompt in prompts if prompt.text not in done]
    if done:
        print(f"{len(prompts) - len(left)} prompts are measured already", file=sys.stderr)
    if left:
        try:
            _measure(arguments, left, samples, files)
        except KeyboardInterrupt:
            if samples:
                write_outputs(files, samples)
            raise
    write_outputs(files, samples)
    return 0


def _measure(
    arguments: argparse.Namespace,
    prompts: list[TrialPrompt],
    samples: list[BenchSample],
    files: BenchFiles,
) -> None:
    """Adds to `samples`."""
    progress: list[BenchProgress] = []
    with contextlib.ExitStack() as stack:
        modes = _modes(arguments, stack)
        bench = Bench(
            modes,
            greedy=arguments.temperature == 0.0,
            on_progress=progress.append,
            predicts=not samples,
        )
        for taken in bench.samples(prompts):
            samples.extend(taken)
            for sample in taken:
                print(sample_line(sample), file=sys.stderr)
            print(time_left(progress[-1]), file=sys.stderr, flush=True)
            files.write(summarise(samples))


def _prompts(arguments: argparse.Namespace) -> tuple[TrialPrompt, ...]:
    for name in ("limit", "per_category"):
        value = getattr(arguments, name)
        if value is not None and value < 1:
            raise BadOptionError(f"--{name.replace('_', '-')} must be 1 or more")
    prompts = read_prompts(arguments.prompts)
    if arguments.per_category:
        count = arguments.per_category
        prompts = tuple(prompt for number, prompt in numbered(prompts) if number < count)
    prompts = prompts[: arguments.limit]
    check_prompts(prompts)
    return prompts


def _modes(arguments: argparse.Namespace, stack: contextlib.ExitStack) -> list[BenchMode]:
    """One process for each drafter and peer setting, so that nothing is loaded in between."""
    if any(length < 1 for length in arguments.fixed):
        raise BadOptionError("--fixed must be 1 or more")
    groups = [
        (drafter, lengths)
        for drafter in arguments.drafter
        for lengths in length_groups(drafter, arguments.fixed)
    ]
    settings = BenchSettings(arguments.max_tokens, sampling_params(arguments))
    peers = chosen_settings(arguments)
    modes: list[BenchMode] = []
    for drafter, lengths in groups:
        client = stack.enter_context(open_engine(arguments))
        request = LoadRequest(
            arguments.target,
            drafter,
            context_length=arguments.ctx,
            threads=arguments.threads,
            gpu_layers=arguments.gpu_layers,
            numerics=arguments.numerics,
        )
        load_shown(client, request, verbose=arguments.verbose)
        pid, predicted = functools.partial(_pid, client), functools.partial(_predicted, client)
        engine = EngineUnderTest(client.generate, _never, pid, predicted)
        if not modes:
            modes.append(plain_mode(engine, settings))
        modes.extend(drafting_modes(engine, settings, drafter, lengths))
    if peers:
        plan = peer_plan(arguments)
        for setting in peers:
            server = stack.enter_context(contextlib.closing(PeerServer(plan, setting)))
            modes.append(server.mode(settings))
    return modes


def _pid(client: EngineClient) -> int | None:
    return client.pid


def _predicted(client: EngineClient) -> Mapping[str, float]:
    return client.loaded.predicted if client.loaded is not None else {}


def _never() -> bool:
    return False
