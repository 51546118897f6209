"""How many threads the passes of an open context take."""

from __future__ import annotations

from llama_cpp import llama_cpp as native


def use_threads(context: int, threads: int) -> None:
    """From the next pass on, whether it is over one token or many. context: its handle."""
    native.llama_set_n_threads(context, threads, threads)
