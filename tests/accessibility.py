"""axe-core over a page. Its script is evaluated, since the page's policy lets in no script of others."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

GRAVE = ("moderate", "serious", "critical")
RUN = """rules => axe.run(document, rules).then(found => found.violations.map(one => ({
    id: one.id, impact: one.impact, help: one.help,
    nodes: one.nodes.map(node =>
        `${node.target.join(' ')}: ${node.any.concat(node.all, node.none)[0]?.message ?? ''}`),
})))"""
ANIMATIONS_ARE_OVER = """() => {
    const running = document.getAnimations().filter(one =>
        one.playState === 'running' && one.effect.getComputedTiming().endTime < Infinity);
    running.forEach(one => one.finish());
    return running.length === 0;
}"""
"""Without it axe looks at colours on their way: from light to dark, or of a toast that fades in."""
RULES: dict[str, Any] = {"resultTypes": ["violations"]}
OF_COLOURS = {**RULES, "runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
"""The rules that depend on colours, which are all that differs by night."""


def grave_findings(page: Any, rules: dict[str, Any] = RULES) -> list[str]:
    """What axe-core calls more than minor, a line each: the rule, the element, what is wrong with it."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(axe_script())
    page.wait_for_function(ANIMATIONS_ARE_OVER)
    found = page.evaluate(RUN, rules)
    return [f"{one['id']} {node}" for one in found if one["impact"] in GRAVE for node in one["nodes"]]


def grave_by_day_and_by_night(page: Any) -> list[str]:
    """The same for a page as it is drawn light and dark."""
    found = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.wait_for_function(
            "isDark => document.body.classList.contains('dark') === isDark", arg=scheme == "dark"
        )
        rules = OF_COLOURS if scheme == "dark" else RULES
        found += [f"{scheme}: {one}" for one in grave_findings(page, rules)]
    return found


@cache
def axe_script() -> str:
    """axe-core as it ships in a package of its own; skips where that is not installed."""
    package = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
    return (Path(package.__file__).parent / "axe.min.js").read_text(encoding="utf-8")
