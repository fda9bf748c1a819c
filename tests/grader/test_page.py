"""report.html: its content, what it must not contain, and that it depends only on the record."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from records import SECOND, answered, charged, orders_of, right, shots, value

from grader.classroom.checkout import result
from grader.orders.blocks import CREDIT
from grader.record import Exchange, Record, save
from grader.report import summary, write
from grader.report.as_html import as_html
from grader.report.as_json import as_json
from grader.report.causes import CAUSES, cause_of
from grader.report.timeline import log_lines
from grader.report.words import seconds
from grader.terms import RULES, Entity, State
from grader.verdict import judge
from grader.verdict.story import story

NASTY = "</pre></style><script>alert(1)</script><img src=x onerror=alert(1)>'\"&\x1b[2J\u202e"
VOID = {"meta", "br", "path", "circle", "rect", "line", "col"}
DRAWN = {"svg", "path", "circle", "rect", "line", "text"}
KNOWN = set(
    "html head title style body main header section footer h1 h2 h3 p span b em i small a code pre div dl dt dd ul ol "
    "li table colgroup thead tbody tr th td figure figcaption".split()
)


class Page(HTMLParser):
    """Parses the page: checks that known tags nest, and collects text and links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""
        self.links: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in KNOWN | VOID | DRAWN, tag
        for name, said in attrs:
            assert not name.startswith("on") and name != "src"
            if name == "href":
                self.links.append(said or "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data


def charged_twice() -> tuple[Record, int]:
    """In the faults phase a kill lost the first answer of an order, and its retry charged the user again."""
    record = right()
    record.about["submission"]["processes"] = [{"name": n, "role": n} for n in ("order", "stock", "payment")]
    order = int(orders_of(record, "faults")[7])
    history = record.history
    first = int(np.flatnonzero(history["subject"] == order)[0])
    at = int(history["due"][first])
    history["status"][first] = -2
    again = {c: int(history[c][first]) for c in ("wave", "kind", "subject", "waited")}
    times = {"due": at + SECOND, "sent": at + SECOND, "done": at + SECOND + 9_000_000}
    record.history.append(**again, **times, attempt=2, status=200)
    for after, what in ((2_000_000, "kill"), (SECOND // 2, "started"), (SECOND // 2 + 9, "ready")):
        record.events.append(at=at + after, process="payment", what=what, detail="")
    charged(record, "faults", 7)
    cost, user = int(record.orders["cost"][order]), int(record.orders["user"][order])
    record.logs["payment"] = f"POST /pay/{record.users['id'][user]}/{cost}\nnothing of it\n"
    return record, order


def test_the_page_tells_the_story_of_one_order(tmp_path: Path) -> None:
    """The page shows attempts, answers, the kill, the final reads, the sum, the cause and the log."""
    record, order = charged_twice()
    save(record, tmp_path / "run")
    write(tmp_path / "run", tmp_path / "a")
    write(tmp_path / "run", tmp_path / "b")
    page = (tmp_path / "a" / "report.html").read_bytes()
    assert page == (tmp_path / "b" / "report.html").read_bytes()
    text = re.sub(r"\s+", " ", Page(page.decode()).text)
    cost = int(record.orders["cost"][order])
    told = (
        "FAIL", "40 of 100", "Order faults-000007 was charged twice.", "faults-o7", "The grader sends the checkout.",
        "The grader kills payment", "The connection closed without an answer", "payment is ready",
        "sends the same checkout again, attempt 2",
        "Answered 200", "Order service says: paid", "Stock was taken: once", "The user was charged: twice",
        f"missing{cost:,}", CAUSES["charged_times"].rule, CAUSES["charged_times"].usual, "POST /pay/", "✕ 1",
    )  # fmt: skip
    assert [part for part in told if part not in text] == []
    assert "nothing of it" not in text


def test_a_page_has_every_part_and_nothing_from_outside() -> None:
    """Every part is there for each verdict. Links stay inside the page, and it loads nothing."""
    void = right(("load",))
    void.about["failure"] = {"kind": "void", "why": "a port was taken"}
    assert "No verdict: a port was taken." in Page(as_html(void, judge(void))).text
    for record in (right(), right(("load",)), charged_twice()[0], void):
        html = as_html(record, judge(record))
        page = Page(html)
        for part in (
            "6 phases",
            "How long a checkout took",
            "What was not tested",
            "Sandbox",
            "memory 8 GiB, pause 3 s",
            "success 90%, timeout 10 s, top rate 1,000/s",
            "Terms",
            *RULES,
        ):
            assert part in page.text, part
        assert all(link.startswith("#") and f"id='{link[1:]}'" in html for link in page.links)
        assert "url(" not in html and "@import" not in html and "://" not in html and "default-src 'none'" in html


def test_text_of_a_submission_is_short_and_no_markup() -> None:
    """Names, ids, logs, answers, roles and faults of any content become short text without control characters."""
    for text in (NASTY, NASTY * 3000):
        record, order = charged_twice()
        record.about["submission"]["name"] = record.about["machine"]["system"] = text
        record.about["failure"] = {"kind": "submission", "why": text}
        record.about["submission"]["processes"].append({"name": text, "role": text})
        record.exchanges.append(Exchange(text, text, text, text, text))
        for column in (record.orders["id"], record.users["id"], record.items["id"]):
            column[:] = [text] * len(column)
        at = int(record.events["at"][0])
        record.events.append(at=at + 1, process=text, what=text, detail=text)
        record.logs["payment"] = record.logs[text[:60]] = f"{text}\n" * 50
        html = as_html(record, judge(record))
        Page(html)
        assert "<script" not in html and "<img" not in html and "\x1b" not in html and "\u202e" not in html
        assert len(html) < 300_000


def test_many_violations_are_a_page_of_bounded_size() -> None:
    """The page groups violations by pattern, shows a few orders of each, and counts the rest."""
    record = right()
    table = record.snapshots
    table["value"][table["kind"] == Entity.ORDER] = 0
    table["value"][table["kind"] == Entity.USER] -= 1
    judgement = judge(record)
    html = as_html(record, judgement)
    assert len(judgement.violations) > 100 and "more in report.json" in html and len(html) < 300_000


def test_one_of_the_candidates_is_shown() -> None:
    """The stock of a shared item does not identify an order, so the page names candidates and shows one of them."""
    record = right()
    item = int(record.lines["item"][record.lines["order"] == orders_of(record, "scarcity")[0]][-1])
    value(record, shots(record, "scarcity"), Entity.ITEM, item, lambda old: old - 500)
    text = Page(as_html(record, judge(record))).text
    assert "It is one of scarcity-0" in text and "One of them: scarcity-0" in text
    assert "The grader sends the checkout." in text


def test_unreadable_balances_are_not_called_right() -> None:
    """If an order, its user and its items are unknown, the page does not claim how often."""
    record = right()
    record.snapshots["state"][np.isin(record.snapshots["snapshot"], shots(record, "faults"))] = State.UNKNOWN
    text = Page(as_html(record, judge(record))).text
    assert "Order service says: no such order" in text
    assert "Stock was taken: unreadable" in text and "The user was charged: unreadable" in text


def test_every_rule_has_its_cause() -> None:
    """Every rule has a cause and a place to look at."""
    assert set(CAUSES) == set(RULES)
    assert all(c.rule and c.usual and c.look for c in CAUSES.values())


def lead(record: Record) -> str:
    """The headline of the page."""
    (said,) = re.findall("<div class='lead'><h2>(.*?)</h2>", as_html(record, judge(record)))
    return re.sub("<[^>]*>", "", said)


def test_the_headline_goes_by_gravity_and_then_by_phase() -> None:
    """An order charged 40 times is named before many that cannot be read, and before a later phase."""
    record = right()
    unread = np.isin(record.snapshots["subject"], orders_of(record, "load")) & (
        record.snapshots["kind"] == Entity.ORDER
    )
    record.snapshots["state"][unread & np.isin(record.snapshots["snapshot"], shots(record, "load"))] = State.LOST
    assert lead(record) == "Order load-000000: Unavailable."
    charged(record, "faults", 3)
    assert lead(record) == "Order faults-000003 was charged twice."
    charged(record, "duplicates", 30, 5)
    assert lead(record) == "Order duplicates-000030 was charged 5 times."


TRACEBACK = """Traceback (most recent call last):
  File "app.py", line 7, in checkout
    undo(order)
  File "app.py", line 70, in undo
    row["quantity"]
KeyError: 'quantity'
"""


def quoted(record: Record, order: int, process: str) -> list[str]:
    """The lines that the page quotes from the log of a process."""
    logs = log_lines(record, story(record, order, "faults"))
    found = re.findall(r"<h3>Log of <code>(.*?)</code>.*?</h3><pre>(.*?)</pre>", logs, re.S)
    return unescape(dict(found).get(process, "")).splitlines()


@pytest.mark.parametrize(
    ("own", "other", "user", "items"),
    [
        ("70", "122", "7", ["122", "70"]),
        ("7", "70", "7", ["7", "17"]),
        ("1", "12", "12", ["1", "121"]),
        ("b6c8d1e2-0000-4a3c-9e41-6d3a2c1b0f9e", "b6c8d1e2-0000-4a3c-9e41-6d3a2c1b0f9e7", "u-2", ["i-1", "i-2"]),
        ("a b", "a", "a b", ["a b", "b"]),
    ],
    ids=["an item's number", "one number for all", "prefixes", "uuid", "quoted in paths"],
)
def test_the_log_of_this_order_is_quoted_with_its_traceback(own: str, other: str, user: str, items: list[str]) -> None:
    """The order's checkout and its traceback come first. A path of another order is not quoted, whatever its number."""
    record, order = charged_twice()
    record.orders["id"][order] = own
    record.users["id"][int(record.orders["user"][order])] = user
    record.items["id"][record.lines["item"][record.lines["order"] == order]] = items
    path = quote(own)
    ours = [f'"GET /find/{path} HTTP/1.1" 200', f"ERROR in app: Exception on /checkout/{own} [POST]"]
    record.logs["order"] = (
        f"[{own}] [INFO] Booting worker with pid: {own}\n"
        f"ERROR in app: Exception on /checkout/{other} [POST]\n{TRACEBACK}"
        f'"POST /addItem/{quote(other)}/{quote(items[0])}/{own} HTTP/1.1" 200\n'
        f'{ours[0]}\n"GET /find/{quote(other)} HTTP/1.1" 200\n'
        f"http://127.0.0.1:5000/find/{path} answered 200\n"
        f"{ours[1]}\n{TRACEBACK}"
        f"/checkout/{own}9 x/checkout{own} {own}ms took{own}\n{TRACEBACK}"
    )
    record.logs["stock"] = f'"GET /find/{path} HTTP/1.1"\n"POST /subtract/{quote(items[1])}/3 HTTP/1.1"\n'
    record.logs["payment"] = f"refund of order {own} to user_id={user} failed\npaid {own} of {own}\n"
    said = quoted(record, order, "order")
    assert said[:7] == [ours[1], *TRACEBACK.splitlines()]
    assert not any(f"/{quote(other)} HTTP" in line or f"/{other} [POST]" in line for line in said)
    if len(own) < 8:  # a longer id is no other number
        assert said[7:] == ours[:1]
        taken = f'"POST /subtract/{quote(items[1])}/3 HTTP/1.1"'
        assert quoted(record, order, "stock") == [f'"GET /find/{path} HTTP/1.1"'] * (own in items) + [taken]
        assert quoted(record, order, "payment") == [f"refund of order {own} to user_id={user} failed"]


def test_a_traceback_ends_where_the_next_line_of_the_log_begins() -> None:
    """Chained and indented tracebacks are quoted, the last lines of a long one, and never one of another line."""
    record, order = charged_twice()
    chained = f"{TRACEBACK}\nDuring handling of the above exception, another exception occurred:\n\n{TRACEBACK}"
    long = "Traceback (most recent call last):\n" + "  File 'a.py', line 1, in f\n" * 40 + "E: x\n"
    indented = "    at a.b(c.ts:3)\n    at d\n"
    for name, trace in (("order", chained), ("payment", long), ("stock", indented)):
        record.logs[name] = f"1 POST /checkout/faults-o7\n{trace}2 done\n{trace}"
    shown = (chained.splitlines()[-10:], ["  File 'a.py', line 1, in f"] * 9 + ["E: x"], indented.splitlines())
    for name, trace, left in zip(("order", "payment", "stock"), shown, (["… 5 more"], ["… 32 more"], []), strict=True):
        assert quoted(record, order, name) == ["1 POST /checkout/faults-o7", *left, *trace]


def test_every_report_begins_with_the_order_that_is_named() -> None:
    """Headline, list, groups, report.json and a class's page begin with the named order. A guess comes after it."""
    record = right()
    orders = orders_of(record, "duplicates")
    order, users = int(orders[30]), record.orders["user"][orders]
    user = int(record.orders["user"][order])
    other = int(users[users != user][0])
    charged(record, "duplicates", 30)
    value(record, shots(record, "duplicates"), Entity.USER, other, lambda old: old + CREDIT)
    answered(record)
    judgement = judge(record)
    first = judgement.violations[0]
    assert (first.label, first.order_id) == ("duplicates-000030", "duplicates-o30")
    assert [v.rule for v in judgement.violations] == ["charged_times", "charged_times", "contract"]
    assert "one addition" in judgement.violations[1].detail and not judgement.violations[1].label
    said = summary(record, judgement).splitlines()
    assert said[1] == "  Order duplicates-000030 (duplicates-o30): charged 2 times, should be once."
    listed = said.index("  3 violations, starting with:") + 1
    assert said[listed] == "    charged_times: duplicates-000030: charged 2 times, should be once"
    page = as_html(record, judgement)
    assert lead(record) == "Order duplicates-000030 was charged twice."
    assert re.findall("<div class='group'>.*?<p>(.*?)</p>", page)[0] == first.detail
    report = json.loads(as_json(record, judgement))
    assert report["violations"][0]["label"] == first.label
    (check,) = [c for c in result(report, 6, {})["checks"] if c["check"] == "duplicates"]
    assert check["got"].startswith("charged_times: order duplicates-000030 (duplicates-o30) charged 2 times")


@pytest.mark.parametrize(
    ("phase", "kill", "said"),
    [
        ("duplicates", False, "A checkout was answered 2xx before the order was decided"),
        ("faults", True, "The answer was sent before the change was durable."),
    ],
)
def test_the_cause_fits_the_phase(phase: str, kill: bool, said: str) -> None:
    """A 2xx without effect is about durability only in the faults phase."""
    record = right()
    if kill:
        record.events.append(at=82 * SECOND, process="shop", what="kill", detail="")
    order = int(orders_of(record, phase)[3])
    value(record, shots(record, phase), Entity.ORDER, order, lambda old: 0)
    text = Page(as_html(record, judge(record))).text
    assert said in text and "appendonly" not in text


@pytest.mark.parametrize("entity", [Entity.USER, Entity.ITEM])
def test_the_cause_of_what_an_unpaid_order_kept(entity: Entity) -> None:
    """An order that was refused, and whose stock or charge is still taken: the cause is what was not undone."""
    record = right()
    order = int(orders_of(record, "duplicates")[3])
    record.history["status"][record.history["subject"] == order] = 400
    value(record, shots(record, "duplicates"), Entity.ORDER, order, lambda old: 0)
    rule, word = ("charged_times", "charge") if entity == Entity.USER else ("taken_times", "items")
    found = next(v for v in judge(record).violations if v.order == order and v.rule == rule)
    said = cause_of(found).usual
    assert "The same checkout ran twice" not in said and re.search(f"{word} (was|were) not (undone|returned)", said)


def test_the_cause_of_rows_that_a_kill_removed_is_named() -> None:
    """Rows that a kill removed: the page names the commonest cause, Redis without --appendonly yes."""
    record = right()
    record.events.append(at=82 * SECOND, process="shop", what="kill", detail="")
    table, earlier = record.snapshots, orders_of(record, "duplicates")
    final = (table["snapshot"] == shots(record, "faults")[-1]) & (table["kind"] == Entity.ORDER)
    table["state"][final & np.isin(table["subject"], earlier)] = State.UNKNOWN
    assert lead(record) == "Order duplicates-000000 was answered 2xx, but is gone after a kill."
    text = Page(as_html(record, judge(record))).text
    assert "Redis without --appendonly yes" in text and "Lost: rows that stood before the kill are gone." in text


def test_lengths_of_time_in_words() -> None:
    """Three units, and a minus for a fault before the first attempt."""
    assert [seconds(t) for t in (0, 0.0034, 0.64, 3.41, 61, 125, -0.25)] == [
        "0 ms", "3.4 ms", "640 ms", "3.41 s", "61 s", "2 min 5 s", "−250 ms",
    ]  # fmt: skip
