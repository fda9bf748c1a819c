"""Makes explore.html from the content of explore.json: a single file without scripts or external resources.

What comes from a submission is escaped by `words.safe`. A colour never stands without a word.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..style import STYLE
from ..words import LINE, code, counted, row, safe, sign, table
from .diagram import drawn
from .usual import usual

PAGE = "docs/assignment.md, What can happen between your processes"
_STYLE = (Path(__file__).resolve().parent / "page.css").read_text(encoding="utf-8")
_LONG = 600
_KEY = (
    "<ul class='legend'><li><i class='explorer'></i>explorer: what the explorer did</li>"
    "<li><i class='shop'></i>shop: what the shop did afterwards</li></ul>"
)
_EMPTY = "<p class='soft'>A field is empty where nothing was read, because the next step came at once.</p>"
_LISTS = {
    "not_repeated": "Wrong in some runs only, so not counted",
    "not_run_again": "Wrong as well, and not run again",
    "not_reached": "Did not happen in three tries",
    "void": "Could not happen without the explorer, so not counted",
}
Json = Mapping[str, Any]


def as_html(told: Json) -> str:
    """Return the text of explore.html. ``told``: the content of explore.json."""
    wrong = [case for case in told["cases"] if case["wrong"]]
    name = safe(told["name"])
    about = [f"processes {', '.join(told['processes'])}", f"sandbox tier {told['tier']}"]
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta http-equiv='Content-Security-Policy' content=\"default-src 'none'; style-src 'unsafe-inline'\">",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        "<meta name='color-scheme' content='light dark'>",
        f"<title>{name}: explored</title><style>{STYLE}{_STYLE}</style></head><body><main>",
        f"<header><h1>{name}: explored</h1><p class='about'>",
        *(f"<span>{safe(said)}</span>" for said in about),
        f"</p><p class='soft'>To explore it again: {code(told['again'], _LONG)}</p></header>",
        _verdict(told, wrong),
        *map(_case, told["cases"]),
        _explored(told),
        "<footer>explore.json contains the same findings.</footer></main></body></html>\n",
    ]
    return "".join(parts)


def _verdict(told: Json, wrong: list[Json]) -> str:
    ran, possible = (sum(kind[what] for kind in told["kinds"]) for what in ("ran", "possible"))
    if not wrong:
        stamp = f"<b>{sign('measured')}0</b><span>wrong runs</span>"
        lead = "<h2>Nothing was found in what was explored.</h2><p>This is no proof that the system is right.</p>"
        lead, kind = "<h2>Nothing is wrong in this run.</h2>" if told["cases"] else lead, "void"
    else:
        stamp = f"<b>{sign('fail')}FAIL</b><span>{counted(len(wrong), 'wrong run')}</span>"
        links = "".join(
            f"<li><a href='#{safe(case['id'])}'>{safe('; '.join(case['wrong']))}</a></li>" for case in wrong
        )
        lead, kind = f"<h2>{safe(wrong[0]['wrong'][0])}</h2>", "fail"
        lead += f"<ul>{links}</ul>" if len(wrong) > 1 else ""
    lead += f"<p class='soft'>{ran:,} of {possible:,} cases were run.</p>" if possible else ""
    return f"<section class='verdict {kind}'><div class='stamp'>{stamp}</div><div class='lead'>{lead}</div></section>"


def _case(case: Json) -> str:
    wrong, runs = case["times"]
    said = safe("; ".join(case["wrong"]) or "Nothing is wrong in this run")
    facts = [f"case {code(case['id'])}: {safe(case['case'], _LONG)}", counted(len(case["steps"]), "step")]
    if case["wrong"]:
        facts.append(f"wrong in {wrong} of {runs} runs{', once on a fresh start' * (runs > 1)}")
    answers = ", ".join(str(status) if status > 0 else "no answer" for status in case["answers"])
    facts.append(f"the client got {answers}")
    parts = [f"<section id='{safe(case['id'])}'><h2>{said}</h2><p class='soft'>{' · '.join(facts)}</p>"]
    parts.append(
        f"<p>Before it: {safe('; '.join(case['before']), _LONG)}. Each row is a step; all other messages wait "
    )
    parts.append(f"until the shop has nothing more to do.</p>{_KEY}{drawn(case)}")
    parts.append(f"<p>{safe(case['left_out'], _LONG)}</p>" if case["left_out"] else "")
    read = [step["values"] is not None for step in case["steps"]]
    parts.append(_EMPTY if any(read) and not all(read) else "")
    changes = [change for value in case["values"] if (change := _changes(case, value))]
    parts.append(f"<h3>Where the values changed</h3><ul>{''.join(changes)}</ul>" if changes else "")
    return "".join([*parts, _why(case), _again(case), _logs(case), "</section>"])


def _changes(case: Json, value: Json) -> str:
    """Return one sentence about a value: where it changed, and what it should be. "" if it stayed, and is right."""
    last, told, thing = value["before"], [], value["thing"]
    for number, step in enumerate(case["steps"], 1):
        now = (step["values"] or {}).get(thing)
        if now is not None and now != last:
            told.append(f"{_plain(last)} → {_plain(now)} after step {number}")
            last = now
    if told and last != value["is"]:
        told.append(f"{_plain(last)} → {_plain(value['is'])} later")
    parts = [f"{safe(thing)}: {', '.join(told)}."] if told else []
    if wrong := value["should_be"] not in (None, value["is"]):
        who = "It" if told else safe(thing)
        parts.append(f"{who} is {_plain(value['is'])} in the end, and should be {_plain(value['should_be'])}.")
    if not parts:
        return ""
    return f"<li{' class=bad' if wrong else ''}>{sign('fail', 'bad') if wrong else ''}{' '.join(parts)}</li>"


def _plain(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else safe(value, 40)


def _why(case: Json) -> str:
    parts = []
    for cause in case["causes"]:
        look = "".join(f"<li>{safe(place)}</li>" for place in cause["look"])
        parts.append(f"<div class='rule'><h3>Broken rule: {safe(cause['name'])}</h3><p>{safe(cause['rule'])}</p>")
        parts.append(f"<p class='soft'>{code(cause['id'])}</p></div><div><h3>The usual cause</h3>")
        parts.append(f"<p>{safe(cause['usual'], _LONG)}</p></div><div><h3>Where to look</h3><ol>{look}</ol></div>")
    grid = f"<div class='why'>{''.join(parts)}</div>" if parts else ""
    must = "".join(f"<p>{safe(text, _LONG)}</p>" for text in usual(case["done"]))
    expect = f"<h3>What a system must expect here</h3>{must}" if must else ""
    allowed = dict.fromkeys(each["sentence"] for each in case["allowed"])
    quoted = "".join(f"<p>“{safe(each, _LONG)}”</p>" for each in allowed)
    quoted = quoted or "<p>Nothing is broken or delayed in this run.</p>"
    return f"{grid}{expect}<h3>Why this can happen</h3>{quoted}<p class='soft'>{PAGE}</p>"


def _again(case: Json) -> str:
    first, *slow = (safe(command, _LONG) for command in case["again"])
    more = [f"\n\n# Enter delivers the next message; attach a debugger meanwhile\n{each}" for each in slow]
    return f"<h3>Run it again</h3><pre>{first}{''.join(more)}</pre>"


def _logs(case: Json) -> str:
    if case["left_out"] and not case["log"]:
        return ""
    rows = []
    for each in case["log"]:
        when = f"after step {each['after']}" if each["after"] else "before step 1"
        lines = "\n".join(safe(line, LINE) for line in each["lines"])
        rows.append(row(when, code(each["process"]), f"<pre>{lines}</pre>"))
    told = table("env printed", *rows) if rows else "<p class='soft'>Nothing.</p>"
    return f"<h3>What the processes printed</h3>{told}"


def _explored(told: Json) -> str:
    if not told["kinds"]:
        return ""
    head = row("Kind of case", "Run", "Possible", kind="th", classes=("", "num", "num"))
    rows = [
        row(code(each["kind"]), f"{each['ran']:,}", f"{each['possible']:,}", classes=("", "num", "num"))
        for each in told["kinds"]
    ]
    lists = [row(f"<b>{words}</b>", safe("; ".join(told[name]), _LONG)) for name, words in _LISTS.items() if told[name]]
    lists.append(row("<b>Not explored</b>", safe(", ".join(told["not_explored"]))))
    parts = [f"<section><h2>What was explored</h2>{table('score', head, *rows)}{table('env', *lists)}"]
    if told["second_faults_missed"]:
        said = counted(told["second_faults_missed"], "second fault")
        parts.append(f"<p>{said} did not happen, because other messages followed the first.</p>")
    if told["held_too_long"]:
        parts.append(f"<p>Held for too long, and then delivered: {counted(told['held_too_long'], 'message')}.</p>")
    return "".join([*parts, "</section>"])


__all__ = ["as_html"]
