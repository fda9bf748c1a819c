"""How long the page of a lesson needs for its first stepper and for a step: ``python -m bench.page SITE [SITE ...]``.

Each site is a folder that ``python -m website`` has written, of this version or of an earlier one (in a git worktree).
They are opened in turn in a headless Chromium, five times each. Printed are the medians in ms: from the request of
page 00 to the stepper's caption, and from a key to the frame in which the caption has changed, over twenty steps.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from statistics import median

from website.execution import SiteError
from website.picture import driven

ROUNDS, STEPS = 5, 20
_MEASURE = """
const seen = Object.fromEntries(told.pages.map((page) => [page, { first: [], step: [] }]));
for (let round = 0; round < told.rounds; round += 1) for (const name of told.pages) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce" });
  const page = await context.newPage(), start = performance.now();
  await page.goto(`file://${name}`);
  const stepper = page.locator("section.stepper:not(.still), .ssl-stepper").first();
  await page.evaluate(() => document.querySelector(".ssl-mount[data-key], .nb-stepper").scrollIntoView());
  await stepper.locator(".caption").waitFor();
  seen[name].first.push(performance.now() - start);
  await stepper.focus();
  await page.keyboard.press("Home");
  await page.waitForTimeout(200);
  seen[name].step.push(...await stepper.evaluate(async (root, steps) => {
    const times = [], where = root.querySelector(".where");
    for (let n = 0; n < steps; n += 1) {
      const before = where.textContent, from = performance.now();
      root.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true }));
      const over = () => where.textContent !== before || performance.now() - from > 3000;
      await new Promise((done) => { const look = () => (over() ? done() : requestAnimationFrame(look)); look(); });
      times.push(performance.now() - from);
    }
    return times;
  }, told.steps));
  await context.close();
}
console.log(JSON.stringify(seen));
"""


def main(sites: list[str]) -> int:
    """Measure the sites in turn, print a line for each, and return the exit status."""
    pages = [next(iter(sorted(Path(site, "notebooks").absolute().glob("00-*.html"))), None) for site in sites]
    if not sites or None in pages:
        print(__doc__ if not sites else "a site has no page 00; run make site first", file=sys.stderr)
        return 2
    try:
        seen = json.loads(driven(_MEASURE, pages=[str(page) for page in pages], rounds=ROUNDS, steps=STEPS))
    except (SiteError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    for site, times in zip(sites, seen.values(), strict=True):
        print(f"{site}: first stepper after {median(times['first']):.0f} ms, a step {median(times['step']):.1f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
