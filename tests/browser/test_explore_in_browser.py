"""explore.html in a real browser: wide and narrow, light and dark; screenshots are in SHOTS, to look at.

    SHOTS=/some/folder python -m pytest tests/browser/test_explore_in_browser.py -m slow

Slow, and only where Node.js, npm and a Chromium are installed; see README.md in this folder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from grader.report.explored import as_html
from sharedstate_lite.system.cache import cache_dir
from website.picture import driven

ROOT = Path(__file__).resolve().parents[2]
REPORTS = sorted((ROOT / "tests" / "grader" / "explore" / "stored").glob("*.json"))
LOOK = """
const seen = [];
for (const [theme, width] of told.looks) {
  const look = { viewport: { width, height: 900 }, colorScheme: theme };
  const page = await (await browser.newContext(look)).newPage();
  const asked = [];
  page.on("request", (request) => request.url().startsWith("file:") || asked.push(request.url()));
  await page.goto(`file://${told.page}`);
  const found = await page.evaluate(() => {
    const lines = (selector) => [...document.querySelectorAll(selector)].filter((each) => each.getClientRects().length);
    const box = (each) => each.getBoundingClientRect();
    const out = [];
    for (const row of lines(".run tr")) {
      const texts = [...row.querySelectorAll(".draw text, .say")].map((each) => [each, box(each)]);
      const apart = (a, b) => a.left >= b.right - 1 || a.top >= b.bottom - 2;
      for (const [one, a] of texts) for (const [other, b] of texts)
        if (one !== other && !apart(a, b) && !apart(b, a))
          out.push(`${one.textContent} | ${other.textContent}`);
      for (const text of row.querySelectorAll(".draw text"))
        if (box(text).left < box(row).left - 1 || box(text).right > box(row).right + 1) out.push(text.textContent);
    }
    const small = lines("main *").filter((each) => parseFloat(getComputedStyle(each).fontSize) < 12);
    return { wide: document.documentElement.scrollWidth, out, small: small.map((each) => each.textContent) };
  });
  await page.screenshot({ path: `${told.folder}/${told.name}-${theme}-${width}.png`, fullPage: true });
  seen.push({ width, asked, ...found });
}
console.log(JSON.stringify(seen));
"""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("path", REPORTS, ids=lambda path: path.stem)
def test_a_report_in_the_browser(path: Path, tools: dict[str, str], tmp_path: Path) -> None:
    """The page is as wide as the window, its texts do not lie on each other, and it asks nothing of a network."""
    shots = Path(os.environ.get("SHOTS") or cache_dir("browser", "shots"))
    shots.mkdir(parents=True, exist_ok=True)
    page = tmp_path / "explore.html"
    page.write_text(as_html(json.loads(path.read_text("utf-8"))), encoding="utf-8")
    looks = [(theme, width) for theme in ("light", "dark") for width in (400, 1280)]
    said = driven(LOOK, looks=looks, page=str(page), folder=str(shots), name=f"explore-{path.stem}")
    for seen in json.loads(said):
        assert (seen["wide"], seen["out"], seen["small"], seen["asked"]) == (seen["width"], [], [], []), seen
