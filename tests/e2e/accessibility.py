"""What axe-core finds on the page: WCAG 2.2, levels A and AA, and its best practices."""

from __future__ import annotations

import json
from typing import Any

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")

RUN = """tags => axe.run(document, {
  runOnly: { type: 'tag', values: tags }, resultTypes: ['violations'],
})"""

# Colours are those at rest: nothing is half way through a transition.
SETTLED = """async () => {
  await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const moving = document.getAnimations().filter((one) => one.effect.getTiming().iterations < 9);
  await Promise.all(moving.map((one) => one.finished.catch(() => {})));
}"""


def findings(page: Page) -> list[str]:
    """One line for each element at fault: the rule, the element, what is wrong."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    page.evaluate(SETTLED)
    result: dict[str, Any] = page.evaluate(RUN, list(RULES))
    return [_line(rule, node) for rule in result["violations"] for node in rule["nodes"]]


def _line(rule: dict[str, Any], node: dict[str, Any]) -> str:
    reasons = [check["message"] for kind in ("any", "all", "none") for check in node[kind]]
    place = json.dumps(node["target"])
    return f"{rule['id']} {place}: {reasons[0] if reasons else rule['help']}"
