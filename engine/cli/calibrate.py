"""`forerun calibrate`: what tokens cost on this machine, and whether drafting them pays."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine.cli.engine_access import open_engine, show_steps
from engine.cli.options import add_load_options, existing_file, load_request
from engine.cli.parser import Subparsers
from engine.data.errors import BadOptionError, RunError
from engine.data.events import Finished
from engine.data.loaded import DraftSpeed, LoadedSummary, SpeedSummary
from engine.data.request import DraftParams, GenerateRequest, Message
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
        probe = _probe(client, arguments.prompt_file) if arguments.prompt_file else {}
        speed = _speed(client.loaded or loaded)
    if arguments.json:
        head = {"target": arguments.target, "drafter": arguments.drafter}
        print(json.dumps({**head, **_json(speed), **probe}, ensure_ascii=False))
    else:
        print("\n".join(_lines(arguments.target, speed, probe)))
    return 0


def _speed(loaded: LoadedSummary) -> SpeedSummary:
    if loaded.speed is None:
        raise RunError("nothing was measured")
    return loaded.speed


def _probe(client: EngineClient, file: Path) -> dict[str, Any]:
    """A short reply to learn from, a prediction, then a longer one each way to compare with."""
    text = file.read_text(encoding="utf-8", errors="replace").strip()
    if not text:
        raise BadOptionError(f"{file} is empty")
    _reply(client, text, DraftParams(), _PROBE_TOKENS)
    predicted = _speed(client.loaded).predicted.get("greedy") if client.loaded else None
    plain = _reply(client, text, DraftParams(speculate="off"), 2 * _PROBE_TOKENS)
    auto = _reply(client, text, DraftParams(), 2 * _PROBE_TOKENS)
    measured = _seconds_per_token(plain) / _seconds_per_token(auto)
    return {"predicted": predicted, "measured": measured}


def _seconds_per_token(reply: Finished) -> float:
    return reply.stats.decode_seconds / max(1, reply.stats.emitted)


def _reply(client: EngineClient, text: str, drafting: DraftParams, tokens: int) -> Finished:
    request = GenerateRequest(
        messages=(Message("user", text),), max_tokens=tokens, drafting=drafting, overflow="trim"
    )
    for event in client.generate(request).events():
        if isinstance(event, Finished):
            return event
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
        shown = "too few drafted tokens to tell" if predicted is None else f"{predicted:.2f}x"
        lines.append(f"on this text: predicted {shown}, measured {probe['measured']:.2f}x")
    return lines


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
