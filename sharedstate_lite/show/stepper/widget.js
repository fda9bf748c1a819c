// The browser side of the stepper. It shows frames that are drawn in Python, moves between them without waiting for
// Python, and reports its position to Python.
//
// It requests frames ahead of time. Answers and histories are kept in Python. If Python is not running, as on a page that
// was saved with its widgets, it steps through the frames that the page contains. If the history is `fixed`, as on the
// website, nothing that needs Python is offered.

// The keys, what they do, and whether that needs Python.
const KEYS = [
  ["←  →", "previous or next step"], ["E", "go to the end of the message"], ["Space", "run or pause"],
  ["Home  End", "first or last step"], ["PageUp  PageDown", "previous or next message"],
  ["P  /", "type a prediction", true], ["Enter", "check it; fold or open an operator", true], ["Esc", "cancel", true],
  ["M", "edit this message", true], ["I", "insert a message before this one", true], ["F", "next history", true],
  ["Shift F", "original history", true],
  ["Tab", "move to the next operator or button"], ["T", "show messages over time, or state"], ["?", "show or hide these keys"],
];
const PACE = 900, AHEAD = 14, BEHIND = 3, RETRY = 3000, LONGEST = 60000;
const SILENT = "Python does not answer. It may be busy with another cell. If it was restarted, run the cells again, starting with the first. You can still view the steps that are already drawn.";
const GONE = "Python has released this stepper. To use it, run the cells again, starting with the first. You can still view the steps that are already drawn.";

function make(tag, options = {}, ...inside) {
  const { cls, ...rest } = options, out = document.createElement(tag);
  if (cls) out.className = cls;
  for (const [name, value] of Object.entries(rest)) {
    if (name.startsWith("on")) out.addEventListener(name.slice(2), value);
    else if (value === true) out.setAttribute(name, "");
    else if (value !== false && value != null) out.setAttribute(name, value);
  }
  out.append(...inside.filter((x) => x != null));
  return out;
}

const button = (words, key, onclick, options = {}) =>
  make("button", { type: "button", onclick, ...options }, words, key ? make("kbd", {}, key) : null);

class View {
  constructor(model, place) {
    this.model = model;
    this.name = crypto.getRandomValues(new Uint32Array(2)).join("-");
    this.frames = new Map();
    this.asked = new Set();
    this.pending = new Map();
    this.sent = this.acted = 0;
    this.run = null;
    this.editing = null;
    this.draft = "";
    this.build(place);
    this.take(model.get("state"));
    const kept = model.get("kept") || {};
    this.width = this.kept = kept.width || 800;
    for (const [n, frame] of Object.entries(kept.frames || {})) this.frames.set(this.key(+n, kept.branch), frame);
    this.line = kept.line || null;
    this.onstate = () => this.follow();
    this.onmessage = (message) => this.receive(message);
    model.on("change:state", this.onstate);
    model.on("msg:custom", this.onmessage);
    this.show();
    this.watch = new ResizeObserver(() => this.measure());
    this.watch.observe(this.root);
  }

  close() {
    this.pause();
    clearTimeout(this.again);
    this.watch.disconnect();
    this.model.off("change:state", this.onstate);
    this.model.off("msg:custom", this.onmessage);
  }

  // --- elements ----------------------------------------------------------------

  build(place) {
    const at = (cls, tag = "div", options = {}) => (this[cls] = make(tag, { cls, ...options }));
    const head = make("header", {},
      make("div", {}, at("title", "h3"), at("counts")),
      make("div", {}, at("sql", "code"), at("base", "p")));
    at("silence", "p", { role: "status", hidden: true });
    const words = make("div", { cls: "words" }, at("caption", "p", { "aria-live": "polite" }), at("legend"));
    this.input = make("input", {
      type: "text", autocomplete: "off", spellcheck: "false", "aria-label": "prediction",
      onkeydown: (e) => this.typed(e, () => this.check(), () => this.leave()),
      oninput: () => (this.draft = this.input.value),
    });
    this.checking = button("Check", "Enter", () => this.check());
    const ask = (this.asking = make("div", { cls: "ask" },
      at("what", "b"), at("question", "span"), this.input, this.checking, at("verdict", "span", { role: "status" }), at("score", "span")));
    this.field = make("input", {
      type: "text", autocomplete: "off", spellcheck: "false", "aria-label": "message",
      onkeydown: (e) => this.typed(e, () => this.fork(), () => this.cancel()),
    });
    this.edit = make("div", { cls: "edit", hidden: true }, at("which", "label"), this.field,
      button("Fork", "Enter", () => this.fork()), button("Cancel", "Esc", () => this.cancel()),
      at("word", "span", { role: "status" }));
    this.running = button("Run", "Space", () => this.toggle());
    const bar = make("div", { cls: "bar" },
      button("Back", "←", () => this.move(-1)), (this.going = button("Next", "→", () => this.next(), { cls: "next" })),
      button("End of message", "E", () => this.end()), this.running, at("where", "span"), at("said", "span"),
      ...(this.fixed ? [] : [button("Edit", "M", () => this.open(false)), button("Insert", "I", () => this.open(true))]),
      (this.other = button("History", "F", () => this.request({ do: "branch" }))),
      (this.turning = button("Messages", "T", () => this.turn())), button("?", "", () => this.help.toggleAttribute("hidden"), { "aria-label": "keys" }));
    this.slide = make("div", { cls: "slide", tabindex: 0, role: "slider", "aria-label": "steps", "aria-valuemin": 0,
      onpointerdown: (e) => this.point(e) });
    this.help = make("div", { cls: "help", hidden: true },
      ...KEYS.filter(([, , python]) => !(python && this.fixed)).map(([keys, what]) => make("div", {}, ...keys.split("  ").map((k) => make("kbd", {}, k)), " " + what)));
    this.root = make("section", { cls: "ssl ssl-stepper", tabindex: 0, "aria-label": "stepper",
      "data-lm-suppress-shortcuts": "true", onkeydown: (e) => this.press(e) },
      head, at("scene", "div"), words, this.silence, ask, this.edit, bar, this.slide, this.help);
    place.append(this.root);
  }

  get history() { return this.model.get("history"); }
  get last() { return this.history.last; }
  get fixed() { return Boolean(this.history.fixed); }
  key(step, branch = this.branch, width = this.width) { return [branch, width, this.version, step].join("|"); }
  // Until the frame for this width arrives, and if Python does not run, the frame that the page contains is shown.
  frame() { return this.frames.get(this.key(this.step)) || this.frames.get(this.key(this.step, this.branch, this.kept)); }

  take(state) {
    ({ branch: this.branch, step: this.step, version: this.version } = state);
    this.state = state;
  }

  // --- Python -------------------------------------------------------------------

  // A request stays pending until Python acknowledges it, and is repeated at growing intervals, because it can get lost
  // while the page and the kernel connect, and because a busy kernel answers late. Python never applies a request twice.
  request(message) {
    this.sent += 1;
    if (message.do !== "frames") this.acted = this.sent;
    this.pending.set(this.sent, { ...message, seq: this.sent, view: this.name });
    this.send(this.pending.get(this.sent));
    this.again ??= setTimeout(() => this.retry(RETRY), RETRY);
  }

  send(message) { try { this.model.send(message); } catch { this.report(GONE); } }
  report(words) { [this.silence.textContent, this.silence.hidden] = [words, !words]; }

  retry(waited) {
    this.report(SILENT);
    for (const message of this.pending.values()) this.send(message);
    const longer = Math.min(2 * waited, LONGEST);
    this.again = setTimeout(() => this.retry(longer), longer);
  }

  acknowledged(seq) {
    this.pending.delete(seq);
    if (!this.pending.size) [this.again] = [clearTimeout(this.again), this.report("")];
  }

  follow() {
    const state = this.model.get("state");
    if (state.seq < this.acted && state.branch === this.branch && state.version === this.version) {
      // The state is older than the last request, so only its score is new.
      this.state = { ...state, step: this.step };
    } else {
      this.take(state);
    }
    this.show();
  }

  receive(message) {
    if (message.view === this.name) this.acknowledged(message.seq);
    if (message.type === "frames") {
      const key = (n) => [message.branch, message.width, message.version, n].join("|");
      for (const [n, frame] of Object.entries(message.frames)) this.frames.set(key(n), frame);
      for (const n of ["line", ...Object.keys(message.frames)]) this.asked.delete(key(n));
      if (this.frames.size > 3000) this.frames = new Map([...this.frames].slice(-1500));
      if (message.branch === this.branch && message.width === this.width) this.line = message.line;
      this.show();
    } else if (message.type === "error") {
      const place = message.where === "edit" ? this.word : this.verdict;
      place.textContent = message.text;
      place.className = `${message.where === "edit" ? "word" : "verdict"} wrong`;
    } else if (message.type === "forked") {
      [this.begun] = [this.editing && this.editing.message, this.cancel()];
      this.show();
    }
  }

  fetch() {
    const from = Math.max(this.step - BEHIND, 0), to = Math.min(this.step + AHEAD, this.last), wanted = [];
    for (let n = from; n <= to; n += 1) {
      const key = this.key(n);
      if (!this.frames.has(key) && !this.asked.has(key)) wanted.push(n);
    }
    const near = wanted.some((n) => Math.abs(n - this.step) < 5), line = this.key("line");
    const ruled = this.asked.has(line) || (this.line && this.line.rows.some((r) => r.branch === this.branch));
    if (ruled && (!wanted.length || (!near && wanted.length < AHEAD / 2))) return;
    for (const key of [line, ...wanted.map((n) => this.key(n))]) this.asked.add(key);
    this.request({ do: "frames", branch: this.branch, width: this.width, steps: wanted });
  }

  measure() {
    const wide = Math.min(Math.max(Math.floor((this.root.clientWidth || 800) / 10) * 10, 560), 1400);
    this.root.classList.toggle("narrow", wide < 760);
    if (wide === this.width && this.line) return;
    clearTimeout(this.soon);
    const widen = () => { if (wide !== this.width) [this.width, this.line] = [wide, null]; this.show(); };
    this.soon = setTimeout(widen, this.line ? 120 : 0);
  }

  // --- moving -------------------------------------------------------------------

  go(step, how = "goto") {
    const to = Math.min(Math.max(step, 0), this.last);
    if (to === this.step) return;
    this.step = to;
    this.draft = "";
    this.verdict.textContent = "";
    this.request(how === "next" ? { do: "next" } : { do: "goto", step: to });
    this.show();
  }

  next() { this.go(this.step + 1, "next"); }
  move(by) { this.go(this.step + by); }
  at() { return this.history.messages.findIndex((m) => m.first <= this.step && this.step <= m.last); }
  end() {
    const here = this.history.messages.find((m) => m.last > this.step);
    if (here) this.go(here.last);
  }
  page(by) {
    const to = this.history.messages[Math.max(this.at() + by, -1)];
    this.go(to ? to.last : by > 0 ? this.last : 0);
  }
  toggle() { if (this.run) this.pause(); else this.run = setInterval(() => this.beat(), PACE), this.show(); }
  pause() { clearInterval(this.run); this.run = null; this.show(); }
  turn() {
    this.timed = this.root.classList.toggle("timed");
    [this.turning.firstChild.textContent, this.tall] = [this.timed ? "State" : "Messages", 0];
    this.show();
  }
  beat() { if (this.step >= this.last) this.pause(); else this.move(1); }

  point(event) {
    const row = this.line && this.line.rows.find((r) => r.branch === this.branch);
    if (!row) return;
    const x = event.clientX - this.slide.getBoundingClientRect().left;
    let best = 0;
    row.xs.forEach((each, n) => { if (Math.abs(each - x) < Math.abs(row.xs[best] - x)) best = n; });
    this.go(best);
  }

  press(event) {
    const field = event.target.tagName === "INPUT";
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (field) { event.stopPropagation(); return; }
    const operator = event.target.dataset && event.target.dataset.operator;
    const acts = {
      ArrowLeft: () => this.move(-1), ArrowRight: () => this.next(), Home: () => this.go(0), End: () => this.go(this.last),
      PageUp: () => this.page(-1), PageDown: () => this.page(1), e: () => this.end(), t: () => this.turn(), " ": () => this.toggle(),
      "?": () => this.help.toggleAttribute("hidden"), Escape: () => { this.help.hidden = true; this.cancel(); },
    };
    if (!this.fixed) Object.assign(acts, {
      p: () => this.input.focus(), "/": () => this.input.focus(), m: () => this.open(false), i: () => this.open(true),
      f: () => this.request({ do: "branch", first: event.shiftKey }),
      Enter: () => operator && this.request({ do: "fold", operator }),
    });
    const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act || (event.target.tagName === "BUTTON" && [" ", "Enter"].includes(event.key))) {
      if (event.key !== "Tab") event.stopPropagation();
      return;
    }
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  typed(event, enter, escape) {
    event.stopPropagation();
    if (event.key === "Enter" && !event.isComposing) { event.preventDefault(); enter(); }
    if (event.key === "Escape") { event.preventDefault(); escape(); }
  }

  // --- predictions and forks ----------------------------------------------------

  check() {
    if (this.asking.classList.contains("open")) this.request({ do: "predict", text: this.input.value });
  }
  leave() { this.root.focus({ preventScroll: true }); }

  open(insert) {
    const at = Math.max(this.at(), 0), here = this.history.messages[at];
    this.pause();
    this.editing = { message: at + 1, insert };
    this.which.textContent = insert ? `Insert before message ${at + 1}` : `Change message ${at + 1} to`;
    this.field.value = insert || !here ? "" : here.text;
    this.field.placeholder = this.history.example;
    this.word.textContent = "";
    this.edit.hidden = false;
    this.field.focus();
    this.field.select();
  }
  fork() { if (this.editing) this.request({ do: "fork", ...this.editing, text: this.field.value }); }
  cancel() {
    if (this.edit.hidden) return;
    this.editing = null;
    this.edit.hidden = true;
    this.leave();
  }

  // --- showing ------------------------------------------------------------------

  show() {
    if (!this.history) return;
    this.fetch();
    this.running.firstChild.textContent = this.run ? "Pause" : "Run";
    this.bounds();
    this.slider();
    const frame = this.frame();
    this.root.setAttribute("aria-busy", String(!this.frames.has(this.key(this.step))));
    if (frame) {
      const focused = document.activeElement && document.activeElement.dataset && document.activeElement.dataset.operator;
      const picture = (this.timed && frame.messages) || frame.svg;
      if (this.shown !== picture) this.scene.innerHTML = this.shown = picture;
      // The height of frames can differ if folding depends on the step. The elements below must not move.
      if (this.tallAt !== this.width + this.branch) [this.tallAt, this.tall] = [this.width + this.branch, 0];
      this.tall = Math.max(this.tall, +this.scene.firstElementChild.getAttribute("height"));
      this.scene.style.minHeight = `${this.tall}px`;
      if (focused && this.scene.isConnected) this.scene.querySelector(`[data-operator="${CSS.escape(focused)}"]`)?.focus();
      this.counters(frame);
      this.predicting(frame);
    }
  }

  bounds() {
    const [back, next] = this.root.querySelectorAll(".bar button");
    back.disabled = this.step <= 0;
    next.disabled = this.step >= this.last;
    // A disabled button would lose the keyboard focus.
    if ([back, next].some((each) => each.disabled && each === document.activeElement)) this.leave();
    this.other.hidden = this.state.branches.length < 2;
    this.where.replaceChildren("step ", make("b", {}, String(this.step)), ` of ${this.last}`);
    const told = this.history.messages[this.at()], begun = this.branch !== "main" && this.history.messages[this.begun - 1];
    // A fork begins before the changed message, so that its steps can be predicted.
    const said = begun && begun.first - 1 === this.step ? `message ${this.begun} comes next: ${begun.text}` : told ? told.refused || told.text : "";
    this.said.textContent = (this.branch === "main" ? "" : `history ${this.branch}: `) + said;
    this.said.classList.toggle("wrong", Boolean(told && told.refused));
    this.said.title = this.said.textContent;
  }

  counters(frame) {
    this.title.textContent = this.history.title;
    this.sql.textContent = this.sql.title = this.history.sql;
    this.base.textContent = frame.bill;
    if (this.legend.innerHTML === "") {
      this.legend.innerHTML = this.history.legend;
      this.help.prepend(make("div", { cls: "marks" }));
      this.help.firstElementChild.innerHTML = this.history.legend;
    }
    if (this.caption.textContent !== frame.caption) this.caption.textContent = frame.caption;
    const pair = ([name, value, change]) => {
      const more = change && make("i", { cls: change.startsWith("−") ? "less" : "" }, change);
      return make("span", {}, name, " ", make("b", {}, value), more || null);
    };
    this.counts.replaceChildren(...frame.counts.map(pair));
  }

  predicting(frame) {
    const { answers, score } = this.state, asks = frame.asks;
    const given = answers[this.step + 1] || (!asks && answers[this.step]);
    const typing = document.activeElement === this.input;
    this.asking.hidden = !this.history.predict;
    this.asking.classList.toggle("open", Boolean(asks && !given));
    this.input.hidden = this.checking.hidden = this.fixed || !(asks && !given);
    this.what.textContent = given ? "Predicted" : asks ? "Predict first" : "";
    const none = this.step < this.last ? "Nothing to predict before the next step." : "This was the last step.";
    this.question.textContent = given ? given.question : asks ? asks.text : none;
    this.question.classList.toggle("none", !given && !asks);
    if (asks && !given) {
      if (this.input.value !== this.draft) this.input.value = this.draft;
      this.input.placeholder = asks.hint || "";
    }
    if (given) {
      this.verdict.replaceChildren(make("q", {}, given.text || "nothing"), ` ${given.right ? "✓" : "✗"} `, make("b", {}, given.reply));
      this.verdict.className = `verdict ${given.right ? "right" : "wrong"}`;
    } else if (!asks) this.verdict.textContent = "";
    // Hiding the focused field would lose the keyboard focus.
    if (typing && this.input.hidden) this.leave();
    const dots = score.last.map((right) => make("i", { cls: right ? "dot" : "dot ring" }));
    const words = [score.total && `${score.right} of ${score.total} right`, score.skipped && `${score.skipped} skipped`];
    this.score.replaceChildren(...dots, ` ${words.filter(Boolean).join(", ")}`);
  }

  slider() {
    const { line } = this;
    const told = this.history.messages[this.at()];
    this.slide.setAttribute("aria-valuemax", this.last);
    this.slide.setAttribute("aria-valuenow", this.step);
    const where = told ? `message ${this.at() + 1}: ${told.text}` : "before the first message";
    this.slide.setAttribute("aria-valuetext", `step ${this.step} of ${this.last}, ${where}, history ${this.branch}`);
    if (!line) return;
    if (this.drawn !== line.svg) this.slide.innerHTML = (this.drawn = line.svg);
    const row = line.rows.find((r) => r.branch === this.branch);
    const svg = this.slide.firstElementChild;
    for (const old of svg.querySelectorAll(".mark, .walked")) old.remove();
    if (!row || row.xs[this.step] === undefined) return;
    const x = row.xs[this.step], mark = document.createElementNS("http://www.w3.org/2000/svg", "g");
    mark.setAttribute("class", "mark");
    // Before the fork, the mark is on the line of the parent history.
    const upper = line.rows[0], forked = row !== upper && x > row.begin, y = (forked ? row : upper).y;
    const join = forked ? `M${upper.xs[0]} ${upper.y}H${row.begin}` : "", from = forked ? row.begin + 10 : upper.xs[0];
    const walked = join + (x > from ? `M${from} ${y}H${x}` : "");
    mark.innerHTML = `<path d="${walked || "M0 0"}" class="walked"/><path d="M${x} ${y - 11}v19" class="here"/><circle cx="${x}" cy="${y}" r="5.5"/>`;
    svg.append(mark);
    for (const dots of svg.querySelectorAll(".dots")) {
      const here = +dots.dataset.row === line.rows.indexOf(row), from = +dots.dataset.from;
      [...dots.children].forEach((dot, n) => dot.classList.toggle("past", here ? from + n < this.step : n < this.step && +dots.dataset.row === 0 && upper.xs[n + 1] <= row.begin));
      if (here) dots.before(mark.firstElementChild);
    }
    for (const label of svg.querySelectorAll("[data-message]"))
      label.classList.toggle("b", told != null && +label.dataset.message === this.at() + 1);
  }
}

export default {
  render({ model, el }) {
    const view = new View(model, el);
    return () => view.close();
  },
};
