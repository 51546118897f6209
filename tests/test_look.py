"""The page's look is one: colours in one file, which can be read, and measures of one scale."""

from __future__ import annotations

import re

import pytest

from app.page import ASSETS

BASE = (ASSETS / "css" / "base.css").read_text(encoding="utf-8")
LETTERS = (
    "ink", "ink-soft", "ink-faint", "accent", "green", "amber", "blue", "red", "violet", "cyan",
    "rose",
)  # fmt: skip
READABLE = 4.5
"""The contrast that WCAG asks of small letters (success criterion 1.4.3)."""


def colours(selector: str) -> dict[str, str]:
    block = BASE.split(f"{selector} {{", 1)[1].split("}", 1)[0]
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))


LIGHT = colours(":root")
DARK = LIGHT | colours(':root[data-theme="dark"]')


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_letters_can_be_read_on_every_background(theme: dict[str, str]) -> None:
    grounds = [name for name in theme if re.fullmatch(r"paper.*|(?!ink).*-soft", name)]
    assert len(grounds) == 11
    pairs = [(letters, ground) for letters in LETTERS for ground in grounds]
    pairs.append(("accent-ink", "accent"))
    faint = {
        pair: round(found, 2)
        for pair in pairs
        if (found := contrast(theme[pair[0]], theme[pair[1]])) < READABLE
    }
    assert faint == {}


def test_colours_stand_in_one_file() -> None:
    """Elsewhere they have names: each has then another value in the dark."""
    written = re.compile(r":[^;{]*(#[0-9a-f]{3,8}\b|\b(?:rgb|hsl|oklch)a?\()", re.IGNORECASE)
    found = [
        f"{sheet.name}: {line.strip()}"
        for sheet in sorted((ASSETS / "css").glob("*.css"))
        if sheet.name != "base.css"
        for line in sheet.read_text(encoding="utf-8").splitlines()
        if written.search(line) and not line.rstrip().endswith(("{", ","))
    ]
    assert found == []


SPACES = {0, 1, 2, 4, 6, 8, 10, 12, 14, 16, 20, 24, 44}
SIZES = {12, 13, 14, 15, 16, 22, 26}
RADII = {2, 4, 6, 8, 10, 12, 16}
MEASURES = (
    (r"(?:row-|column-)?gap|(?:padding|margin)(?:-[a-z]+)*", SPACES),
    (r"font|font-size", SIZES),
    (r"border(?:-[a-z]+)*-radius", RADII),
)
"""Properties, and the numbers of pixels they may have; base.css says why."""


def test_measures_are_of_one_scale() -> None:
    odd = []
    for sheet in sorted((ASSETS / "css").glob("*.css")):
        for name, value in re.findall(r"\n\s+([a-z-]+):\s([^;{}]*);", sheet.read_text("utf-8")):
            for names, allowed in MEASURES:
                pixels = re.findall(r"(?<![\w.])([\d.]+)px", value)
                if re.fullmatch(names, name) and not {float(one) for one in pixels} <= allowed:
                    odd.append(f"{sheet.name}: {name}: {value}")
    assert odd == []
