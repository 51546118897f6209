"""`forerun verify`: exactness of a real pair on this machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from engine.bench.verify import (
    NEAR_TIE,
    EqualityReport,
    VerifyReport,
    check_equality,
    check_law,
)
from engine.cli.engine_access import load_shown, open_engine
from engine.cli.options import add_load_options, existing_file, load_request
from engine.cli.parser import Subparsers
from engine.data.documents import json_text
from engine.data.errors import BadOptionError
from engine.data.events import RunEvent
from engine.data.prompts import TrialPrompt, read_prompts
from engine.data.request import GenerateRequest, SamplingParams
from engine.process.client import EngineClient


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "verify", description="Check that speculation does not change the text of a pair."
    )
    add_load_options(parser, drafter_required=True)
    parser.add_argument("--prompts", type=existing_file, metavar="F.jsonl")
    parser.add_argument("--limit", type=int, metavar="N", help="prompts at most")
    parser.add_argument("--max-tokens", type=int, default=48, metavar="N")
    parser.add_argument(
        "--draws", type=int, default=200, metavar="N", help="samples for the law; 0: leave it out"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.set_defaults(func=run)


def run(arguments: argparse.Namespace) -> int:
    if arguments.draws < 0:
        raise BadOptionError("--draws must be 0 (leave it out) or more")
    prompts = read_prompts(arguments.prompts, arguments.limit)
    with open_engine(arguments) as client:
        loaded = load_shown(client, load_request(arguments), verbose=arguments.verbose)
        report = _check(client, prompts, arguments, strict=loaded.strict_width is not None)
    if arguments.json:
        head = {"target": arguments.target, "drafter": arguments.drafter}
        width = {
            "numerics": arguments.numerics,
            "strict_width": loaded.strict_width,
            "strict_widths": list(loaded.strict_widths),
        }
        print(json_text({**head, **width, **report.to_json()}))
    else:
        print("\n".join(_lines(report)))
    return 0 if report.ok else 1


def _check(
    client: EngineClient,
    prompts: Sequence[TrialPrompt],
    arguments: argparse.Namespace,
    *,
    strict: bool,
) -> VerifyReport:
    def generate(request: GenerateRequest) -> Sequence[RunEvent]:
        return tuple(client.generate(request).events())

    tolerance = 0.0 if strict else NEAR_TIE
    sampling = SamplingParams(temperature=0.8, top_k=40, top_p=0.95, seed=1)
    print(f"comparing {len(prompts)} greedy replies ...", file=sys.stderr)
    greedy = check_equality(generate, prompts, SamplingParams(), arguments.max_tokens, tolerance)
    print(f"comparing {len(prompts)} seeded replies ...", file=sys.stderr)
    seeded = check_equality(generate, prompts, sampling, arguments.max_tokens, tolerance)
    law = None
    if arguments.draws:
        print(f"drawing {2 * arguments.draws} sampled beginnings ...", file=sys.stderr)
        law = check_law(generate, prompts, sampling, arguments.draws)
    return VerifyReport(greedy, seeded, law)


def _lines(report: VerifyReport) -> list[str]:
    lines = [*_equality("greedy text", report.greedy), *_equality("seeded text", report.seeded)]
    law = report.sampled
    if law is not None:
        lines.append(
            f"sampled law of {law.tokens} tokens: p = {law.p_value:.3f} over {law.draws} draws each"
            f" way, {law.long_drafts} drafts of two or more; differences "
            f"below {law.detectable_tv:.2f} total variation would not show"
        )
    if report.untested:
        lines.append(
            f"no draft of two or more tokens occurred in: {', '.join(report.untested)}; "
            "there the rules for such drafts were not tested"
        )
    lines.append("exact" if report.ok else "NOT EXACT: please report this pair")
    return lines


def _equality(name: str, report: EqualityReport) -> list[str]:
    lines = [
        f"{name}: {report.identical} of {report.prompts} identical to plain decoding, "
        f"{report.long_drafts} drafts of two or more tokens"
    ]
    for difference in report.differences:
        tie = "a near-tie" if difference.gap <= report.tolerance else "NOT a near-tie"
        lines.append(
            f"  parts at token {difference.position} of {difference.prompt!r}: "
            f"the two were {difference.gap:.3f} logits apart, {tie}"
        )
    return lines
