"""A contact sheet of pages of the site, to be looked at: ``python -m website.contact``.

Five pages of build/site at three widths and in both themes, without JavaScript, and as they are printed. The pictures
and index.html are in build/contact.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path
from typing import Any

from .execution import ROOT, SiteError
from .picture import driven

PAGES = ("00", "03b", "04", "13", "19")
LOOKS: list[dict[str, Any]] = [
    *({"width": width, "theme": theme} for width in (1280, 900, 390) for theme in ("light", "dark")),
    {"width": 900, "theme": "light", "script": False},
    {"width": 900, "theme": "light", "paper": True},
]
_LOOK = """
for (const name of told.pages) for (const [n, { width, theme, script = true, paper = false }] of told.looks.entries()) {
  const look = { viewport: { width, height: 900 }, colorScheme: theme, javaScriptEnabled: script };
  const context = await browser.newContext(look), page = await context.newPage();
  await page.goto(`file://${told.site}/notebooks/${name}.html`);
  const high = await page.evaluate(() => document.documentElement.scrollHeight).catch(() => 20000);
  // What is drawn when it is near is drawn now.
  for (let y = 0; script && y < high; y += 800) { await page.mouse.wheel(0, 800); await page.waitForTimeout(60); }
  if (paper) await page.emulateMedia({ media: "print" });
  await page.screenshot({ path: `${told.folder}/${name}-${n}.png`, fullPage: true });
  await context.close();
}
"""


def main(site: Path = ROOT / "build" / "site", folder: Path = ROOT / "build" / "contact") -> int:
    """Write the pictures and the page that shows them, and return the exit status."""
    names = [path.stem for path in sorted((site / "notebooks").glob("*.html")) if path.stem.split("-")[0] in PAGES]
    pages = [name for name in names if "-stepper-" not in name]
    if not pages:
        print(f"{site} has none of the pages {', '.join(PAGES)}; run make site first", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    try:
        driven(_LOOK, pages=pages, looks=LOOKS, site=str(site.absolute()), folder=str(folder.absolute()))
    except (SiteError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    parts = [
        f"<figure><figcaption>{escape(f'{name}: {json.dumps(look)}')}</figcaption>"
        f'<a href="{name}-{n}.png"><img src="{name}-{n}.png" width="{look["width"] // 3}" alt=""></a></figure>'
        for name in pages
        for n, look in enumerate(LOOKS)
    ]
    head = '<!doctype html><meta charset="utf-8"><style>figure{display:inline-block;vertical-align:top}</style>'
    (folder / "index.html").write_text(head + "".join(parts), encoding="utf-8")
    print(folder / "index.html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
