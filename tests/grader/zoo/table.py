"""The matrix as Markdown: system by verdict by violations, a column of verdicts over the passes."""

from __future__ import annotations

from typing import Any

from .model import RIGHT
from .trial import MUTANTS

Came = dict[str, Any]


def verdicts(rows: list[Came]) -> str:
    """One word where all passes agree, else each pass's."""
    words = [row["verdict"] for row in sorted(rows, key=lambda row: int(row["pass"]))]
    return f"{words[0]} x {len(words)}" if len(set(words)) == 1 else " ".join(words)


def rules(rows: list[Came]) -> str:
    """Which rules were broken, and in how many of the passes where not in all."""
    seen: dict[str, int] = {}
    for row in rows:
        for rule in row["rules"]:
            seen[rule] = seen.get(rule, 0) + 1
    return ", ".join(
        rule if times == len(rows) else f"{rule} ({times} of {len(rows)})" for rule, times in sorted(seen.items())
    )


def speeds(rows: list[Came]) -> str:
    """The most that was held in any pass, and whether the time ended before the system did."""
    held = [row["speed"] for row in rows if row.get("speed")]
    if not held:
        return ""
    top = max(held, key=lambda speed: int(speed["sustained_per_s"]))
    return f"{'at least ' if top['at_least'] else ''}{top['sustained_per_s']:,}"


def table(results: list[Came], passes: int) -> str:
    """The whole page's tables, and a last line that counts. A mutant and its mend have the same phases and budget."""
    by: dict[tuple[str, str, str], list[Came]] = {}
    for came in results:
        run = f"{', '.join(came['asked'])} for {came['budget']} s"
        by.setdefault((came["role"], came["name"], run), []).append(came)
    lines = ["| right system | verdict | violations | checkouts/s held |", "|---|---|---|---|"]
    for name in RIGHT:
        for (role, who, _), rows in by.items():
            if (role, who) == ("right", name):
                lines.append(f"| {name} | {verdicts(rows)} | {rules(rows) or 'none'} | {speeds(rows)} |")
    lines += ["", "| mutant | of | must fail by | verdict | violations | mended |", "|---|---|---|---|---|---|"]
    for (role, name, run), rows in by.items():
        if role == "mutant":
            mutant = MUTANTS[name]
            mends = by.get(("mended", mutant.base, run))
            mended = verdicts(mends) if mends else ""
            must = f"{mutant.phase}: {mutant.rule}"
            lines.append(f"| {name} | {mutant.base} | {must} | {verdicts(rows)} | {rules(rows)} | {mended} |")
    wrong = [came for came in results if came["wrong"]]
    seconds = sum(came["seconds"] for came in results)
    count = f"{len(results)} trials in {passes} passes, {seconds / 60 / passes:.0f} minutes a pass"
    lines += ["", f"{count}; {len(wrong)} not as they must be" + (":" if wrong else ".")]
    lines += [f"- pass {came['pass']}, {came['role']} {came['name']}: {came['wrong']}" for came in wrong]
    return "\n".join(lines)
