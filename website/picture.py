"""Draws the stepper's pictures in README.md with a headless Chromium: ``python -m website.picture``.

docs/stepper-light.png and docs/stepper-dark.png show MAX receiving a visit under full state, in both themes.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sharedstate_lite.show.page import SCRIPT, STEPPER_STYLE
from sharedstate_lite.show.palette import style
from sharedstate_lite.show.stepper.__main__ import example, mounted

from .execution import ROOT
from .npm import node, packages

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
STEP, WIDE = 3, 1180
"""The step of the last message that is shown, and the width in px."""
_DRAW = """
const [page, wide, chromium, driver, folder] = JSON.parse(process.argv[1]);
(async () => {
  const browser = await require(driver).chromium.launch({ executablePath: chromium, args: ["--no-sandbox"] });
  for (const theme of ["light", "dark"]) {
    const viewport = { width: wide, height: 900 }, look = { colorScheme: theme, reducedMotion: "reduce" };
    const context = await browser.newContext({ viewport, ...look, deviceScaleFactor: 2 });
    const made = await context.newPage();
    await made.goto(`file://${page}`);
    await made.locator(".chips .chip").first().waitFor();
    await made.locator(".stepper").screenshot({ path: `${folder}/stepper-${theme}.png` });
  }
  await browser.close();
})();
"""


def chromium() -> str | None:
    """Return the path of a Chromium, or None if this machine has none. CHROMIUM names another one."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)


def main(folder: Path = ROOT / "docs") -> int:
    """Write both pictures, and return the exit status."""
    browser, program = chromium(), node()
    if browser is None or program is None:
        print("pictures need Node.js and Chromium: tests/browser/README.md says what to install", file=sys.stderr)
        return 1
    made = example("full")
    made.step += STEP - 1
    sheet = f"<style>:root{{color-scheme:light dark}}body{{margin:0}}{style()}{STEPPER_STYLE}</style>"
    text = f'<!doctype html><meta charset="utf-8">{sheet}{mounted(made)}<script>{SCRIPT}</script>'
    with tempfile.TemporaryDirectory(prefix="picture") as place:
        page = Path(place, "page.html")
        page.write_text(text, encoding="utf-8")
        told = json.dumps([str(page), WIDE, browser, str(packages() / "playwright-core"), str(folder)])
        return subprocess.run([program, "-e", _DRAW, told]).returncode


if __name__ == "__main__":
    sys.exit(main())
