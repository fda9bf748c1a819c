"""A recording without a script: the tables of one step, and a sentence that says how to step through the others.

>>> from sharedstate_lite.show.page.still import still
>>> state = {"rows": 1, "tables": [{"form": "rows", "columns": ["a"], "rows": [{"values": ["x"]}], "total": 1}]}
>>> step = {"caption": "One row.", "operator": "t", "states": {"t": state | {"waits": []}}}
>>> data = {"title": "A table", "at": 0, "operators": [{"name": "t", "title": "t", "detail": ""}], "steps": [step]}
>>> "<td>x</td>" in still(data)
True
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import Any

from ..palette import style
from . import STEPPER_STYLE

Data = dict[str, Any]
MORE = "Run this cell in JupyterLab, or open the page with JavaScript, to step through it."


def still(data: Data) -> str:
    """Return the operators of a recording with their tables, after the step that is shown first, as HTML."""
    states: Data = {}
    for step in data["steps"][: data["at"] + 1]:
        states |= step["states"]
    step, out = data["steps"][data["at"]], []
    for operator in data["operators"]:
        state, name = states.get(operator["name"]), f"<b>{escape(operator['title'])}</b> {escape(operator['detail'])}"
        acts = " (acts in this step)" if operator["name"] == step["operator"] else ""
        tables = "".join(map(_table, state["tables"])) if state else ""
        waits = "".join(f"<p>{escape(each)}</p>" for each in state["waits"]) if state else ""
        out.append(f"<div><p>{name}{acts}</p>{tables or '<p>no table</p>'}{waits}</div>")
    more = f"<p>{MORE}</p>" if len(data["steps"]) > 1 else ""
    about = "".join(f"<p>{escape(words)}</p>" for words in (data["title"], step["caption"]) if words)
    sheet = f"<style>{style()}{STEPPER_STYLE}</style>"
    return f'<div class="ssl ssl-still">{sheet}{about}{"".join(out)}{more}</div>'


def _table(table: Data) -> str:
    head, rows = list(table["columns"]), list(_lines(table))
    if table["form"] == "arrangement":
        head = [*head, "epoch", "change"]
    if table["form"] == "groups":
        head[table["keys"] : table["keys"]] = [f"stored {each}" for each in table["measures"]]
    names = "".join(f"<th>{escape(str(each))}</th>" for each in head)
    caption = f"<caption>{escape(table['caption'])}</caption>" if table.get("caption") else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(each)}</td>' for each in row)}</tr>" for row in rows)
    return f"<table>{caption}<thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def _lines(table: Data) -> Iterator[list[str]]:
    """The rows that are there after the step; those that the message has deleted are left out."""
    if table["form"] == "groups":
        for group in table["groups"]:
            bags = [" ".join(_value(item) for item in bag["items"] if item.get("count", 1)) for bag in group["bags"]]
            yield [*group["key"], *bags, *group["result"]["values"]]
    for batch in reversed(table.get("batches", [])):
        yield from ([*row["values"], row["time"], f"{row.get('count', 1):+d}"] for row in batch["rows"])
    if table["form"] == "rows":
        for row in table["rows"]:
            count = row.get("count", 1)
            if count:
                yield [*row["values"], *([f"× {count}"] if count != 1 else [])]
    yield from ([*hole["key"], "no rows" if hole["filled"] else "hole"] for hole in table.get("holes", []))


def _value(item: Data) -> str:
    return " ".join(item["values"]) + (f" × {item['count']}" if item.get("count", 1) > 1 else "")
