"""The matrix as Markdown: for each system its verdicts and violations over all passes."""

from __future__ import annotations

from typing import Any

from .model import RIGHT
from .trial import MUTANTS

Result = dict[str, Any]


def verdicts(rows: list[Result]) -> str:
    """One word if all passes agree, otherwise one word for each pass."""
    words = [row["verdict"] for row in sorted(rows, key=lambda row: int(row["pass"]))]
    return f"{words[0]} x {len(words)}" if len(set(words)) == 1 else " ".join(words)


def rules(rows: list[Result]) -> str:
    """The rules that were broken, with the number of passes if some passes missed it."""
    seen: dict[str, int] = {}
    for row in rows:
        for rule in row["rules"]:
            seen[rule] = seen.get(rule, 0) + 1
    return ", ".join(
        rule if times == len(rows) else f"{rule} ({times} of {len(rows)})" for rule, times in sorted(seen.items())
    )


def speeds(rows: list[Result]) -> str:
    """The highest rate of any pass; "at least" if the phase ended before it found a rate that was too high."""
    held = [row["speed"] for row in rows if row.get("speed")]
    if not held:
        return ""
    top = max(held, key=lambda speed: int(speed["sustained_per_s"]))
    return f"{'at least ' if top['at_least'] else ''}{top['sustained_per_s']:,}"


def table(results: list[Result], passes: int) -> str:
    """Both tables, then counts and exceptions. A mutant and its mend have the same phases and budget."""
    by: dict[tuple[str, str, str], list[Result]] = {}
    for result in results:
        run = f"{', '.join(result['asked'])} for {result['budget']} s"
        by.setdefault((result["role"], result["name"], run), []).append(result)
    lines = ["| right system | verdict | violations | sustained checkouts/s |", "|---|---|---|---|"]
    for name in RIGHT:
        for (role, who, _), rows in by.items():
            if (role, who) == ("right", name):
                lines.append(f"| {name} | {verdicts(rows)} | {rules(rows) or 'none'} | {speeds(rows)} |")
    lines += ["", "| mutant | base | must break | verdict | violations | mended |", "|---|---|---|---|---|---|"]
    for (role, name, run), rows in by.items():
        if role == "mutant":
            mutant = MUTANTS[name]
            mends = by.get(("mended", mutant.base, run))
            mended = verdicts(mends) if mends else ""
            must = f"{mutant.phase}: {mutant.rule}"
            lines.append(f"| {name} | {mutant.base} | {must} | {verdicts(rows)} | {rules(rows)} | {mended} |")
    wrong, void = ([result for result in results if result[key]] for key in ("wrong", "void"))
    seconds = sum(result["seconds"] for result in results)
    count = f"{len(results)} trials in {passes} passes, {seconds / 60 / passes:.0f} minutes per pass"
    lines += ["", f"{count}; {len(wrong)} wrong, {len(void)} void."]
    for key, found in (("wrong", wrong), ("void", void)):
        lines += [f"- {key}: pass {r['pass']}, {r['role']} {r['name']}: {r[key]}" for r in found]
    return "\n".join(lines)
