"""Copies of a model made by llama.cpp: layers left out, or weights in another format."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from pathlib import Path

from llama_cpp import llama_cpp as native

from engine.data.errors import BadOptionError, RunError
from engine.llama.log import NativeLog

# llama_ftype values of the formats that make sense for a drafter or a target.
FORMATS: dict[str, int] = {
    "F16": 1,
    "Q4_0": 2,
    "Q4_1": 3,
    "Q8_0": 7,
    "Q5_0": 8,
    "Q4_K_M": 15,
    "Q5_K_M": 17,
    "Q6_K": 18,
    "IQ4_NL": 25,
    "BF16": 32,
}


def copy_without_layers(
    source: Path, destination: Path, skipped: Sequence[int], log: NativeLog
) -> None:
    """Writes the model without the given layers; the rest is copied as it is.

    A copy like this drafts for the original ("self-speculation by skipping layers",
    Draft & Verify, arXiv 2309.08168).
    """
    params = native.llama_model_quantize_default_params()
    params.only_copy = True
    pruned = (ctypes.c_int32 * (len(skipped) + 1))(*sorted(skipped), -1)
    params.prune_layers = ctypes.cast(pruned, ctypes.POINTER(ctypes.c_int32))
    _run(source, destination, params, log)


def requantize(source: Path, destination: Path, file_format: str, log: NativeLog) -> None:
    """Writes the model in another weight format, every tensor in that same format."""
    if file_format not in FORMATS:
        raise BadOptionError(f"unknown format {file_format}; choose one of {', '.join(FORMATS)}")
    params = native.llama_model_quantize_default_params()
    params.ftype = FORMATS[file_format]
    params.allow_requantize = True
    params.pure = True
    _run(source, destination, params, log)


def _run(source: Path, destination: Path, params: object, log: NativeLog) -> None:
    mark = log.mark()
    code = native.llama_model_quantize(
        os.fsencode(source),
        os.fsencode(destination),
        ctypes.byref(params),  # type: ignore[arg-type]
    )
    if code != 0:
        destination.unlink(missing_ok=True)
        raise RunError(
            f"{source.name} could not be converted: {log.reason(mark) or f'code {code}'}"
        )
