"""A bench as one HTML file: what was measured, the figures, four plots, how it was done."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from engine.bench.figures import BenchReport, ModeFigures
from engine.bench.samples import PLAIN
from engine.bench.svg import COLOURS, Bar, Group, Line, grouped_bars, lines, stacked_bars

_STYLE = """
:root { color-scheme: light dark; --ink: #1a1d24; --soft: #5a6070; --paper: #fff; --line: #dfe2e8;
  --c0: #4f46e5; --c1: #0f7b45; --c2: #c9760a; --c3: #c02b2b; --c4: #0b7285; --c5: #7a3fc2;
  --c6: #b02a63; --c7: #6b7280; }
@media (prefers-color-scheme: dark) { :root { --ink: #e8eaf0; --soft: #a9b0c0; --paper: #14161b;
  --line: #323743; --c0: #8d86ff; --c1: #63d79a; --c2: #f2b755; --c3: #ff8d8d; --c4: #6fd6e6;
  --c5: #c79cff; --c6: #ff9cc4; --c7: #9aa2b1; } }
body { max-width: 960px; margin: 2rem auto; padding: 0 1rem; color: var(--ink);
  background: var(--paper); font: 15px/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; } h2 { margin-top: 2rem; font-size: 1.1rem; }
p.soft, dt, caption { color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; } dd { margin: 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: 3px 10px; border-bottom: 1px solid var(--line); text-align: right;
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
svg { width: 100%; font: 11px system-ui, sans-serif; } svg text { fill: var(--ink); }
svg .faint { stroke: var(--line); } svg .reference { stroke: var(--soft); stroke-dasharray: 4 3; }
svg .whisker { stroke: var(--ink); } svg .line { fill: none; stroke-width: 2; }
ul.key { display: flex; flex-wrap: wrap; gap: 4px 18px; padding: 0; list-style: none; }
ul.key i { display: inline-block; width: 12px; height: 12px; margin-right: 6px; }
"""

_METHOD = (
    "Every prompt was answered in every mode, the modes taking turns, by plain decoding before the "
    "others and after them. Each reply prefilled its whole prompt anew; one reply a mode on "
    "another prompt warmed up. No prompt occurs twice, and a drafter that remembers texts is "
    "loaded once for each mode. What was learned of how often a drafter is right carries over, "
    "from earlier loads too, as in a chat. A speed-up is plain decoding's time per token over the "
    "mode's, prefill apart; the mean over prompts is geometric, intervals are its 95 % intervals "
    "(Student's t, of logarithms), never narrower than plain decoding's two replies allow. "
    "No speed-up is more than the tokens a round allow, given what passes of several rows took at "
    "least: what the clock said beyond that is noise, and widens the interval. T(n) are medians "
    "over all rounds of the run. Memory is the resident size of the mode's process, weights that "
    "are mapped from the file included."
)


def html_report(
    report: BenchReport, title: str, facts: Sequence[tuple[str, str]], notes: Sequence[str] = ()
) -> str:
    """facts: name and value pairs on what was run. notes: sentences that stand at the top."""
    listed = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    said = "".join(f"<p>{escape(note)}</p>" for note in notes)
    body = "".join(f"<h2>{escape(name)}</h2>{content}" for name, content in _sections(report))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{_STYLE}{_colour_rules()}</style></head><body>"
        f"<h1>{escape(title)}</h1>{said}<dl>{listed}</dl>{body}"
        f'<h2>How it was measured</h2><p class="soft">{_METHOD}</p></body></html>\n'
    )


def peer_sentence(report: BenchReport) -> str:
    """ "" without another program."""
    peer = report.peer
    if peer is None:
        return ""
    ratio = f"{peer.ratio.mean:.2f}x ({peer.ratio.low:.2f} to {peer.ratio.high:.2f})"
    return f"{peer.ours} is {ratio} as fast as {peer.theirs}, the other program's best setting."


def oracle_sentences(report: BenchReport) -> list[str]:
    """One for each mode that was compared with the best schedule for its texts."""
    return [
        f"{one.mode} reached {one.oracle_share:.0%} of the speed of the best schedule, which knows "
        f"in advance what is kept ({one.oracle_speedup:.2f}x). Of its time, {lost.rejected:.0%} "
        f"went to checking tokens that were rejected, {lost.vain:.0%} to draft steps in vain, "
        f"{lost.short:.0%} was lost by drafting too little."
        for one in report.overall
        if (lost := one.oracle_losses) is not None
    ]


def plain_sentences(report: BenchReport) -> list[str]:
    """How much plain decoding differs from itself, where that was measured."""
    return [
        f"Plain decoding's two replies to a prompt differed by {one.plain_difference:.0%}: "
        "an effect of that size on one prompt says nothing."
        for one in report.overall
        if one.plain_difference is not None
    ]


def prediction_sentences(report: BenchReport) -> list[str]:
    """One for each mode whose speed-up was predicted before it was measured."""
    return [
        f"{one.mode}: {one.predicted_speedup:.2f}x was predicted from what passes cost and short "
        f"replies, {one.speedup:.2f}x was measured "
        f"({one.speedup / one.predicted_speedup - 1.0:+.0%})."
        for one in report.overall
        if one.predicted_speedup is not None
    ]


def _sections(report: BenchReport) -> list[tuple[str, str]]:
    modes = [figures.mode for figures in report.overall]
    drafting = [mode for mode in modes if mode != PLAIN]
    key = _key(drafting, modes)
    sections = [
        ("All prompts", _table(report.overall)),
        ("Speed-up by category", key + _speedup_plot(report, modes)),
    ]
    by_position = _position_plot(report, modes)
    if by_position:
        sections.append(("Acceptance by draft position", key + by_position))
    shares = _share_plot(report)
    if shares:
        names = ("draft", "target", "other")
        sections.append(("Where the time goes", _key(names, names) + shares))
    if report.pass_seconds:
        passes = tuple((float(rows), 1e3 * value) for rows, value in report.pass_seconds.items())
        plot = lines("T(n) in milliseconds", (Line(0, "T(n)", passes),))
        sections.append(("T(n): milliseconds of a target pass over n tokens", plot))
    tables = "".join(f"<h3>{escape(c)}</h3>{_table(m)}" for c, m in report.by_category.items())
    return [*sections, ("By category", tables)]


def _speedup_plot(report: BenchReport, modes: Sequence[str]) -> str:
    rows = {"all": report.overall, **report.by_category}
    groups = [Group(name, _speedup_bars(figures, modes)) for name, figures in rows.items()]
    return grouped_bars("Speed-up over plain decoding", groups, reference=1.0)


def _speedup_bars(figures: Sequence[ModeFigures], modes: Sequence[str]) -> tuple[Bar, ...]:
    return tuple(
        Bar(
            series=modes.index(one.mode),
            value=one.speedup,
            low=one.speedup_low if one.prompts > 1 else None,
            high=one.speedup_high if one.prompts > 1 else None,
            text=f"{one.speedup:.2f}x",
        )
        for one in figures
        if one.mode != PLAIN
    )


def _position_plot(report: BenchReport, modes: Sequence[str]) -> str:
    series = [
        Line(
            modes.index(one.mode),
            one.mode,
            tuple((float(i), rate) for i, rate in enumerate(one.acceptance_by_position, start=1)),
        )
        for one in report.overall
        if one.acceptance_by_position
    ]
    return (
        lines("Accepted over verified, by draft position", series, percent=True) if series else ""
    )


def _share_plot(report: BenchReport) -> str:
    rows = [
        (one.mode, (one.draft_share, one.target_share, 1.0 - one.draft_share - one.target_share))
        for one in report.overall
        if one.draft_share is not None and one.target_share is not None
    ]
    return stacked_bars("Shares of the decode time", rows) if rows else ""


def _table(figures: Sequence[ModeFigures]) -> str:
    names = (
        "mode",
        "tokens/s",
        "prefill/s",
        "speed-up",
        "95 %",
        "accepted",
        "tau",
        "overhead ms",
        "memory",
        "same text",
    )
    head = "".join(f"<th>{name}</th>" for name in names)
    rows = "".join(f"<tr>{_cells(one)}</tr>" for one in figures)
    return f'<div class="wide"><table><tr>{head}</tr>{rows}</table></div>'


def _cells(one: ModeFigures) -> str:
    same = "" if one.same_text is None else f"{one.same_text} of {one.prompts}"
    if one.largest_gap is not None:
        same += f" (gap up to {one.largest_gap:.2f})"
    cells = (
        one.mode,
        f"{one.tokens_per_second:.1f}",
        f"{one.prefill_tokens_per_second:.0f}",
        f"{one.speedup:.2f}x",
        _interval(one),
        "" if one.acceptance_rate is None else f"{one.acceptance_rate:.0%}",
        f"{one.mean_accepted_length:.2f}",
        "" if one.overhead_ms_per_token is None else f"{one.overhead_ms_per_token:.2f}",
        "" if one.memory_bytes is None else f"{one.memory_bytes / 1e9:.2f} GB",
        same,
    )
    return "".join(f"<td>{escape(cell)}</td>" for cell in cells)


def _interval(one: ModeFigures) -> str:
    """Of plain decoding, which is 1 by definition, how much two replies differed."""
    if one.plain_difference is not None:
        return f"two replies: {one.plain_difference:.0%} apart"
    if one.mode == PLAIN or one.prompts == 1:
        return ""
    return f"{one.speedup_low:.2f} to {one.speedup_high:.2f}"


def _key(names: Sequence[str], order: Sequence[str]) -> str:
    items = "".join(
        f'<li><i style="background: var(--c{order.index(name) % COLOURS})"></i>{escape(name)}</li>'
        for name in names
    )
    return f'<ul class="key">{items}</ul>'


def _colour_rules() -> str:
    return "".join(
        f"rect.s{index}, circle.s{index} {{ fill: var(--c{index}); }}"
        f".line.s{index} {{ stroke: var(--c{index}); }}"
        for index in range(COLOURS)
    )
