"""`forerun models skip-layers` and `quantize`: copies of a model that draft for it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator

from engine.cli.engine_access import open_engine
from engine.cli.options import existing_file
from engine.cli.parser import CommandParser, Subparsers
from engine.data.errors import BadOptionError
from engine.data.prompts import read_prompts
from engine.files.reference import reference_of
from engine.process.messages import LoadProgress
from engine.skip.choice import parse_skip
from engine.skip.report import SkipReport, SkipSearchRequest

INTERRUPTED = 130

_MODEL_HELP = "catalogue id, GGUF path or hub:owner/repo/file.gguf"


def add_parsers(subparsers: Subparsers) -> None:
    skipping = subparsers.add_parser(
        "skip-layers", description="Copy a model without some layers: an early-exit drafter."
    )
    skipping.add_argument("model", help=_MODEL_HELP)
    skipping.add_argument(
        "--skip",
        metavar="10+13+16",
        default="",
        help="default: what a search found, else one in fifteen",
    )
    _add_search(skipping)
    skipping.set_defaults(func=_skip_layers)
    quantizing = subparsers.add_parser(
        "quantize", description="Copy a model with all weights in another format."
    )
    quantizing.add_argument("model", help=_MODEL_HELP)
    quantizing.add_argument("--to", required=True, metavar="FORMAT", help="Q4_0, Q8_0, BF16, ...")
    quantizing.set_defaults(func=_quantize)


def _add_search(parser: CommandParser) -> None:
    group = parser.add_argument_group("search", "Find the layers that do least harm.")
    group.add_argument(
        "--search",
        action="store_true",
        help="try sets of layers on the model's own text; early-exit uses the best from then on",
    )
    group.add_argument(
        "--budget", type=float, default=10.0, metavar="MINUTES", help="ends sooner if done"
    )
    group.add_argument("--prompts", type=existing_file, metavar="F.jsonl")
    group.add_argument("--limit", type=int, metavar="N", help="prompts at most")
    group.add_argument("--reply-tokens", type=int, default=64, metavar="N", help="per prompt")
    group.add_argument("--most", type=int, default=0, metavar="N", help="layers; 0: half of them")
    group.add_argument("--seed", type=int, default=1, metavar="S")
    group.add_argument("--threads", type=int, default=0, metavar="N", help="0: physical cores")
    group.add_argument("--json", action="store_true", help="one JSON object on stdout")


def _skip_layers(arguments: argparse.Namespace) -> int:
    if arguments.search:
        return _search_layers(arguments)
    if arguments.json:
        raise BadOptionError("--json needs --search")
    skip = parse_skip(f"skip={arguments.skip}") if arguments.skip else ()
    with open_engine(arguments) as client:
        path = client.make_model(arguments.model, skip=skip, on_progress=_show)
    print(reference_of(path))
    return 0


def _search_layers(arguments: argparse.Namespace) -> int:
    if arguments.skip:
        raise BadOptionError("--search finds the layers, --skip names them: give one of the two")
    request = SkipSearchRequest(
        model=arguments.model,
        prompts=read_prompts(arguments.prompts, arguments.limit),
        reply_tokens=arguments.reply_tokens,
        minutes=arguments.budget,
        most=arguments.most,
        seed=arguments.seed,
        threads=arguments.threads,
    )
    with open_engine(arguments) as client:
        report = client.search_layers(request, ProgressLines())
    if arguments.json:
        print(json.dumps(report.to_json()))
    else:
        print("\n".join(_curve(report)))
    return INTERRUPTED if report.ending == "cancelled" else 0


def _curve(report: SkipReport) -> Iterator[str]:
    yield (
        f"{report.tried} sets tried on {report.tokens_searched} tokens of the model's own text,"
        f" the best of each size checked on {report.tokens_checked} others"
    )
    yield "without  agreement  draft step  expected  layers left out"
    for point in report.points:
        layers = "+".join(map(str, point.skip))
        yield (
            f"{len(point.skip):>7}  {point.agreement:>9.1%}  {1000 * point.step:>7.1f} ms"
            f"  {point.speedup:>7.2f}x  {layers}"
        )
    best = report.best
    if best is not None:
        by_category = ", ".join(f"{name} {rate:.0%}" for name, rate in best.by_category)
        yield f"best: {'+'.join(map(str, best.skip))} ({by_category}); early-exit now uses it"
    if best is not None and best.speedup < 1.0:
        yield "no set is expected to be faster than plain decoding on this machine"
    if report.ending != "done":
        yield "stopped before the end; the same command goes on from here"


class ProgressLines:
    """Progress on stderr: a line now and then, one that moves on a terminal."""

    def __init__(self) -> None:
        self._last = ""

    def __call__(self, progress: LoadProgress) -> None:
        line = f"{progress.label} ({progress.fraction:.0%})"
        if sys.stderr.isatty():
            print("\r" + line.ljust(len(self._last)), end="", file=sys.stderr, flush=True)
            self._last = line
        elif (label := progress.label.partition(",")[0]) != self._last:
            print(line, file=sys.stderr, flush=True)
            self._last = label


def _quantize(arguments: argparse.Namespace) -> int:
    file_format = arguments.to.upper()
    if not file_format:
        raise BadOptionError("--to needs a format, for example Q4_0")
    with open_engine(arguments) as client:
        path = client.make_model(arguments.model, file_format=file_format, on_progress=_show)
    print(reference_of(path))
    return 0


def _show(progress: LoadProgress) -> None:
    end = "\r" if sys.stderr.isatty() else "\n"
    print(f"{progress.label}: {progress.fraction:.0%}", end=end, file=sys.stderr, flush=True)
