"""`forerun calibrate`: what tokens cost on this machine, and whether drafting them pays."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.bench.modes import remembers
from engine.bench.samples import BenchReply
from engine.bench.speeds import speed_up_of
from engine.cli.engine_access import open_engine, show_steps
from engine.cli.options import add_load_options, existing_file, load_request
from engine.cli.parser import Subparsers
from engine.control.cost import CostModel
from engine.control.speed_record import SpeedRecord
from engine.data.documents import json_text
from engine.data.errors import BadOptionError, RunError
from engine.data.events import Finished
from engine.data.loaded import DraftSpeed, LoadedSummary, SpeedSummary
from engine.data.prompts import read_text
from engine.data.request import DraftParams, GenerateRequest, Message
from engine.data.rounds import RoundTrace
from engine.process.client import EngineClient

_PROBE_TOKENS = 64


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "calibrate", description="Measure what passes cost here, and what pays."
    )
    add_load_options(parser, drafter_required=False)
    parser.add_argument(
        "--prompt-file",
        type=existing_file,
        metavar="F",
        help="also predict the speed-up on this text, from a short reply and a timed one",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.prompt_file is not None and arguments.drafter is None:
        raise BadOptionError("--prompt-file needs a --drafter whose speed-up is to be predicted")
    with open_engine(arguments) as client:
        loaded = client.calibrate(load_request(arguments), show_steps())
        probe = _probe(client, arguments) if arguments.prompt_file else {}
        speed = _speed(client.loaded or loaded)
    if arguments.json:
        head = {"target": arguments.target, "drafter": arguments.drafter}
        print(json_text({**head, **_json(speed), **probe}))
    else:
        print("\n".join(_lines(arguments.target, speed, probe)))
    return 0


def _speed(loaded: LoadedSummary) -> SpeedSummary:
    if loaded.speed is None:
        raise RunError("nothing was measured")
    return loaded.speed


def _probe(client: EngineClient, arguments: argparse.Namespace) -> dict[str, Any]:
    """A short reply and a prediction from it, then a longer one between two plain ones.

    Of a drafter that remembers texts nothing is predicted: it would know the longer reply.
    """
    file: Path = arguments.prompt_file
    text = read_text(file).strip()
    if not text:
        raise BadOptionError(f"{file} is empty")
    off = DraftParams(speculate="off")
    predicted = None
    if not remembers(arguments.drafter):
        short = _reply(client, text, DraftParams(), _PROBE_TOKENS)
        predicted = _predicted(short.rounds, _speed(client.loaded)) if client.loaded else None
    plain = _reply(client, text, off, 2 * _PROBE_TOKENS)
    auto = _reply(client, text, DraftParams(), 2 * _PROBE_TOKENS)
    again = _reply(client, text, off, 2 * _PROBE_TOKENS)
    found = speed_up_of(auto, plain, again)
    return {
        "predicted": predicted,
        "measured": None if found is None else found.speed.mean,
        "measured_low": None if found is None else found.speed.low,
        "measured_high": None if found is None else found.speed.high,
        "settled": found is not None and found.stands_out,
        "plain_difference": None if found is None else found.plain_difference,
    }


def _predicted(rounds: Sequence[RoundTrace], speed: SpeedSummary) -> float | None:
    """From what passes cost here, and what these rounds wrote."""
    cost, record = CostModel(speed.passes), SpeedRecord()
    for trace in rounds:
        seconds = trace.seconds.draft + cost.pass_seconds(1 + len(trace.proposed))
        emitted = len(trace.emitted)
        record.add(emitted, emitted * cost.pass_seconds(1), seconds)
    return record.of_this_reply


def _reply(client: EngineClient, text: str, drafting: DraftParams, tokens: int) -> BenchReply:
    request = GenerateRequest(
        messages=(Message("user", text),), max_tokens=tokens, drafting=drafting, overflow="trim"
    )
    rounds: list[RoundTrace] = []
    for event in client.generate(request).events():
        if isinstance(event, RoundTrace):
            rounds.append(event)
        if isinstance(event, Finished):
            return BenchReply(event, tuple(rounds))
    raise RunError("the reply ended without its last event")


def _lines(target: str, speed: SpeedSummary, probe: Mapping[str, Any]) -> list[str]:
    plain = speed.passes[1]
    weights = "repacked" if speed.repack else "not repacked"
    attention = "plain" if speed.plain_attention else "fused"
    lines = [
        f"{target}: {1 / plain:.1f} tokens/s plain, prompts {speed.prefill:.0f} tokens/s"
        f" ({speed.threads} threads, weights {weights}, attention {attention})",
        f"{'tokens a pass':>13} {'ms':>8} {'x of one':>8} {'ms a token':>10}",
    ]
    for width, seconds in sorted(speed.passes.items()):
        lines.append(
            f"{width:13} {1e3 * seconds:8.1f} {seconds / plain:8.2f} {1e3 * seconds / width:10.1f}"
        )
    for drafter in speed.drafters:
        lines += _drafter_lines(drafter)
    if probe:
        predicted = probe["predicted"]
        shown = "nothing predicted" if predicted is None else f"predicted {predicted:.2f}x"
        lines.append(f"on this text: {shown}, {_measured_text(probe)}")
    return lines


def _measured_text(probe: Mapping[str, Any]) -> str:
    if probe["measured"] is None:
        return "nothing measured: no token was written"
    interval = f"{probe['measured_low']:.2f} to {probe['measured_high']:.2f}x"
    known = interval if probe["settled"] else "not settled"
    noise = f"plain decoding's own two replies differed by {probe['plain_difference']:.0%}"
    return f"measured {probe['measured']:.2f}x ({known}: {noise})"


def _drafter_lines(drafter: DraftSpeed) -> list[str]:
    head = (
        f"{drafter.name}: {1e3 * drafter.step:.1f} ms a drafted token, "
        f"{1e3 * drafter.token:.1f} ms a token of the prompt"
    )
    needed = ", ".join(
        f"{even.length}: " + ("-" if even.acceptance is None else f"{even.acceptance:.0%}")
        for even in drafter.break_evens
    )
    return [head, f"  share that has to be right, by tokens a round: {needed}", drafter.advice]


def _json(speed: SpeedSummary) -> dict[str, Any]:
    return {
        "threads": speed.threads,
        "repack": speed.repack,
        "plain_attention": speed.plain_attention,
        "prefill_tokens_per_second": speed.prefill,
        "pass_seconds": {str(width): seconds for width, seconds in speed.passes.items()},
        "drafters": [asdict(drafter) for drafter in speed.drafters],
        "predicted_speed_up": dict(speed.predicted),
    }
