"""Where a lookup read the tokens of a reply: `details.copied`, runs of [first, count, text, place].

first: the number of a wire token; count - 1 more follow it, each copied from the place after the
one before. text: None for the chat itself, where place counts the tokens of the prompt and then
those of the reply; else the number of an earlier text. Replies stored without it tell nothing.
"""

from __future__ import annotations

from typing import Any

from engine.data.rounds import RoundTrace

CopiedRun = list[Any]


def moved(runs: list[Any], before: int, after: int) -> None:
    """What was read in the reply itself, whose prompt now has another length."""
    for run in runs:
        if run[2] is None and run[3] >= before:
            run[3] += after - before


def copied_runs(trace: RoundTrace, at: int) -> list[CopiedRun]:
    """Of the accepted tokens of a round. at: the number of its first token in the reply."""
    runs: list[CopiedRun] = []
    for number, emitted in enumerate(trace.emitted, at):
        source = emitted.source
        if source is None:
            continue
        if runs:
            first, count, text, place = runs[-1]
            if (first + count, text, place + count) == (number, source.text, source.place):
                runs[-1] = [first, count + 1, text, place]
                continue
        runs.append([number, 1, source.text, source.place])
    return runs
