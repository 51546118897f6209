"""Thoughts that other programs leave in the text of a reply, taken out of it."""

from __future__ import annotations

import html

_TAGS = (("<think>", "</think>"), ("<thinking>", "</thinking>"))
_FOLD, _FOLD_END = '<details type="reasoning"', "</details>"
_SUMMARY, _SUMMARY_END = "<summary>", "</summary>"


def split_thoughts(content: str) -> tuple[str, str]:
    """(thoughts, answer). Only what stands at the beginning counts: the rest may speak of tags."""
    text = content.lstrip()
    for opening, closing in _TAGS:
        if text.startswith(opening):
            thoughts, found, answer = text[len(opening) :].partition(closing)
            return (thoughts.strip(), answer.lstrip()) if found else ("", content)
    if text.startswith(_FOLD):
        folded, found, answer = text.partition(_FOLD_END)
        return (_unfolded(folded), answer.lstrip()) if found else ("", content)
    return "", content


def _unfolded(folded: str) -> str:
    """The lines of a fold, which are quoted and written as HTML text."""
    inside = folded.partition(">")[2].strip()
    if inside.startswith(_SUMMARY):
        inside = inside.partition(_SUMMARY_END)[2].strip()
    lines = (line.removeprefix(">").removeprefix(" ") for line in inside.split("\n"))
    return html.unescape("\n".join(lines)).strip()
