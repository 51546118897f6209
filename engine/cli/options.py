"""Options that several commands share, and the request values made of them."""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.request import DraftParams, LoadRequest, SamplingParams


def add_load_options(parser: argparse.ArgumentParser, *, drafter_required: bool) -> None:
    group = parser.add_argument_group("models")
    model = "catalogue id, GGUF path or hub:owner/repo/file.gguf"
    group.add_argument("--target", required=True, metavar="M", help=f"the target: {model}")
    group.add_argument(
        "--drafter",
        required=drafter_required,
        metavar="D",
        help="model:M, tli:M (another tokenizer), ngram, early-exit[:skip=10+13],"
        " early-exit:first=8, medusa:F, eagle:F, eagle3:F, mtp, recycle[:tree=24], or a group:"
        " first, best, vote, mixture or union(D,D), tree(D)",
    )
    group.add_argument("--ctx", type=int, default=0, metavar="N", help="context length in tokens")
    group.add_argument("--threads", type=int, default=0, metavar="N", help="0: physical cores")
    group.add_argument("--gpu-layers", type=int, default=-1, metavar="N", help="-1: all")
    group.add_argument("--numerics", choices=("fast", "strict"), default="fast")


def load_request(arguments: argparse.Namespace) -> LoadRequest:
    return LoadRequest(
        target=arguments.target,
        drafter=arguments.drafter,
        context_length=arguments.ctx,
        threads=arguments.threads,
        gpu_layers=arguments.gpu_layers,
        numerics=arguments.numerics,
    )


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    defaults = SamplingParams()
    group = parser.add_argument_group("sampling")
    group.add_argument("--temperature", type=float, default=0.0, metavar="T", help="0: greedy")
    group.add_argument("--top-k", type=int, default=0, metavar="K", help="0: off")
    group.add_argument("--top-p", type=float, default=1.0, metavar="P", help="1: off")
    group.add_argument("--min-p", type=float, default=0.0, metavar="P", help="0: off")
    group.add_argument("--repeat-penalty", type=float, default=1.0, metavar="X", help="1: off")
    group.add_argument("--frequency-penalty", type=float, default=0.0, metavar="X")
    group.add_argument("--presence-penalty", type=float, default=0.0, metavar="X")
    group.add_argument("--penalty-last-n", type=int, default=defaults.penalty_last_n, metavar="N")
    group.add_argument("--seed", type=int, default=None, metavar="S", help="default: random")


def sampling_params(arguments: argparse.Namespace) -> SamplingParams:
    return SamplingParams(
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        min_p=arguments.min_p,
        repeat_penalty=arguments.repeat_penalty,
        frequency_penalty=arguments.frequency_penalty,
        presence_penalty=arguments.presence_penalty,
        penalty_last_n=arguments.penalty_last_n,
        seed=arguments.seed,
    )


def add_draft_options(parser: argparse.ArgumentParser) -> None:
    defaults = DraftParams()
    group = parser.add_argument_group("drafting")
    group.add_argument("--speculate", choices=("off", "always", "auto"), default="auto")
    group.add_argument(
        "--draft-max", type=int, default=defaults.draft_max, metavar="K", help="tokens a round"
    )
    group.add_argument("--draft-mode", choices=("sampled", "argmax"), default="sampled")
    group.add_argument("--coupling", choices=("best", "seed"), default="best")


def draft_params(arguments: argparse.Namespace) -> DraftParams:
    return DraftParams(
        speculate=arguments.speculate,
        draft_max=arguments.draft_max,
        mode=arguments.draft_mode,
        coupling=arguments.coupling,
    )


def existing_file(path: str) -> Path:
    """argparse type: a file that is there."""
    file = Path(path)
    if not file.is_file():
        raise argparse.ArgumentTypeError(f"{path} does not exist")
    return file
