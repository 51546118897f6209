"""Where a lookup read the tokens of a reply: `details.copied`, runs of [first, count, text, place].

first: the number of a wire token; count - 1 more follow it, each copied from the place after the
one before. text: None for the chat itself, where place counts the tokens of the prompt and then
those of the reply; else the number of an earlier text. Replies stored without it tell nothing.
"""

from __future__ import annotations

from engine.data.rounds import RoundTrace

CopiedRun = tuple[int, int, int | None, int]


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
                runs[-1] = first, count + 1, text, place
                continue
        runs.append((number, 1, source.text, source.place))
    return runs
