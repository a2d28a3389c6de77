"""Measures when the app answers, and when first paint and message box appear, in a Chromium without a cache."""

import argparse
import tempfile
from statistics import median
from time import perf_counter
from typing import Any

from tests.support.soak_parts import running_chromium
from tools.start_time import started

READ = """() => new Promise(done => {
    const find = () => performance.getEntriesByName('first-contentful-paint')[0];
    const check = () => find() ? done({
        paint: find().startTime,
        answer: performance.getEntriesByType('navigation')[0].responseEnd,
        bytes: performance.getEntriesByType('resource').reduce((sum, one) => sum + one.transferSize, 0),
        files: performance.getEntriesByType('resource').length,
    }) : setTimeout(check, 20);
    check();
})"""


def first_paint(browser: Any, url: str) -> dict[str, float]:
    """Return the milliseconds to answer, first contentful paint and message box, and the files and their bytes."""
    page = browser.new_context(viewport={"width": 1366, "height": 768}).new_page()
    began = perf_counter()
    page.goto(url, wait_until="commit")
    page.wait_for_selector("#message textarea")
    built = (perf_counter() - began) * 1000
    found: dict[str, float] = page.evaluate(READ)
    page.context.close()
    return {**found, "built": built}


def measure(url: str, times: int) -> list[dict[str, float]]:
    """Visit the page, each time in a fresh context, after one visit that warms the browser up."""
    with running_chromium() as browser:
        first_paint(browser, url)
        return [first_paint(browser, url) for _ in range(times)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--visits", type=int, default=5)
    visits = parser.parse_args().visits
    with tempfile.TemporaryDirectory() as data_dir, started(data_dir) as url:
        found = measure(url, visits)
    for name in ("answer", "paint", "built", "files", "bytes"):
        values = [visit[name] for visit in found]
        print(f"{name:8} median {median(values):9,.0f}   {' '.join(f'{value:,.0f}' for value in values)}")


if __name__ == "__main__":
    main()
