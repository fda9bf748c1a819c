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
from typing import Any

from sharedstate_lite.show.page import SCRIPT, STEPPER_STYLE
from sharedstate_lite.show.palette import style
from sharedstate_lite.show.stepper.__main__ import example, mounted

from .execution import ROOT, SiteError
from .npm import node, packages

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
STEP, WIDE = 3, 1180
"""The step of the last message that is shown, and the width in px."""
_DRAW = """
for (const theme of ["light", "dark"]) {
  const look = { viewport: { width: told.wide, height: 900 }, colorScheme: theme, reducedMotion: "reduce" };
  const page = await (await browser.newContext({ ...look, deviceScaleFactor: 2 })).newPage();
  await page.goto(`file://${told.page}`);
  await page.locator(".chips .chip").first().waitFor();
  await page.locator(".stepper").screenshot({ path: `${told.folder}/stepper-${theme}.png` });
}
"""
_AROUND = """
const [told, chromium, driver] = JSON.parse(process.argv[1]);
(async () => {
  const browser = await require(driver).chromium.launch({ executablePath: chromium, args: ["--no-sandbox"] });
  try { %s } finally { await browser.close(); }
})().catch((error) => { console.error(error.message); process.exit(1); });
"""


def chromium() -> str | None:
    """Return the path of a Chromium, or None if this machine has none. CHROMIUM names another one."""
    return os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, CHROMIUMS)), None)


def driven(script: str, **told: Any) -> str:
    """Run a script with playwright's ``browser`` and ``told``, and return what it prints.

    Raises SiteError if this machine has no Chromium or no Node.js, or if the script fails.
    """
    browser, program = chromium(), node()
    if browser is None or program is None:
        raise SiteError("this needs Node.js and Chromium: tests/browser/README.md says what to install")
    words = json.dumps([told, browser, str(packages() / "playwright-core")])
    done = subprocess.run([program, "-e", _AROUND % script, words], capture_output=True, text=True)
    if done.returncode:
        raise SiteError(f"the browser: {done.stderr.strip()}")
    return done.stdout


def main(folder: Path = ROOT / "docs") -> int:
    """Write both pictures, and return the exit status."""
    made = example("full")
    made.step += STEP - 1
    sheet = f"<style>:root{{color-scheme:light dark}}body{{margin:0}}{style()}{STEPPER_STYLE}</style>"
    text = f'<!doctype html><meta charset="utf-8">{sheet}{mounted(made)}<script>{SCRIPT}</script>'
    try:
        with tempfile.TemporaryDirectory(prefix="picture") as place:
            page = Path(place, "page.html")
            page.write_text(text, encoding="utf-8")
            driven(_DRAW, page=str(page), wide=WIDE, folder=str(folder))
    except (SiteError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
