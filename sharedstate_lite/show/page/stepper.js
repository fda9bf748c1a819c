// @ts-check
// The stepper: draws a recording (docs/recording.md) as HTML, and goes from step to step without Python. The browser lays
// out text and tables; this script puts the operators into columns and draws the lines between them.
//
//   sharedstate.stepper.mount(place, data, {ask})   `ask` sends an edit to Python, and is missing on a page without it
//   sharedstate.graph.mount(place, data)            a recording of one step, without the controls
"use strict";
(() => {
  const VERSION = 1;
  /** @type {any} */
  const here = globalThis;
  if (typeof document === "undefined" || here.sharedstate.stepper) return;

  // The keys, what they do, and whether that needs Python.
  /** @type {[string, string, boolean?][]} */
  const KEYS = [
    ["← →", "previous or next step"], ["E", "end of the message"], ["Space", "run or pause"], ["Home End", "first or last step"],
    ["PageUp PageDown", "previous or next message"], ["P /", "answer the question"], ["Esc", "leave a field"], ["Tab", "next operator or button"],
    ["Enter", "fold or open an operator"], ["T", "messages over time, or state"], ["?", "these keys"],
    ["M", "edit this message", true], ["I", "insert a message before it", true], ["F", "next history", true],
  ];
  const PACE = 900, PATIENCE = 5000, NARROW = 640, MANY = 200, LANE = 18, SVG = "http://www.w3.org/2000/svg";
  const SILENT = "Python does not answer. It may be busy, or it was restarted: then run the cells again, starting with the first.";
  /** @type {Record<string, string>} */
  const MARKS = { inserted: "+", deleted: "−", changed: "→", looked: "○" };
  /** @type {Record<string, string>} */
  const BILL = { durable: "durable inputs", working: "working state", cached: "cached answers" };
  /** @type {Record<string, string>} */
  const TOLD = {
    durable: "Rows of the base tables, which must survive a crash.",
    working: "Rows that later changes need: indexes, sides of joins, groups.",
    cached: "Rows of answers that can be evicted, and computed again.",
  };

  /** @param {string} tag @param {string} name its class @param {Record<string, any>} options attributes, and listeners as onclick
   * @param {any[]} inside elements and texts @returns {any} */
  function el(tag, name = "", options = {}, ...inside) {
    const out = ["svg", "path", "line", "circle", "text", "g"].includes(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
    if (name) out.setAttribute("class", name);
    for (const [key, value] of Object.entries(options)) {
      if (key.startsWith("on")) out.addEventListener(key.slice(2), value);
      else if (value !== false && value != null) out.setAttribute(key, value === true ? "" : value);
    }
    out.append(...inside.flat(Infinity).filter((each) => each != null && each !== ""));
    return out;
  }
  /** @param {string} words @param {string} key @param {(event: any) => void} onclick */
  const button = (words, key, onclick) => el("button", "", { type: "button", onclick }, el("span", "", {}, words), key && el("kbd", "", {}, key));
  /** @param {number} n @param {string} one */
  const count = (n, one) => `${n.toLocaleString("en")} ${one}${n === 1 ? "" : "s"}`;
  /** @param {number} n */
  const size = (n) => (n < 1024 ? `${n} B` : n < 1048576 ? `${(n / 1024).toFixed(1)} KiB` : `${(n / 1048576).toFixed(1)} MiB`);

  // --- tables --------------------------------------------------------------------------------------------------------

  /** @typedef {{values: string[], count?: number, before?: number, old?: string[], now?: boolean, looked?: boolean, time?: string}} Row */

  /** @param {Row} row */
  const countOf = ({ count: n = 1 }) => n;
  /** @param {Row} row */
  const beforeOf = (row) => row.before ?? countOf(row);
  /** @param {Row} row */
  function markOf(row) {
    if (row.old) return "changed";
    if (countOf(row) === beforeOf(row)) return row.looked ? "looked" : "";
    return !beforeOf(row) ? "inserted" : !countOf(row) ? "deleted" : "changed";
  }
  /** @param {string} words */
  const cell = (words, name = "") => el("td", name, words.length > 16 ? { title: words } : {}, words);
  /** @param {string | undefined} old @param {string} words */
  const replaced = (old, words) => (old == null || old === words ? cell(words) : el("td", "", {}, el("s", "", {}, old), " → ", el("b", "", {}, words)));
  /** @param {string} mark @param {any} row @param {any[]} cells */
  const line = (mark, row, ...cells) => el("tr", `${mark}${row.now ? " now" : ""}`, {}, el("td", "mark", mark ? { "aria-label": mark } : {}, MARKS[mark] ?? ""), cells);
  /** @param {string} words */
  const note = (words) => el("tr", "note", {}, el("td", "mark"), el("td", "", { colspan: 12 }, words));
  /** Whether a table needs a column with the multiplicity of its rows. @param {Row[]} rows */
  const repeated = (rows) => rows.some((row) => ![0, 1].includes(countOf(row)) || ![0, 1].includes(beforeOf(row)));
  /** @param {Row} row */
  function times(row) {
    const [now, before] = [countOf(row), beforeOf(row)];
    return row.old || now === before || !before || !now ? cell(String(now || before), "times") : replaced(String(before), String(now));
  }

  /** @param {any} table @param {any} letters the letter of each reader */
  function drawn(table, letters) {
    const caption = table.caption ? el("caption", "", {}, table.caption) : "";
    if (table.form === "arrangement") return [axis(table, letters), el("table", "rows", {}, caption, head(table.columns, "epoch", "change"), [...table.batches].reverse().map(batch))];
    const grouped = table.form === "groups", many = !grouped && repeated(table.rows);
    const lines = grouped ? table.groups.map(group) : table.rows.map((/** @type {Row} */ row) =>
      line(markOf(row), row, row.values.map((each, n) => replaced(row.old?.[n], each)), many ? times(row) : ""));
    const names = grouped ? [...table.columns.slice(0, table.keys), ...table.measures.map((/** @type {string} */ each) => `stored ${each}`), ...table.columns.slice(table.keys)] : table.columns;
    for (const { key, filled, now } of table.holes ?? []) lines.push(line("", { now }, key.map((/** @type {string} */ each) => cell(each)), el("td", filled ? "note" : "hole", { colspan: 9 }, filled ? "no rows" : "hole")));
    const hidden = table.total - table.listed;
    if (hidden > 0) lines.push(note(count(hidden, grouped ? "more group" : "more row")));
    if (table.holes) lines.push(note(lines.length ? "all other keys: holes" : "all keys: holes"));
    else if (!lines.length) lines.push(note("no rows"));
    return [el("table", "rows", {}, caption, head(names, many ? "times" : ""), el("tbody", "", {}, lines))];
  }
  /** @param {string[]} names */
  const head = (names, ...more) => el("thead", "", {}, el("tr", "", {}, el("td", "mark"), [...names, ...more].filter(Boolean).map((each) => el("th", "", { scope: "col" }, each))));
  /** A group with the values that MAX or MIN stores for it. @param {any} group */
  function group({ key, bags, result }) {
    const mark = markOf(result), inside = bags.map(({ items, more }) => el("td", "bag", {}, items.map((/** @type {Row} */ each) => {
      const of = markOf(each), n = countOf(each) || beforeOf(each);
      return el("span", `${of}${each.now ? " now" : ""}`, of ? { "aria-label": `${each.values} ${of}` } : {}, each.values.join(" ") + (n > 1 ? ` × ${n}` : ""));
    }), more > 0 ? el("small", "", {}, `+${more}`) : ""));
    return line(mark === "changed" ? "" : mark, result, key.map((/** @type {string} */ each) => cell(each)), inside,
      result.values.map((/** @type {string} */ each, /** @type {number} */ n) => replaced(result.old?.[n], each)));
  }
  /** A batch of an arrangement, with the difference of each row. @param {any} each */
  function batch({ lower, upper, rows, total, listed, fresh }) {
    const sign = (/** @type {number} */ n) => (n > 0 ? `+${n}` : `−${-n}`);
    const lines = rows.map((/** @type {Row} */ row) => line(row.now || countOf(row) !== beforeOf(row) ? (countOf(row) < 0 ? "deleted" : "inserted") : row.looked ? "looked" : "", row,
      row.values.map((value) => cell(value)), cell(String(row.time), "times"), cell(sign(countOf(row)), "times")));
    if (total > listed) lines.push(note(count(total - listed, "more row")));
    return el("tbody", fresh ? "batch fresh" : "batch", {}, el("tr", "", {}, el("th", "", { colspan: 12, scope: "rowgroup" }, `batch [${lower}, ${upper})`)), lines);
  }
  /** The epochs of an arrangement: batches as bars, since and upper, and the readers where they are. @param {any} table @param {any} letters */
  function axis({ batches, since, upper, readers }, letters) {
    const low = Math.min(since[1], batches[0]?.lower ?? 0), high = Math.max(upper[1], low + 1);
    const at = (/** @type {number} */ time) => (100 * (Math.min(Math.max(time, low), high) - low)) / (high - low);
    const bars = batches.map((/** @type {any} */ each) => el("i", each.fresh ? "span fresh" : "span", { style: `left:${at(each.lower)}%;right:${100 - at(each.upper)}%` }));
    const moved = (/** @type {number[]} */ [before, now]) => (before === now ? String(now) : `${before} → ${now}`);
    const places = readers.map(({ reader, time, before }) => el("span", "", { title: reader }, el("b", "pin", {}, letters.get(reader)), ` at ${before == null ? time : moved([before, time])}`));
    return el("div", "axis", {}, el("div", "ruler", { "aria-hidden": "true" }, bars, el("i", "since", { style: `left:${at(since[1])}%` }, "▲"),
      readers.map(({ reader, time }) => el("i", "pin", { style: `left:${at(time)}%` }, letters.get(reader)))),
    el("p", "", {}, `since ${moved(since)} · upper ${moved(upper)}`), places.length ? el("p", "", {}, places) : "");
  }

  // --- the graph -----------------------------------------------------------------------------------------------------

  /** Columns from left to right: an operator is one column after the last that it reads, a source one before its first
   * reader. An edge over several columns passes through a place of its own in each.
   * @param {any} data */
  function columnsOf(data) {
    /** @type {Map<string, number>} */
    const level = new Map(data.operators.map((/** @type {any} */ o) => [o.name, 0])), lanes = new Map();
    const at = (/** @type {string} */ name) => /** @type {number} */ (level.get(name));
    for (const { source, target, kind, rows } of data.edges) {
      const [from, to] = kind === "upquery" ? [target, source] : [source, target], key = `${from} ${to}`;
      const lane = lanes.get(key) ?? lanes.set(key, { from, to, key, through: [], kind: "", back: false }).get(key);
      if (kind === "upquery") lane.back = true;
      else [lane.kind, lane.rows] = [kind, rows];
    }
    const all = [...lanes.values()];
    for (const _ of data.operators) for (const { from, to } of all) level.set(to, Math.max(at(to), at(from) + 1));
    for (const { name } of data.operators) {
      const next = all.filter((lane) => lane.from === name).map((lane) => at(lane.to));
      if (next.length && !all.some((lane) => lane.to === name)) level.set(name, Math.min(...next) - 1);
    }
    /** @type {any[][]} */
    const columns = [];
    for (const { name } of data.operators) (columns[at(name)] ??= []).push({ name });
    for (const lane of all) for (let c = at(lane.from) + 1; c < at(lane.to); c += 1) {
      lane.through.push({ lane });
      columns[c].push(lane.through.at(-1));
    }
    // In each column, from top to bottom by the mean place of the neighbours: forwards, backwards, forwards.
    const place = new Map(columns.flatMap((column) => column.map((item, n) => [item, n])));
    const itemOf = new Map(columns.flat().filter((item) => item.name).map((item) => [item.name, item]));
    const steps = all.flatMap((lane) => [itemOf.get(lane.from), ...lane.through, itemOf.get(lane.to)].map((item, n, path) => [item, path[n + 1]]).slice(0, -1));
    for (const way of [0, 1, 0]) for (const column of way ? columns.toReversed() : columns) {
      const mean = (/** @type {any} */ item) => {
        const near = steps.filter((pair) => pair[1 - way] === item).map((pair) => place.get(pair[way]));
        return near.length ? near.reduce((a, b) => a + b, 0) / near.length : place.get(item);
      };
      const means = new Map(column.map((item) => [item, mean(item)]));
      column.sort((a, b) => means.get(a) - means.get(b)).forEach((item, n) => place.set(item, n - (column.length - 1) / 2));
    }
    return { columns, lanes: all, level };
  }

  /** How high the end of an edge is, in px: a read has a chip of one line, a change two, an upquery's answer its question.
   * @param {any} lane */
  const highOf = ({ back, kind }) => (back ? 102 : kind === "read" ? 48 : 64);

  /** The messages to be seen after step n, each with its status: sent now, waiting, taken before, or dropped.
   * @param {any} data @param {number} n @returns {Map<string, [any, string]>} */
  function messagesAt(data, n) {
    const message = data.messages.find((/** @type {any} */ each) => each.first <= n && n <= each.last), out = new Map();
    if (!message) return out;
    for (const move of data.moves) {
      const waits = move.sent <= n && (move.taken == null || move.taken > n), past = move.taken != null && move.taken <= n && move.taken >= message.first;
      if (!waits && !past) continue;
      const key = `${move.source} ${move.target}`, status = waits ? (move.sent === n ? "sent" : "waits") : move.dropped && move.dropped <= n ? "dropped" : "past";
      if (waits || !["sent", "waits"].includes(out.get(key)?.[1] ?? "")) out.set(key, [move, status]);
    }
    return out;
  }

  /** @param {any} move @param {string} status @param {number} step @param {string} from */
  function chip(move, status, step, from = "") {
    const one = ([badge, ...values]) => el("span", `chip ${move.kind}${badge.startsWith("−") ? " minus" : ""}`, {}, badge && el("b", "", {}, badge), values.map((/** @type {string} */ each) => el("span", "", { title: each }, each)));
    const words = { sent: `step ${move.sent}`, waits: "waits", past: `step ${move.sent}`, dropped: `dropped at the hole${move.whole === false ? ", in part" : ""}` }[status];
    return el("div", `move ${status}${move.kind === "upquery" ? " back" : ""}${move.dropped === step ? " now" : ""}`, {}, el("small", "", {}, from && `from ${from}, `, words), move.chips.map(one));
  }

  class Diagram {
    /** @param {any} data */
    constructor(data) {
      this.data = data;
      /** @type {any[]} */
      this.states = [];
      for (const step of data.steps) this.states.push({ ...this.states.at(-1), ...step.states });
      Object.assign(this, columnsOf(data));
      this.titles = new Map(data.operators.map((/** @type {any} */ o) => [o.name, o.title]));
      this.letters = this.lettered();
      const joins = new Set(data.operators.filter((/** @type {any} */ o) => o.kind === "join" && o.holds).map((/** @type {any} */ o) => o.name));
      this.copied = new Set(this.lanes.filter(({ to, kind }) => joins.has(to) && kind === "change").map(({ from }) => from));
      this.nodes = new Map(data.operators.map((/** @type {any} */ o) => [o.name, this.node(o)]));
      this.places = new Map();
      this.wires = el("svg", "wires", { "aria-hidden": "true" });
      this.chips = el("div", "chips");
      this.root = el("div", "diagram", { role: "list", "aria-label": "operators" }, this.wires, this.columns.map((column, c) => [
        c ? this.gap(c) : "",
        el("div", "column", { role: "presentation" }, column.map((item) => (item.name ? this.nodes.get(item.name).root : this.pass(item)))),
      ]), this.chips);
    }

    /** A letter for each reader of an arrangement: of its title if it is free. */
    lettered() {
      const out = new Map(), tables = this.states.flatMap((each) => Object.values(each)).flatMap((state) => state.tables);
      for (const { reader } of new Set(tables.flatMap((table) => table.readers ?? []))) {
        if (out.has(reader)) continue;
        const wanted = `${(this.titles.get(reader) ?? reader).toUpperCase().replace(/[^A-Z]/g, "")}ABCDEFGHIJKLMNOPQRSTUVWXYZ`;
        out.set(reader, [...wanted].find((letter) => ![...out.values()].includes(letter)) ?? "?");
      }
      return out;
    }

    /** All states of an operator lie in one cell of a grid, and one is visible: so nothing moves between steps.
     * @param {any} o */
    node(o) {
      const plain = ["filter", "map"].includes(o.kind), base = o.kind === "source" && this.copied.has(o.name);
      const entries = this.lanes.filter(({ to }) => to === o.name), high = entries.reduce((sum, lane) => sum + highOf(lane), 0);
      const held = el("span"), stack = el("div", "stack"), letter = this.letters.get(o.name);
      const counts = this.states.map((each) => (o.holds && !base ? count(each[o.name].rows, "row") : "")), widest = counts.reduce((a, b) => (b.length > a.length ? b : a), "");
      const title = el("h4", "", { onclick: () => this.fold(root) }, letter ? el("b", "pin", { title: "reads by a trace handle" }, letter) : "", o.title, el("span", "detail", {}, plain || base ? "" : o.detail), el("span", "count most", {}, held, el("span", "longest", { "aria-hidden": "true" }, widest)));
      const root = el("div", `node${o.holds ? " holds" : ""}`, { "data-operator": o.name, tabindex: 0, role: "listitem", style: `min-height:${30 + high}px`, "aria-label": `${o.title} ${o.detail}` },
        el("div", "inbox"), title, stack);
      const views = new Map(), states = [...new Set(this.states.map((each) => each[o.name]))];
      const view = (/** @type {any} */ state) => {
        const made = el("div", "", {}, base ? el("p", "", {}, `base, ${count(state.rows, "row")}`) : state.tables.map((/** @type {any} */ each) => drawn(each, this.letters)),
          o.holds ? "" : el("p", "", {}, plain && o.detail ? o.detail : "no state"), state.waits.map((/** @type {string} */ each) => el("p", "waiting", {}, each)));
        stack.append(made);
        views.set(state, made);
        return made;
      };
      states.slice(0, MANY).forEach(view);
      return { root, stack, title, inbox: root.firstChild, show: (/** @type {any} */ state) => {
        if (!views.has(state)) view(state);
        held.textContent = o.holds && !base ? count(state.rows, "row") : "";
        for (const [each, made] of views) made.classList.toggle("shown", each === state);
      } };
    }

    /** @param {Element} node */
    fold(node) {
      node.classList.toggle("folded");
      this.measured = "";
      this.draw();
    }

    /** A gap is as wide as the widest message that is ever in it, and the lines that turn there. @param {number} c */
    gap(c) {
      const turning = this.lanes.filter(({ from, to }) => this.level.get(from) < c && this.level.get(to) >= c).length;
      const widest = new Map();
      for (const move of this.data.moves) {
        const lane = this.lanes.find(({ from, to }) => (move.kind === "upquery" ? `${to} ${from}` : `${from} ${to}`) === `${move.source} ${move.target}`);
        if (!lane || this.level.get(lane.to) !== c) continue;
        const made = chip(move, move.dropped ? "dropped" : "sent", 0);
        made.classList.toggle("flat", lane.back);
        widest.set(JSON.stringify([move.chips, move.dropped]), made);
      }
      const labels = this.lanes.filter(({ to, rows }) => rows != null && this.level.get(to) === c).map(({ rows }) => el("small", "", {}, count(rows, "row")));
      return el("div", "gap", { "aria-hidden": "true", style: `padding-left:${10 + 8 * turning}px` }, [...widest.values()], labels);
    }
    /** @param {any} item */
    pass(item) {
      this.places.set(item, el("div", "pass", { role: "presentation", style: `height:${item.lane.back ? 48 : 24}px` }));
      return this.places.get(item);
    }

    /** In one column, the messages stand above the operator that gets them, which has room for all that ever do. */
    reserve() {
      for (const [name, { inbox }] of this.nodes) {
        let most = 0;
        for (const n of this.data.steps.keys()) {
          const mine = [...messagesAt(this.data, n).values()].filter(([move]) => move.target === name);
          most = Math.max(most, mine.reduce((sum, [move]) => sum + 24 + 28 * move.chips.length, 0));
        }
        inbox.style.minHeight = `${most}px`;
      }
      this.reserved = true;
    }

    /** @param {number} n */
    show(n) {
      const { data } = this, step = data.steps[n], number = data.messages.filter((/** @type {any} */ each) => each.first <= n).length;
      for (const o of data.operators) {
        const node = this.nodes.get(o.name), acts = step.operator === o.name;
        node.root.classList.toggle("acts", acts);
        node.root.toggleAttribute("aria-current", acts);
        node.root.classList.toggle("gone", (o.added ?? 0) > number || (o.removed != null && number >= o.removed));
        node.show(this.states[n][o.name]);
      }
      this.n = n;
      this.live = messagesAt(data, n);
      this.draw();
    }

    /** Draw the lines and the messages, where the browser has put the operators. */
    draw() {
      if (!this.live) return;
      const narrow = Boolean(this.root.closest(".narrow")), elements = new Map();
      for (const [key, [move, status]] of this.live) elements.set(key, chip(move, status, this.n ?? 0, narrow ? this.titles.get(move.source) : ""));
      for (const [name, { inbox }] of this.nodes) inbox.replaceChildren(...(narrow ? [...this.live].filter(([, [move]]) => move.target === name).map(([key]) => elements.get(key)) : []));
      if (narrow) {
        if (!this.reserved) this.reserve();
        this.chips.replaceChildren();
      }
      this.measure(narrow);
      this.chips.replaceChildren();
      for (const [key, made] of narrow ? [] : elements) {
        const end = this.ends.get(key);
        if (!end) continue;
        made.classList.toggle("flat", end.two);
        made.style.cssText = `right:${this.wide - end.x}px;top:${end.y}px`;
        this.chips.append(made);
      }
      for (const [key, path] of this.paths) path.setAttribute("class", `${path.dataset.kind} ${this.live.get(key)?.[1] ?? ""}`);
    }

    /** Where lines run, from the sizes of the boxes. This is done anew if the stepper has another width: text is small then
     * if the diagram does not fit, and messages have a line for each value. */
    measure(narrow = false) {
      const scene = /** @type {HTMLElement} */ (this.root.parentElement);
      if (this.room !== scene.clientWidth) {
        this.room = scene.clientWidth;
        for (const [n, fits] of ["tight", "stacked"].entries()) {
          if (!n) this.root.classList.remove("tight", "stacked");
          this.root.classList.toggle(fits, scene.scrollWidth > this.room && !narrow);
        }
      }
      const origin = this.root.getBoundingClientRect(), key = `${narrow} ${origin.width} ${origin.height}`;
      if (key === this.measured) return;
      Object.assign(this, { measured: key, wide: origin.width, ends: new Map(), paths: new Map() });
      const box = (/** @type {Element} */ of) => {
        const { left, right, top, height } = of.getBoundingClientRect();
        return { left: left - origin.left, right: right - origin.left, top: top - origin.top, height };
      };
      if (narrow) { this.rail(box); return; }
      this.root.style.paddingLeft = "";
      const entries = new Map(), turns = new Map(), marks = [];
      const middle = (/** @type {any} */ of, up = 30) => of.top + up + (of.height - up) / 2;
      const before = (/** @type {any} */ lane) => (lane.through.length ? middle(box(this.places.get(lane.through.at(-1))), 0) : middle(box(this.nodes.get(lane.from).root)));
      for (const lane of this.lanes) entries.set(lane.to, [...(entries.get(lane.to) ?? []), lane]);
      for (const [to, lanes] of entries) {
        const of = box(this.nodes.get(to).root), total = lanes.reduce((sum, lane) => sum + highOf(lane), 0), scale = (of.height - 30) / total;
        let y = of.top + 30;
        for (const lane of lanes.sort((a, b) => before(a) - before(b))) {
          const high = highOf(lane) * scale;
          lane.port = y + high / 2;
          y += high;
        }
      }
      for (const lane of this.lanes) {
        const from = box(this.nodes.get(lane.from).root), to = box(this.nodes.get(lane.to).root), passes = lane.through.map((/** @type {any} */ each) => box(this.places.get(each)));
        for (const back of [false, true].filter((each) => (each ? lane.back : lane.kind))) {
          const shift = lane.back && lane.kind ? (back ? LANE : -LANE) : 0, lead = `${lane.from} ${back}`;
          let path = `M${from.right} ${middle(from) + shift}`;
          [...passes, { left: to.left, y: lane.port }].forEach((stop, n) => {
            const right = n ? passes[n - 1].right : from.right, turn = turns.get(`${right} ${lead}`) ?? [...turns.keys()].filter((each) => each.startsWith(`${right} `)).length;
            turns.set(`${right} ${lead}`, turn);
            const y = (stop.y ?? middle(stop, 0)) + shift;
            path += `H${right + 10 + 8 * turn}V${y}H${stop.y == null ? stop.right : stop.left}`;
          });
          const name = back ? `${lane.to} ${lane.from}` : `${lane.from} ${lane.to}`, y = lane.port + shift;
          const [x, tip] = back ? [from.right, middle(from) + shift] : [to.left, y], way = back ? 7 : -7;
          const made = el("path", "", { d: `${path}M${x + way} ${tip - 4}L${x} ${tip}L${x + way} ${tip + 4}`, "data-kind": back ? "upquery" : lane.kind });
          this.paths.set(name, made);
          if (lane.kind === "read" && !back) marks.push(el("path", "inner", { d: path }));
          this.ends.set(name, { x: to.left - 12, y, two: lane.back });
          if (lane.rows != null && !back) marks.push(el("text", "", { x: to.left - 12, y: y - 5, "text-anchor": "end" }, count(lane.rows, "row")));
        }
      }
      this.wires.replaceChildren(...this.paths.values(), ...marks);
    }

    /** In one column, lines run beside the boxes: each at the first place where it meets no other. @param {(of: Element) => any} box */
    rail(box) {
      const ends = this.lanes.map((lane) => {
        const [from, to] = [lane.from, lane.to].map((name) => box(this.nodes.get(name).title));
        return { lane, top: Math.min(from.top, to.top), bottom: Math.max(from.top, to.top), from: from.top + from.height / 2 + 6, to: to.top + to.height / 2 - 6 };
      }).sort((a, b) => a.bottom - a.top - (b.bottom - b.top));
      /** @type {any[][]} */
      const places = [];
      for (const end of ends) {
        let place = places.findIndex((taken) => taken.every(({ top, bottom }) => end.bottom <= top || bottom <= end.top));
        if (place < 0) place = places.push([]) - 1;
        places[place].push(end);
      }
      const left = 12 + 10 * places.length;
      this.root.style.paddingLeft = `${left}px`;
      for (const [n, taken] of places.entries()) for (const { lane, from, to } of taken) for (const back of [false, true].filter((each) => (each ? lane.back : lane.kind))) {
        const x = left - 10 - 10 * n - (back ? 3 : 0), [start, end] = back ? [to + 5, from + 5] : [from, to];
        const made = el("path", "", { d: `M${left} ${start}H${x}V${end}H${left}M${left - 6} ${end - 4}L${left} ${end}L${left - 6} ${end + 4}`, "data-kind": back ? "upquery" : lane.kind });
        this.paths.set(back ? `${lane.to} ${lane.from}` : `${lane.from} ${lane.to}`, made);
      }
      this.wires.replaceChildren(...this.paths.values());
      this.measured = "";
    }

    /** Bring the acting operator into view: the diagram scrolls, and the page does not. @param {any} scene */
    follow(scene) {
      const acting = this.root.querySelector(".acts");
      if (!acting) return;
      const [inner, outer] = [acting.getBoundingClientRect(), scene.getBoundingClientRect()];
      if (inner.left < outer.left || inner.right > outer.right) scene.scrollLeft += (inner.left + inner.right - outer.left - outer.right) / 2;
      if (inner.top < outer.top || inner.bottom > outer.bottom) scene.scrollTop += inner.height > outer.height ? inner.top - outer.top - 8 : (inner.top + inner.bottom - outer.top - outer.bottom) / 2;
    }
  }

  /** The steps of a message as a picture of who sent which message to whom. @param {any} data @param {any} titles @param {number} n */
  function overTime(data, titles, n, room = 900) {
    const message = data.messages.find((/** @type {any} */ each) => each.first <= n && n <= each.last);
    if (!message) return el("p", "", {}, "Before the first message.");
    const steps = data.steps.slice(message.first, message.last + 1), moves = data.moves.filter((/** @type {any} */ each) => each.sent <= message.last && (each.taken == null || each.taken >= message.first) && each.sent <= n);
    const names = data.operators.map((/** @type {any} */ o) => o.name).filter((/** @type {string} */ name) => steps.some((/** @type {any} */ each) => each.operator === name) || moves.some((/** @type {any} */ each) => [each.source, each.target].includes(name)));
    const wide = Math.max(100, Math.min(150, (room - 80) / names.length)), high = 30, early = moves.some((/** @type {any} */ each) => each.sent < message.first) ? 1 : 0, x = (/** @type {string} */ name) => 60 + wide * (names.indexOf(name) + 0.5), y = (/** @type {number} */ step) => 50 + high * (Math.max(step, message.first - 1) - message.first + early);
    const bottom = y(message.last) + 24, out = [];
    for (const name of names) out.push(el("text", "", { x: x(name), y: 18, "text-anchor": "middle" }, titles.get(name)), el("line", "lane", { x1: x(name), x2: x(name), y1: 28, y2: bottom }));
    for (const [k, each] of steps.entries()) {
      const step = message.first + k;
      out.push(el("text", step === n ? "here" : "muted", { x: 8, y: y(step) + 4 }, `step ${step}`));
      if (each.operator && step <= n) out.push(el("circle", step === n ? "here" : "", { cx: x(each.operator), cy: y(step), r: 4 }));
    }
    for (const move of moves) {
      const [left, right, top] = [x(move.source), x(move.target), y(move.sent)], end = move.taken == null || move.taken > n ? Math.min(y(n) + 14, bottom) : y(move.taken);
      const words = said(move.chips), lost = move.dropped && move.dropped <= n, minus = words.startsWith("−") ? " minus" : "";
      const [dx, dy] = [right - left, end - top].map((each) => (10 * each) / Math.hypot(right - left, end - top));
      out.push(el("path", `${move.kind}${minus}${lost ? " dropped" : ""}`, { d: `M${left} ${top}L${right} ${end}M${right - dx - dy / 2} ${end - dy + dx / 2}L${right} ${end}L${right - dx + dy / 2} ${end - dy - dx / 2}` }),
        el("text", "words", { x: (left + right) / 2, y: (top + end) / 2 - 4, "text-anchor": "middle" }, words + (lost ? " dropped" : "")));
    }
    const width = 60 + wide * names.length;
    return el("svg", "time", { width, height: bottom + 6, viewBox: `0 0 ${width} ${bottom + 6}`, role: "img", "aria-label": `Messages of ${message.text}, step by step` }, out);
  }

  /** What a move says, in one line: of two rows, what becomes what. @param {string[][]} chips */
  function said(chips) {
    if (chips.length < 2) return chips[0].join(" ").trim();
    const [[, ...old], [badge, ...now]] = chips;
    return [badge, ...now.map((each, n) => (each === old[n] ? each : `${old[n]} → ${each}`))].join(" ");
  }

  // --- the stepper ---------------------------------------------------------------------------------------------------

  class Stepper {
    /** @param {Element} place @param {any} data @param {{ask?: (request: any) => Promise<any>}} means */
    constructor(place, data, { ask } = {}) {
      Object.assign(this, { ask, histories: [{ name: "main", label: "", data }], at: 0, step: data.at ?? 0, answers: new Map(), run: 0 });
      const part = (/** @type {string} */ name, tag = "div", options = {}) => (this[name] = el(tag, name, options));
      const field = (/** @type {string} */ label) => el("input", "", { type: "text", autocomplete: "off", autocapitalize: "off", spellcheck: "false", maxlength: 500, "aria-label": label });
      const form = (/** @type {string} */ name, /** @type {() => void} */ done, ...inside) => (this[name] = el("form", name, { onsubmit: (/** @type {Event} */ event) => { event.preventDefault(); done(); } }, ...inside));
      this.guess = field("your prediction");
      this.typed = field("message");
      form("asking", () => this.check(this.guess.value), this.questions = el("div", "most", {}, part("question", "p")),
        el("div", "row", {}, part("choices", "span"), this.guess, this.checking = el("button", "", { type: "submit" }, "Check"), part("verdict", "span", { role: "status" }), part("score", "span")));
      form("editing", () => this.fork(), part("which", "label"), this.typed, el("button", "", { type: "submit" }, "Fork"), button("Cancel", "Esc", () => this.leave()), part("word", "span", { role: "status" }));
      this.editing.hidden = true;
      const bar = part("bar");
      bar.append(this.backward = button("Back", "←", () => this.go(this.step - 1)), this.forward = button("Next", "→", () => this.next()), button("End of message", "E", () => this.end()),
        this.running = button("Run", "Space", () => this.toggle()), part("where", "span"), ...(ask ? [button("Edit", "M", () => this.edit(false)), button("Insert", "I", () => this.edit(true))] : []),
        this.other = button("Next history", "F", () => this.turn()), this.timing = button("Messages", "T", () => this.time()), button("Keys", "?", () => this.help.toggleAttribute("hidden")));
      this.slider = el("input", "slider", { type: "range", min: 0, "aria-label": "step", oninput: (/** @type {any} */ event) => this.go(Number(event.target.value)) });
      this.help = el("ul", "help", { hidden: true }, KEYS.map(([keys, what, python]) => el("li", "", {}, keys.split(" ").map((key) => el("kbd", "", {}, key)), ` ${what}${python && !ask ? ", in JupyterLab" : ""}`)));
      this.root = el("section", "ssl stepper", { tabindex: 0, "aria-label": `stepper: ${data.title}`, "data-lm-suppress-shortcuts": "true", onkeydown: (/** @type {any} */ event) => this.press(event) },
        el("header", "", {}, part("title", "h3"), part("bill", "dl"), part("sql", "details")), part("scene"), part("over", "div", { hidden: true }), part("marks"),
        this.captions = el("div", "most", {}, part("caption", "p", { "aria-live": "polite" })), this.asking, this.editing, bar, part("strip", "div", { "aria-hidden": "true" }), this.slider, this.help);
      place.append(this.root);
      this.open(0);
      this.watch = new ResizeObserver(() => {
        this.root.classList.toggle("narrow", this.root.clientWidth < NARROW);
        this.diagram.draw();
        this.diagram.follow(this.scene);
      });
      this.watch.observe(this.root);
    }

    get history() { return this.histories[this.at]; }
    get data() { return this.history.data; }
    get last() { return this.data.steps.length - 1; }
    /** The number of the current message, from 1; 0 before the first. */
    get message() { return this.data.messages.findIndex((/** @type {any} */ each) => each.first <= this.step && this.step <= each.last) + 1; }
    get asked() { return this.data.steps[this.step].question; }
    get key() { return `${this.step < (this.history.from ?? 0) ? "main" : this.history.name} ${this.step}`; }

    /** Show a history. @param {number} at @param {number} step */
    open(at, step = this.step) {
      this.at = at;
      const { data } = this;
      this.diagram = this.history.diagram ??= new Diagram(data);
      this.scene.replaceChildren(this.diagram.root);
      this.marks.replaceChildren(legend(data));
      this.strip.replaceChildren(...data.messages.map(({ text, first, last, epoch }) => {
        const kind = /^(read|evict|install|drop|hold|pause|deliver|resume)\b/.exec(text)?.[1];
        return el("span", "", { style: `flex:${last - first + 1}`, title: text, onclick: () => this.go(last) }, kind ?? [el("span", "unit", {}, "epoch "), epoch]);
      }));
      this.slider.max = this.last;
      this.other.hidden = this.histories.length < 2;
      // The longest caption and the longest question keep their room, so that nothing below them moves.
      const longest = (/** @type {string[]} */ words) => words.toSorted((a, b) => b.length - a.length).slice(0, 2).map((each) => el("p", "longest", { "aria-hidden": "true" }, each));
      this.captions.replaceChildren(this.caption, ...longest([...data.steps.map((/** @type {any} */ each) => each.caption), ...data.messages.map(refusal)]));
      const questions = data.steps.flatMap(({ question }) => (question ? [question.text] : []));
      this.questions.replaceChildren(this.question, ...longest(questions));
      this.asking.hidden = !questions.length;
      const [sql] = data.sql, long = data.sql.join("; ");
      this.sql.replaceChildren(el("summary", "", {}, el("span", "short", {}, data.sql.length > 1 ? `${data.sql.length} views` : sql ?? ""), el("span", "whole", {}, "SQL")), el("code", "", {}, long));
      this.go(Math.min(step, this.last));
    }

    /** @param {number} step */
    go(step) {
      const moved = this.step !== step;
      this.step = Math.min(Math.max(step, 0), this.last);
      const { data } = this, now = data.steps[this.step], told = data.messages[this.message - 1], history = this.at ? `history ${this.history.name} (${this.history.label})` : "";
      this.root.classList.toggle("narrow", this.root.clientWidth < NARROW);
      this.diagram.show(this.step);
      this.diagram.follow(this.scene);
      if (!this.over.hidden) {
        this.over.replaceChildren(overTime(data, this.diagram.titles, this.step, this.over.clientWidth));
        const [inner, outer] = [this.over.querySelector("circle.here") ?? this.over, this.over].map((each) => each.getBoundingClientRect());
        this.over.scrollLeft += inner.left < outer.left || inner.right > outer.right ? (inner.left + inner.right - outer.left - outer.right) / 2 : 0;
        this.over.scrollTop += inner.top < outer.top || inner.bottom > outer.bottom ? inner.top - outer.top - 60 : 0;
      }
      this.title.textContent = data.title;
      this.bill.replaceChildren(...billed(now, data.steps));
      this.caption.textContent = (told && refusal(told)) || now.caption;
      this.where.textContent = this.where.title = [`step ${this.step} of ${this.last}`, told?.text, history].filter(Boolean).join(", ");
      this.slider.value = this.step;
      this.slider.setAttribute("aria-valuetext", `step ${this.step} of ${this.last}, epoch ${now.epoch}`);
      [...this.strip.children].forEach((each, n) => each.classList.toggle("here", n === this.message - 1));
      [this.backward.disabled, this.forward.disabled] = [this.step === 0, this.step === this.last];
      if (moved) [this.guess.value, this.verdict.textContent] = ["", ""];
      this.questioned();
    }
    next() { this.go(this.step + 1); }
    end() {
      const message = this.data.messages.find((/** @type {any} */ each) => each.last > this.step);
      if (message) this.go(message.last);
    }
    /** @param {number} by */
    page(by) {
      const to = this.data.messages[this.message - 1 + by];
      this.go(to ? to.last : by > 0 ? this.last : 0);
    }
    toggle() {
      if (this.run) this.run = clearInterval(this.run);
      else this.run = setInterval(() => (this.step < this.last ? this.go(this.step + 1) : this.toggle()), PACE);
      this.running.firstChild.textContent = this.run ? "Pause" : "Run";
    }
    time() {
      this.over.hidden = !this.over.hidden;
      this.scene.hidden = !this.over.hidden;
      this.timing.firstChild.textContent = this.over.hidden ? "Messages" : "State";
      this.go(this.step);
    }
    turn() { if (this.histories.length > 1) this.open((this.at + 1) % this.histories.length); }
    leave() {
      this.editing.hidden = this.help.hidden = true;
      this.root.focus({ preventScroll: true });
    }

    // --- questions and forks

    questioned() {
      const { asked } = this, given = this.answers.get(this.key), yes = asked && here.sharedstate.judge.unsealed(asked).form === "yes";
      this.asking.classList.toggle("open", Boolean(asked));
      this.question.textContent = asked ? asked.text : "";
      this.choices.replaceChildren(...(yes && !given ? ["yes", "no"].map((each) => button(each, "", () => this.check(each))) : []));
      this.guess.hidden = this.checking.hidden = !asked || yes || Boolean(given);
      if (asked) this.guess.placeholder = asked.hint;
      if (given) this.say(`You said ${given.text}. ${given.verdict.text}`, given.verdict.right);
      const all = [...this.answers.values()], right = all.filter((each) => each.verdict.right).length;
      this.score.textContent = all.length ? `${right} of ${all.length} right` : "";
    }
    /** @param {string} text @param {boolean | null} right */
    say(text, right) {
      this.verdict.textContent = `${right === null ? "" : right ? "✓ " : "✗ "}${text}`;
      this.verdict.className = `verdict${right === null ? "" : right ? " right" : " wrong"}`;
    }
    /** @param {string} text */
    check(text) {
      if (!this.asked) return;
      const verdict = here.sharedstate.judge.step(this.asked, text);
      if (verdict.right === null) { this.say(verdict.text, null); this.guess.focus(); return; }
      if (!this.answers.has(this.key)) this.answers.set(this.key, { text: text.trim(), verdict });
      this.questioned();
      this.root.focus({ preventScroll: true });
    }
    /** @param {boolean} insert */
    edit(insert) {
      if (!this.ask) return;
      const at = Math.max(this.message, 1), old = this.data.messages[at - 1];
      this.change = { message: at, insert };
      this.which.textContent = insert ? `Insert before message ${at}` : `Change message ${at} to`;
      this.typed.value = insert || !old ? "" : old.text;
      this.typed.placeholder = this.data.messages.at(-1)?.text ?? "";
      this.word.textContent = "";
      this.editing.hidden = false;
      this.typed.focus();
      this.typed.select();
    }
    /** Python plays the edited history, and answers with its recording or says why not. */
    async fork() {
      const late = setTimeout(() => (this.word.textContent = SILENT), PATIENCE), { message } = this.change;
      const made = await this.ask({ history: this.history.name, text: this.typed.value, ...this.change });
      clearTimeout(late);
      this.word.textContent = made.error ?? "";
      if (made.error) { this.typed.focus(); return; }
      const known = this.histories.findIndex((each) => each.name === made.name), first = made.data?.messages[message - 1]?.first ?? 1;
      if (known < 0) this.histories.push({ ...made, from: first });
      this.leave();
      this.open(known < 0 ? this.histories.length - 1 : known, known < 0 ? first - 1 : this.step);
    }

    /** @param {any} event */
    press(event) {
      const tag = event.target.tagName, type = event.target.type, key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (key !== "Tab") event.stopPropagation();
      if (type === "text" && key !== "Escape") return;
      if (["BUTTON", "SUMMARY"].includes(tag) && [" ", "Enter"].includes(key)) return;
      /** @type {Record<string, () => any>} */
      const acts = {
        ArrowLeft: () => this.go(this.step - 1), ArrowRight: () => this.next(), Home: () => this.go(0), End: () => this.go(this.last), PageUp: () => this.page(-1), PageDown: () => this.page(1),
        e: () => this.end(), t: () => this.time(), " ": () => this.toggle(), "?": () => this.help.toggleAttribute("hidden"), Escape: () => this.leave(), f: () => this.turn(),
        p: () => this.answer(), "/": () => this.answer(), m: () => this.edit(false), i: () => this.edit(true), Enter: () => event.target.dataset.operator && this.diagram.fold(event.target),
      };
      if (!acts[key]) return;
      event.preventDefault();
      acts[key]();
    }
    answer() {
      (this.guess.hidden ? this.choices.querySelector("button") : this.guess)?.focus();
      this.guess.select();
    }
    close() { clearInterval(this.run); this.watch.disconnect(); }
  }

  /** What the marks of a picture mean, as far as it has them. @param {any} data */
  function legend(data) {
    const tables = data.steps.flatMap((/** @type {any} */ step) => Object.values(step.states)).flatMap((/** @type {any} */ state) => state.tables);
    const looked = (/** @type {any} */ table) => [table, ...(table.batches ?? [])].some((each) => (each.rows ?? []).some((/** @type {Row} */ row) => row.looked));
    /** @type {[boolean, string, string, string][]} */
    const marks = [
      [data.edges.some((/** @type {any} */ edge) => edge.kind === "read"), "line read", "", "reads through a trace handle"],
      [data.edges.some((/** @type {any} */ edge) => edge.kind === "upquery"), "line upquery", "", "upqueries"],
      [tables.some((table) => table.holes?.some((/** @type {any} */ hole) => !hole.filled)), "hole", "hole", "must be asked for"],
      [tables.some((table) => table.readers?.length), "pin", "J", "a reader of this letter"],
      [tables.some((table) => table.batches), "", "▲", "since"],
      [tables.some(looked), "mark", "○", "looked up"],
      [data.steps.length > 1, "plus", "+", "inserted"],
      [data.steps.length > 1, "minus", "−", "deleted in this message"],
    ];
    return el("p", "legend", {}, marks.filter(([there]) => there).map(([, name, words, meaning]) => el("span", "", {}, el("i", name, {}, words), ` ${meaning}`)));
  }

  /** Why the engine refused a message; "" if it did not. @param {any} message */
  const refusal = ({ text, refused }) => (refused ? `${text}: ${refused}` : "");

  /** What is stored, in those columns of the bill that any step has. @param {any} step @param {any[]} all the steps */
  function billed({ epoch, totals }, all) {
    const columns = Object.entries(totals).filter(([name]) => all.some((each) => each.totals[name].rows || each.totals[name].bytes)).map(([name, { rows, bytes, before }]) => {
      const more = rows - before;
      return el("div", "", { title: TOLD[name] }, el("dt", "", {}, BILL[name]), el("dd", "", {}, el("b", "", {}, count(rows, "row")), more ? el("i", more < 0 ? "less" : "more", {}, more < 0 ? `−${-more}` : `+${more}`) : "", `, ${size(bytes)}`));
    });
    return [el("div", "", { title: "The number of epochs that were sealed." }, el("dt", "", {}, "epoch"), el("dd", "", {}, el("b", "", {}, String(epoch)))), ...columns];
  }

  /** @param {any} place @param {any} data @param {(place: any, data: any) => any} draw */
  function checked(place, data, draw) {
    if (data.version === VERSION) return draw(place, data);
    place.append(el("p", "", {}, `This recording has version ${data.version}; this page shows version ${VERSION}. Run the cell again.`));
  }
  here.sharedstate.stepper = { KEYS, messagesAt, columnsOf, mount: (/** @type {any} */ place, /** @type {any} */ data, /** @type {any} */ means = {}) => checked(place, data, () => new Stepper(place, data, means)) };
  here.sharedstate.graph = {
    mount: (/** @type {any} */ place, /** @type {any} */ data) => checked(place, data, () => {
      const diagram = new Diagram(data), scene = el("div", "scene", {}, diagram.root);
      const root = el("section", "ssl stepper still", { "aria-label": data.title }, el("header", "", {}, el("h3", "title", {}, data.title), el("dl", "bill", {}, data.steps[0].totals ? billed(data.steps[0], data.steps).slice(1) : "")), scene, el("div", "marks", {}, legend(data)));
      place.append(root);
      new ResizeObserver(() => { root.classList.toggle("narrow", root.clientWidth < NARROW); diagram.draw(); }).observe(root);
      diagram.show(0);
    }),
  };
})();
