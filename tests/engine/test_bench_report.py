"""What a bench says: the recommendation, the report, the files and going on with them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as Xml
from collections.abc import Mapping
from pathlib import Path

import pytest

from engine.bench.figures import BenchReport, summarise
from engine.bench.recommend import Candidate, recommend
from engine.bench.report import html_report, peer_sentence
from engine.bench.samples import BenchSample
from engine.bench.svg import Line, lines
from engine.cli.bench_output import BenchFiles, Conditions, report_lines
from engine.data.errors import BadOptionError
from engine.data.stats import Stats

Speeds = Mapping[str, tuple[float, ...]]
NAMES = ("model:small auto", "early-exit auto")
CANDIDATES = (
    Candidate("model:small auto", "small as Q4_0, auto", "small"),
    Candidate("early-exit auto", "Early exit, auto", "early-exit"),
)


def sample(mode: str, prompt: str, category: str, speedup: float, told: bool = True) -> BenchSample:
    seconds = 10.0 / speedup
    stats = Stats(
        emitted=10,
        rounds=5,
        proposed=8,
        accepted=5,
        proposed_by_position=(5, 3),
        accepted_by_position=(4, 1),
        prefill_seconds=0.5,
        decode_seconds=seconds,
        target_seconds=0.7 * seconds if told else 0.0,
        draft_seconds=0.2 * seconds if told else 0.0,
        overhead_seconds=0.1 * seconds if told else 0.0,
    )
    peer = mode.startswith("llama-server")
    return BenchSample(
        mode, prompt, category, stats, 7, 1.0, passes=((1, 0.1), (4, 0.2)), is_peer=peer
    )


def bench(speedups: Mapping[str, Speeds]) -> BenchReport:
    """By mode and category, one speed-up for each prompt."""
    return summarise(
        [
            sample(mode, f"{category} {index}", category, speedup, not mode.startswith("llama"))
            for mode, categories in speedups.items()
            for category, values in categories.items()
            for index, speedup in enumerate(values)
        ]
    )


PLAIN: Speeds = {"code": (1.0, 1.0), "prose": (1.0, 1.0)}
GOOD: Speeds = {"code": (1.9, 1.9), "prose": (1.4, 1.4)}
BAD: Speeds = {"code": (0.8, 0.82), "prose": (0.7, 0.75)}


def test_the_fastest_is_recommended_and_what_hurts_is_named() -> None:
    advice = recommend(bench({"plain": PLAIN, NAMES[0]: GOOD, NAMES[1]: BAD}), CANDIDATES)
    assert advice.sentence == (
        "small as Q4_0, auto: 1.90x on code, 1.40x on prose (95 %: 1.23 to 2.00x, 4 prompts); "
        "do not use early-exit."
    )
    assert (advice.mode, advice.avoid) == (NAMES[0], (NAMES[1],))


def test_nothing_is_recommended_where_nothing_pays() -> None:
    even: Speeds = {"code": (1.0, 1.02), "prose": (1.01, 0.99)}
    advice = recommend(bench({"plain": PLAIN, NAMES[0]: even, NAMES[1]: BAD}), CANDIDATES)
    assert advice.sentence.startswith("Plain decoding, no drafter")
    assert "small as Q4_0, auto at 1.00x" in advice.sentence or "at 1.01x" in advice.sentence
    assert (advice.mode, advice.avoid) == (None, (NAMES[1],))


def test_doubt_is_said() -> None:
    unsure: Speeds = {"code": (2.0, 0.7), "prose": (1.6, 0.8)}
    advice = recommend(bench({"plain": PLAIN, NAMES[0]: unsure}), CANDIDATES[:1])
    assert advice.sentence == (
        "Not settled: small as Q4_0, auto measured 1.16x, but 4 prompts leave 0.51 to 2.00x: the "
        "noise is as large as the effect; about 100 prompts would settle it."
    )
    assert (advice.mode, advice.settled) == (None, False)


def test_what_is_known_to_pay_is_chosen_before_what_may_be_faster() -> None:
    sure: Speeds = {"code": (1.3, 1.31), "prose": (1.28, 1.3)}
    unsure: Speeds = {"code": (2.0, 1.9), "prose": (1.9, 0.8)}
    advice = recommend(bench({"plain": PLAIN, NAMES[0]: unsure, NAMES[1]: sure}), CANDIDATES)
    assert (advice.mode, advice.settled) == (NAMES[1], True)
    assert advice.sentence.startswith("Early exit, auto: 1.30x on code")
    assert "small as Q4_0, auto measured 1.55x, but" in advice.sentence


def test_one_prompt_settles_nothing() -> None:
    advice = recommend(bench({"plain": {"a": (1.0,)}, NAMES[0]: {"a": (1.5,)}}), CANDIDATES[:1])
    assert advice.sentence == (
        "Not settled: small as Q4_0, auto was 1.50x as fast on one prompt, which settles nothing."
    )
    assert advice.mode is None and not advice.settled


def test_of_many_categories_the_extremes_are_named() -> None:
    many: Speeds = {
        name: (speed, speed) for name, speed in zip("abcde", (1.5, 1.1, 2.0, 1.3, 1.7), strict=True)
    }
    plain: Speeds = {name: (1.0, 1.0) for name in many}
    advice = recommend(bench({"plain": plain, NAMES[0]: many}), CANDIDATES[:1])
    assert "2.00x on c, 1.70x on e, 1.10x on b" in advice.sentence
    two = recommend(bench({"plain": {"a": (1, 1)}, NAMES[0]: {"a": (1.5, 1.5)}}), CANDIDATES[:1])
    assert two.sentence == "small as Q4_0, auto: 1.50x (95 %: 1.50 to 1.50x, 2 prompts)."
    single: Speeds = {name: (speed,) for name, speed in zip("abc", (1.5, 1.4, 1.6), strict=True)}
    plain = {name: (1.0,) for name in single}
    advice = recommend(bench({"plain": plain, NAMES[0]: single}), CANDIDATES[:1])
    assert advice.sentence.startswith("small as Q4_0, auto: 1.50x (95 %: "), (
        "one prompt says little of its category"
    )


def test_without_candidates_there_is_nothing_to_say() -> None:
    assert recommend(bench({"plain": PLAIN}), ()).mode is None


def test_the_report_holds_well_formed_plots_and_escapes_what_it_is_told() -> None:
    peer: Speeds = {"code": (1.2, 1.2), "prose": (1.1, 1.1)}
    report = bench({"plain": PLAIN, NAMES[0]: GOOD, "llama-server draft 3": peer})
    html = html_report(report, "<Bench>", [("target", "a & b")], [peer_sentence(report)])
    plots = re.findall(r"<svg.*?</svg>", html, flags=re.DOTALL)
    assert len(plots) == 4
    for plot in plots:
        Xml.fromstring(plot)
    assert "&lt;Bench&gt;" in html
    assert "a &amp; b" in html
    assert "<script" not in html
    assert "model:small auto is 1.4" in html
    widths = [float(width) for width in re.findall(r'<rect[^>]* width="([\d.]+)"', plots[0])]
    assert max(widths) == widths[2], "the longest bar is the speed-up on code"


def test_plots_of_one_point_and_of_zeros_are_drawn() -> None:
    Xml.fromstring(lines("one", (Line(0, "T(n)", ((1.0, 0.0),)),)))


def conditions(prompts: int = 4, max_tokens: int = 128) -> Conditions:
    sampling: dict[str, object] = {"temperature": 0.0}
    return Conditions(
        "starter", NAMES, (), None, (), max_tokens, 4096, 2, -1, sampling, "A CPU, 2 cores", prompts
    )


def test_a_run_goes_on_with_its_file(tmp_path: Path) -> None:
    report = bench({"plain": PLAIN, NAMES[0]: GOOD})
    files = BenchFiles(tmp_path / "out.json", tmp_path / "out.html", conditions())
    assert files.read() == []
    files.write(report)
    assert files.read() == list(report.samples)
    assert '"complete": true' in (tmp_path / "out.json").read_text()
    assert "Incomplete" not in (tmp_path / "out.html").read_text()
    more = BenchFiles(tmp_path / "out.json", tmp_path / "out.html", conditions(prompts=6))
    assert len(more.read()) == 8
    more.write(report)
    assert '"complete": false' in (tmp_path / "out.json").read_text()
    assert "Incomplete: 4 of 6 prompts." in (tmp_path / "out.html").read_text()


def test_a_file_of_other_conditions_or_of_something_else_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    BenchFiles(file, None, conditions()).write(bench({"plain": PLAIN}))
    with pytest.raises(BadOptionError, match="another max_tokens"):
        BenchFiles(file, None, conditions(max_tokens=64)).read()
    file.write_text("{}")
    with pytest.raises(BadOptionError, match="not a bench's file"):
        BenchFiles(file, None, conditions()).read()
    with pytest.raises(BadOptionError, match="needs --json"):
        BenchFiles(None, None, conditions()).read()


def test_the_table_names_every_mode_and_ends_in_advice() -> None:
    text = report_lines(bench({"plain": PLAIN, NAMES[0]: GOOD}))
    assert sum(NAMES[0] in line for line in text) == 4
    assert "T(n) in ms, medians of all rounds: 1: 100  4: 200" in text
    assert (
        text[-1] == f"{NAMES[0]}: 1.90x on code, 1.40x on prose (95 %: 1.23 to 2.00x, 4 prompts)."
    )
