"""Options that several commands share, and the request values made of them."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import get_args

from engine.data.documents import is_sound
from engine.data.request import (
    USUAL_NUMERICS,
    Coupling,
    DraftMode,
    DraftParams,
    LoadRequest,
    Numerics,
    SamplingParams,
    Speculate,
)


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
    defaults = LoadRequest(target="")
    _add_number(group, "--ctx", defaults.context_length, "N", "context length in tokens")
    _add_number(group, "--threads", defaults.threads, "N", "0: physical cores")
    _add_number(group, "--gpu-layers", defaults.gpu_layers, "N", "-1: all")
    add_numerics_option(group)


def add_numerics_option(group: argparse._ActionsContainer) -> None:
    group.add_argument(
        "--numerics",
        choices=get_args(Numerics),
        default=USUAL_NUMERICS,
        help="strict: the same text with and without drafting, byte for byte; auto: strict where"
        " that costs under 5 %% here (default); fast: no such limit",
    )


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
    _add_number(group, "--temperature", defaults.temperature, "T", "0: greedy")
    _add_number(group, "--top-k", defaults.top_k, "K", "0: off")
    _add_number(group, "--top-p", defaults.top_p, "P", "1: off")
    _add_number(group, "--min-p", defaults.min_p, "P", "0: off")
    _add_number(group, "--repeat-penalty", defaults.repeat_penalty, "X", "1: off")
    _add_number(group, "--frequency-penalty", defaults.frequency_penalty, "X")
    _add_number(group, "--presence-penalty", defaults.presence_penalty, "X")
    _add_number(group, "--penalty-last-n", defaults.penalty_last_n, "N")
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
    group.add_argument("--speculate", choices=get_args(Speculate), default=defaults.speculate)
    group.add_argument(
        "--draft-max", type=int, metavar="K", help="tokens a round (auto: up to 16, always: 8)"
    )
    group.add_argument("--draft-mode", choices=get_args(DraftMode), default=defaults.mode)
    group.add_argument("--coupling", choices=get_args(Coupling), default=defaults.coupling)


def draft_params(arguments: argparse.Namespace) -> DraftParams:
    return DraftParams(
        speculate=arguments.speculate,
        draft_max=arguments.draft_max,
        mode=arguments.draft_mode,
        coupling=arguments.coupling,
    )


def _add_number(
    group: argparse._ArgumentGroup, flag: str, default: float, metavar: str, text: str | None = None
) -> None:
    """An option of the default's type."""
    group.add_argument(flag, type=type(default), default=default, metavar=metavar, help=text)


def written_text(text: str) -> str:
    """argparse type: text, which bytes of a command line need not be."""
    if not is_sound(text):
        raise argparse.ArgumentTypeError("this is not UTF-8 text; put it into a file")
    return text


def existing_file(path: str) -> Path:
    """argparse type: a file that is there."""
    file = Path(path)
    if not os.path.isfile(file):
        raise argparse.ArgumentTypeError(f"{path} does not exist")
    return file
