// @ts-check
// What a page does without Python: predictions are judged, and charts are drawn. JupyterLab, VS Code and the site load
// this one file. It is a classic script without imports, so it also runs on a page that is opened from a folder.
//
//   sharedstate.judge.verdict(data, "16 rows")       {right: true, ...}; right is null if the text is not an answer
//   sharedstate.prediction.mount(place, data, kept)  a form; `kept` reads and writes what the reader has answered
//   sharedstate.chart.mount(place, data)             a plotly figure, if plotly.js is loaded
//   sharedstate.stepper, sharedstate.graph           of stepper.js, which comes behind this script
//   sharedstate.widget                               what anywidget renders, in JupyterLab and VS Code
//
// `data` is the JSON that show/page/data.py makes of a question, and show/chart.py of a figure.
"use strict";
(() => {
  const VERSION = 1;
  /** @type {any} */
  const here = globalThis;
  if (here.sharedstate?.version === VERSION) return;

  // --- the judge: show/answers.py and replay/questions.py in JavaScript -------------------------------------------

  const FEW = 3;
  const FILLERS = new Set("a an the and it is only just also both all of one them".split(" "));
  const EMPTY = new Set(["nothing", "none", "empty", "neither"]);
  const NOTHING = new Set(["nothing", "none", "no", "no change", "no changes", "no rows", "nothing at all", "0", "-", "()", "[]"]);
  const UNITS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty";
  const TENS = "thirty forty fifty sixty seventy eighty ninety";
  /** @type {Map<string, number>} */
  const WORDS = new Map([
    ...UNITS.split(" ").map((word, n) => pair(word, n)), ...TENS.split(" ").map((word, n) => pair(word, 10 * (n + 3))),
    pair("none", 0), pair("nothing", 0), pair("empty", 0), pair("never", 0), pair("once", 1), pair("twice", 2),
  ]);
  /** @type {Record<string, number>} */
  const SHARES = { half: 2, halves: 2, third: 3, quarter: 4, fifth: 5, tenth: 10 };
  /** @type {Record<string, number>} */
  const SCALES = { k: 1000, hundred: 100, thousand: 1000, million: 1e6 };

  /** @param {string} word @param {number} value @returns {[string, number]} */
  function pair(word, value) { return [word, value]; }

  // A Python pattern: there, \w and \b know the letters of every language. \w stands only in brackets here.
  const LETTERS = "\\p{L}\\p{N}_", EDGE = `(?:(?<=[${LETTERS}])(?![${LETTERS}])|(?<![${LETTERS}])(?=[${LETTERS}]))`;
  /** @param {string} flags */
  const pattern = (flags) => (/** @type {TemplateStringsArray} */ parts, /** @type {any[]} */ ...values) =>
    new RegExp(String.raw(parts, ...values).replaceAll("\\w", LETTERS).replaceAll("\\b", EDGE), `${flags}u`);
  const one = pattern(""), all = pattern("g");

  const BOUND = one`\b(?:not|than|least|most|between|under|over|below|above|or|up|hundred|thousand|million)\b|[<>≤≥≠]`;
  const OFTEN = String.raw`\b(?:twice|double|triple|times|as (?:many|much))\b|fold\b|\d\s*[x×](?![\w])`;
  const TIMES = one`${OFTEN}`, COUNTED = one`${OFTEN}|\d\s*[x×]\s*\d`;
  const RELATIVE = all`\b(?:more|fewer|less|extra|each|apiece|per(?!\s?cent))\b`;
  const PRONOUN = all`\b(?:the [\w]+|the|this|that|which|last|first|next|new|old|other|same|every|each|any|no) ones?\b`;
  const PERCENT = one`%|\bper ?cent`;
  const POINT = one`(?<![\w.,])[1-9]\d{0,2}(?:\.\d{3})+(?![\d.])`;
  const SIGN = /^(?:[+-](?:\d+|[iud])?|insert|delete)$/;
  const SEPARATORS = ",'_\u00a0\u202f";
  const grouped = (/** @type {string} */ marks) => String.raw`[1-9]\d{0,2}(?:[${marks}]\d{3})+(?!\d)`;
  const SCALE = String.raw`(?:\s*(k|hundred|thousand|million)\b)?(?![\w]*[a-z_]\d)`;
  const ONE = all`(?<![\w.])([-+]?(?:(?:${grouped(`${SEPARATORS} `)}|\d+)(?:[.,]\d+)?|\.\d+)(?:e[-+]?\d+)?)(?:\s*\/\s*(\d+))?${SCALE}`;
  const MANY = all`(?<![\w.])([-+]?(?:(?:${grouped(SEPARATORS)}|\d+)(?:\.\d+)?|\.\d+)(?:e[-+]?\d+)?)()${SCALE}`;
  const THOUSANDS = one`^[-+]?${grouped(`${SEPARATORS} `)}`;
  const SHARE = all`(?:(\d+) |\ban? )?\b(${Object.keys(SHARES).join("|")})s?\b`;

  const folded = (/** @type {string} */ text) => text.toLowerCase().replaceAll("ß", "ss").replaceAll("’", "'").replace(/[−–]/g, "-");
  const wordsOf = (/** @type {string} */ text) => folded(text).match(all`[\w.]*[\w]`) ?? [];
  const isNumber = (/** @type {string} */ word) => /^[+-]?\d+(?:\.\d+)?$/.test(word);

  /** The words that matter; all words if none does. @param {string} text */
  function plain(text) {
    const words = wordsOf(text), kept = words.filter((word) => !FILLERS.has(word));
    return kept.length ? kept : words;
  }

  /** The numbers in a text, each with whether it is a fraction; null if the text is a bound or a negation.
   * @param {RegExp} number @param {string} typed @param {string[]} nouns @returns {[number, boolean][] | null} */
  function numbers(number, typed, nouns) {
    let text = folded(typed).replace(all`\bor so\b`, "").replace(all`\bnot at all\b`, "0");
    text = text.replace(PRONOUN, "").replace(all`\bminus\s+(?=[\w])`, "-");
    text = text.replace(all`\bno ([\w]+)`, (whole, noun) => (nouns.includes(noun) ? "0" : whole));
    text = text.replace(/[a-z]+/g, (word) => String(WORDS.get(word) ?? word));
    text = text.replace(SHARE, (_, many, share) => `${many || 1}/${SHARES[share]}`);
    text = text.replace(all`\b(?:out )?of (?:all )?(?:the )?(\d+)\b`, (whole, of) => (nouns.includes(of) ? "" : whole));
    if (nouns.includes("thousands")) text = text.replace(all`(?<=\d)\s*(?:k|thousand)\b`, "");
    if (BOUND.test(text.replace(number, " ")) || one`n't\b`.test(text)) return null;
    const found = [...text.matchAll(number)];
    if (found.some(([, , below]) => below && !Number(below))) return null;
    return found.map(([, each, below, scale]) => {
      const digits = THOUSANDS.test(each) ? each.replace(/[,'_\u00a0\u202f ]/g, "") : each;
      return [Number(digits.replaceAll(",", ".")) / Number(below || 1) * (SCALES[scale] ?? 1), Boolean(below)];
    });
  }

  /** Split a text into lower-case words, also inside quotes. @param {string} text @returns {string[]} */
  function tokens(text) {
    const found = text.toLowerCase().replaceAll("−", "-").match(/'(?:[^']|'')*'|"[^"]*"|[^\s,;()[\]{}]+/gu) ?? [];
    return found.flatMap((token) => {
      const quoted = token.length > 1 && `'"`.includes(token[0]) && token.at(-1) === token[0];
      const inside = quoted ? tokens(token.slice(1, -1).replaceAll("''", "'")) : [token];
      return inside.length ? inside : [""];
    });
  }

  /** Whether two words are equal, or are equal as numbers, of which the first may be rounded.
   * @param {string} word @param {string} wanted */
  function same(word, wanted) {
    if (word === wanted) return true;
    const number = /^[+-]?(?:\d(?:_?\d)*\.?(?:\d(?:_?\d)*)?|\.\d(?:_?\d)*)(?:e[+-]?\d+)?$/;
    if (!number.test(word) || !number.test(wanted)) return false;
    const [typed, value] = [word, wanted].map((each) => Number(each.replaceAll("_", "")));
    const decimals = word.includes(".") ? word.length - word.indexOf(".") - 1 : 0;
    return typed === value || (decimals >= 2 && decimals <= 12 && !word.includes("e") && Number(value.toFixed(decimals)) === typed);
  }

  /** Whether the words consist of exactly these rows, in any order. A row has one or several ways to type it, and a way
   * has the accepted words for each of its words.
   * @param {string[]} words @param {string[][][][]} rows @returns {boolean} */
  function covers(words, rows) {
    if (!rows.length) return !words.length;
    return rows.some((ways, at) => ways.some((row) =>
      words.length >= row.length && row.every((some, n) => some.some((wanted) => same(words[n], wanted))) &&
      covers(words.slice(row.length), rows.toSpliced(at, 1))));
  }

  /** How each form of an answer reads a text, as null if it is not an answer, and compares what was read.
   * @type {Record<string, {read: (form: any, text: string) => any, equal: (form: any, read: any, wanted: any) => boolean}>} */
  const FORMS = {
    number: {
      read(form, text) {
        const found = numbers(ONE, text.replace(/^[-+*/×(),.\d\s]*=/u, ""), form.nouns);
        const exact = plain(text).join(" ");
        if (found?.length !== 1 && form.times && form.nouns.includes("as") && plain(text)[0] === "same") return 1;
        if (found?.length !== 1) return form.words.find((/** @type {string} */ each) => plain(each).join(" ") === exact) ?? null;
        const [[value, share]] = found;
        if (!form.percent && ((share && form.whole) || PERCENT.test(folded(text)))) return null;
        if (!form.times && TIMES.test(folded(text))) return null;
        if (folded(text).match(RELATIVE)?.some((word) => !form.nouns.includes(word))) return null;
        const part = share || (form.shares && value > 0 && value < 1);
        return part && form.percent && !PERCENT.test(folded(text)) ? 100 * value : value;
      },
      equal(_, read, wanted) {
        if (typeof read === "string" || typeof wanted === "string") return read === wanted;
        return read === wanted || (wanted % 1 !== 0 && Math.abs(read - wanted) <= 0.005 * Math.abs(wanted));
      },
    },
    numbers: {
      read(form, text) {
        if (COUNTED.test(folded(text))) return null;
        for (const each of [text, text.replaceAll(",", ", ")]) {
          const values = numbers(MANY, each, [])?.map(([value]) => value);
          if (values?.length && (!form.counts.length || form.counts.includes(values.length)))
            return form.ordered ? values : [...new Set(values)].sort((a, b) => a - b);
        }
        return null;
      },
      equal: (_, read, wanted) => String(read) === String(wanted),
    },
    names: {
      read(form, text) {
        let words = wordsOf(text);
        const found = new Set();
        if (form.many && EMPTY.has(words.join(""))) return [];
        if (form.many && (String(words) === "all" || (String(words) === "both" && form.choices.length === 2))) return [...form.choices].sort();
        while (words.length) {
          let best = "", most = 0;
          for (const name of form.choices) {
            const parts = plain(name);
            if (parts.length > most && parts.every((part, n) => words[n] === part)) [best, most] = [name, parts.length];
          }
          if (most) found.add(best);
          else if (!FILLERS.has(words[0])) return null;
          words = words.slice(most || 1);
        }
        return found.size && (form.many || found.size === 1) ? [...found].sort() : null;
      },
      equal: (_, read, wanted) => JSON.stringify(read) === JSON.stringify(wanted),
    },
    parts: {
      read(form, text) {
        const found = parts(form, text);
        return found && Object.keys(found).length === form.names.length ? found : null;
      },
      equal: (_, read, wanted) => Object.entries(wanted).every(([name, value]) => read[name] === value),
    },
    rows: {
      read(form, text) {
        const typed = tokens(text.trim().replace(/[.!?]+$/, "").replace(/(?<!\S)([+-])(?=[\p{L}_]{2})/gu, "$1 "));
        const empty = typed.some((word) => EMPTY.has(word)) && !typed.includes("not") && !/\d/.test(text);
        if (NOTHING.has(typed.join(" ")) || empty) return [];
        /** @type {string[]} */
        const words = [];
        const unitOf = (/** @type {string} */ word) => form.units.some((/** @type {string} */ unit) => unit.startsWith(word));
        for (const each of typed) {
          const measured = /^([+-]?\d+(?:\.\d+)?)([a-z]+)$/.exec(each);
          const word = WORDS.has(each) && !form.words.includes(each) ? String(WORDS.get(each)) : measured && unitOf(measured[2]) ? measured[1] : each;
          const unit = words.length && word && isNumber(String(words.at(-1))) && unitOf(word);
          if (form.words.includes(word) || !(unit || FILLERS.has(word))) words.push(word);
        }
        if (["0", "0 rows", "0 changes"].includes(words.join(" "))) return [];
        const known = words.every((word) => form.words.includes(word) || form.nouns.includes(word) || SIGN.test(word) || isNumber(word));
        const row = form.sizes.map((/** @type {number} */ size) => `[sv]{${size}}`).join("|") || "[sv]+";
        const rows = form.signed ? `(?:s(?:${row}))+|(?:(?:${row})s)+` : `(?:${row})+`;
        const kinds = words.map((word) => (word === "1" || SIGN.test(word) ? "s" : "v")).join("");
        return known && new RegExp(`^(?:${rows})$`).test(kinds) ? words : null;
      },
      // A row is [accepted words of its sign, ways to type its values]; the sign stands first in all rows, or last.
      equal(_, read, wanted) {
        const either = [(sign, way) => [...sign, ...way], (sign, way) => [...way, ...sign]];
        return either.some((joined) => covers(read, wanted.map(([sign, ways]) => ways.map((way) => joined(sign, way)))));
      },
    },
  };

  /** The values of some names, such as "left 1". @param {any} form @param {string} text @returns {Record<string, any> | null} */
  function parts(form, text) {
    const row = (/** @type {string} */ each, count = form.names.length) => {
      let values = [];
      if (form.choices.length) {
        const words = plain(each);
        if (words.length === count && words.every((word) => form.choices.includes(word))) values = words;
      } else values = FORMS.numbers.read({ counts: [count], ordered: true }, each) ?? [];
      return values.length ? values : null;
    };
    const named = (/** @type {any[] | null} */ values) => values && Object.fromEntries(form.names.map((/** @type {string} */ name, /** @type {number} */ n) => [name, values[n]]));
    const names = Object.fromEntries(form.names.map((/** @type {string} */ name) => [name.toLowerCase(), name]));
    const escaped = Object.keys(names).map((name) => name.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
    const cut = folded(text).split(one`\b(${escaped.join("|")})\b`);
    if (cut.length === 1) return named(row(cut[0]));
    const labels = cut.filter((_, n) => n % 2), between = cut.filter((_, n) => n % 2 === 0);
    const read = (row(between[0], 1) ? between.slice(0, -1) : between.slice(1)).map((each) => row(each, 1));
    if (new Set(labels).size < labels.length || read.includes(null)) return null;
    return Object.fromEntries(labels.map((label, n) => [names[label], read[n]?.[0]]));
  }

  const digit = (/** @type {string} */ found) => {
    let zero = Number(found.codePointAt(0));
    while (/\p{Nd}/u.test(String.fromCodePoint(zero - 1))) zero -= 1;
    return String((Number(found.codePointAt(0)) - zero) % 10);
  };

  const judge = {
    /** Judge a text. right: true, false, or null if the text is not an answer; why: the explanation of a wrong one.
     * @param {any} data @param {string} text @returns {{right: boolean | null, why: string, hint: string}} */
    verdict(data, text) {
      const { form, right: wanted, answer, tolerance, whys } = judge.unsealed(data);
      const typed = text.slice(0, 500).replace(/\p{Nd}/gu, digit), how = FORMS[form.kind];
      const read = how.read(form, typed);
      const unclear = form.whole && POINT.test(typed);
      const hint = [unclear ? "A point is a decimal point; a comma is for thousands." : "", data.hint].filter(Boolean).join(" ");
      if (read === null) return { right: null, why: "", hint };
      const number = () => {
        if (typeof read === "string") return false;
        if (Array.isArray(tolerance)) return tolerance[0] <= read && read <= tolerance[1];
        const [low, high] = [read, answer].sort((a, b) => a - b);
        return how.equal(form, read, wanted) || (low > 0 && high <= tolerance * low);
      };
      if (wanted !== null && (form.kind === "number" ? number() : how.equal(form, read, wanted))) return { right: true, why: "", hint: "" };
      if (unclear) return { right: null, why: "", hint };
      const found = whys.find((/** @type {any} */ each) => each.wrong !== null && how.equal(form, read, each.wrong));
      // A number has a direction, unless few numbers would remain.
      const far = typeof read === "number" && typeof wanted === "number" && !(form.whole && Math.abs(wanted) <= FEW);
      const direction = far ? `That is too ${read > wanted ? "high" : "low"}.` : "";
      return { right: false, why: found?.why ?? direction, hint: "" };
    },

    /** Judge an answer to a question of the stepper: replay/questions.py in JavaScript.
     * @param {any} data @param {string} text @returns {{right: boolean | null, text: string}} */
    step(data, text) {
      const { form, answer, yes, rows, sizes, columns } = judge.unsealed(data), hint = data.hint ? ` (${data.hint})` : "";
      const typed = text.slice(0, 500).toLowerCase().replaceAll("−", "-").split(/\s+/).filter(Boolean).join(" ").replace(/[.!]+$/, "");
      const told = (/** @type {boolean} */ right) => ({ right, text: right ? "Right." : `Not quite: it is ${answer}.` });
      if (!typed) return { right: null, text: `Type an answer${hint}.` };
      if (form === "yes") {
        const said = ["yes", "y", "true", "dropped"].includes(typed);
        return said || ["no", "n", "false", "kept"].includes(typed) ? told(said === yes) : { right: null, text: "Answer yes or no." };
      }
      if (NOTHING.has(typed)) return told(!rows[0].length);
      const words = tokens(/\band\b/.test(answer) ? typed : typed.replace(/ and /g, ", "));
      if (form === "rows" && !SIGN.test(words[0] ?? "")) return { right: null, text: `Start each row with its kind, or with + or -${hint}.` };
      const right = rows.some((/** @type {any} */ each) => covers(words, each)), row = sizes.map((/** @type {number} */ size) => `${form === "rows" ? "s" : ""}[sv]{${size}}`).join("|");
      const whole = new RegExp(`^(?:${row})+$`).test(words.map((word) => (SIGN.test(word) ? "s" : "v")).join(""));
      if (!right && rows[0].length && !whole) return { right: null, text: `Type all values of each row${columns.length ? `: ${columns.join(", ")}` : ""}${hint}.` };
      return told(right);
    },

    /** The part of a question's data that a reader of the page's source does not read by accident. @param {any} data */
    unsealed: (data) => JSON.parse(new TextDecoder().decode(Uint8Array.from(atob(data.sealed), (each) => each.charCodeAt(0)))),
  };

  // --- elements ----------------------------------------------------------------------------------------------------

  let count = 0;
  /** @param {string} tag @param {Element} parent @param {string} text @param {Record<string, string>} attributes @returns {any} */
  function make(tag, parent, text = "", attributes = {}) {
    const made = document.createElement(tag);
    made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    parent.append(made);
    return made;
  }
  /** @param {Element} parent @param {string} text @param {(event: Event) => void} click @returns {any} */
  function button(parent, text, click) {
    const made = make("button", parent, text, { type: "button" });
    made.addEventListener("click", click);
    return made;
  }

  // --- predictions -------------------------------------------------------------------------------------------------

  /** What a reader has answered: the first answer, which counts, the last one, and whether the right one was shown.
   * @typedef {{first?: string, firstRight?: boolean, last?: string, right?: boolean, shown?: boolean}} Answers
   * @typedef {{read: () => Answers | undefined, write: (answers: Answers) => void}} Kept */

  const prediction = {
    /** @param {Element} place @param {any} data @param {Kept} kept */
    mount(place, data, kept) {
      /** @type {Answers} */
      let answers = { ...kept.read() };
      const name = `ssl-${(count += 1)}`, root = make("form", place, "", { class: "prediction ssl-live", "aria-labelledby": `${name}-asked` });
      const asked = make("p", root, "", { id: `${name}-asked` });
      make("b", asked, "Predict. ");
      asked.append(data.question);
      const row = make("div", root, "", { class: "row" });
      const field = data.choices.length ? null : make("input", row, "",
        { autocomplete: "off", autocapitalize: "off", spellcheck: "false", maxlength: "500", "aria-labelledby": `${name}-asked`, "aria-describedby": `${name}-near` });
      const boxes = data.choices.map((/** @type {string} */ choice) => choiceOf(choice));
      if (!data.choices.length || data.many) make("button", row, "Check", { type: "submit" });
      if (data.near) make("small", row, data.near, { id: `${name}-near` });
      const said = make("output", root, "", { "aria-live": "polite" }), more = make("div", root, "", { class: "row" });
      const again = button(more, "Try again", () => { answers.shown ? said.replaceChildren() : tell(); begin(); });
      const show = button(more, "Show the answer", () => { keep({ shown: true }); draw(); });

      const others = make("details", root);
      make("summary", others, "Other answers");

      /** @param {string} choice */
      function choiceOf(choice) {
        if (!data.many) return button(row, choice, () => answer(choice));
        const label = make("label", row), box = make("input", label, "", { type: "checkbox", value: choice });
        label.append(choice);
        return box;
      }
      const begin = () => { (field ?? boxes[0]).focus(); field?.select(); };
      /** @param {Answers} news */
      const keep = (news) => kept.write(answers = { ...answers, ...news });
      const typed = () => field ? field.value : boxes.filter((/** @type {any} */ box) => box.checked).map((/** @type {any} */ box) => box.value).join(", ") || (judge.unsealed(data).right?.length ? "" : "nothing");

      /** @param {[string, string][]} lines each with its class */
      const tell = (...lines) => said.replaceChildren(...lines.filter(([text]) => text).map(([text, kind]) => {
        const line = document.createElement("p");
        line.textContent = text;
        if (kind) line.className = kind;
        return line;
      }));

      /** @param {string} text */
      function answer(text) {
        if (!text.trim()) { tell([field ? "Type an answer." : "Tick what fits.", "wrong"]); (field ?? boxes[0]).focus(); return; }
        const { right, hint } = judge.verdict(data, text);
        if (right === null) { tell([`${quoted(text)} ${hint}`, "wrong"]); begin(); return; }
        keep({ first: answers.first ?? text, firstRight: answers.firstRight ?? (right && !answers.shown), last: text, right });
        draw();
      }
      const quoted = (/** @type {string} */ text) => `You said ${text.trim()}${/[.?!]$/.test(text.trim()) ? "" : "."}`;

      function draw() {
        const { last, shown } = answers, { shown: right, because } = judge.unsealed(data);
        const verdict = last === undefined ? null : judge.verdict(data, last);
        /** @type {[string, string][]} */
        const lines = [];
        if (verdict?.right) lines.push([`✓ Right. ${quoted(String(last))}`, "right"], [because, ""]);
        else if (verdict) lines.push([`✗ ${verdict.right === null ? "" : "Not right. "}${quoted(String(last))}`, "wrong"], [verdict.why, ""]);
        if (shown && !verdict?.right) lines.push([`It was ${right}.`, ""], [because, ""]);
        tell(...lines);
        again.hidden = !verdict || Boolean(verdict.right);
        const done = Boolean(shown || verdict?.right), { whys } = judge.unsealed(data);
        show.hidden = done;
        others.hidden = !done || !whys.length;
        if (done) others.replaceChildren(others.firstChild, ...whys.map((/** @type {any} */ each) => make("p", others, `${each.said}: ${each.why}`)));
        if (last !== undefined && field) field.value = last;
        for (const box of boxes) {
          if (data.many) box.checked = (last ?? "").split(", ").includes(box.value);
          else box.setAttribute("aria-pressed", String(box.textContent === last));
        }
      }

      root.addEventListener("submit", (/** @type {Event} */ event) => { event.preventDefault(); answer(typed()); });
      // JupyterLab's shortcuts must not see what is typed. Arrow keys go from choice to choice.
      for (const kind of ["keydown", "keypress", "keyup"]) root.addEventListener(kind, (/** @type {KeyboardEvent} */ event) => {
        event.stopPropagation();
        const way = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key], at = boxes.indexOf(event.target);
        if (kind !== "keydown" || !way || at < 0) return;
        event.preventDefault();
        boxes.at((at + way) % boxes.length).focus();
      });
      show.className = "quiet";
      draw();
    },
  };

  // --- charts ------------------------------------------------------------------------------------------------------

  const chart = {
    /** Draw the figure in front of its table, which is folded. data: {figure, tones: {colour of the figure: name of the
     * page's colour}}. Without plotly.js, the table stays as it is.
     * @param {Element} place @param {any} data */
    mount(place, data) {
      if (!here.Plotly) return;
      const { layout } = data.figure, box = place.querySelector(".ssl-chart") ?? place, table = box.querySelector("details");
      const caption = make("p", box, layout.title.text, { class: "title" });
      const plot = make("div", box, "", { class: "plot", "aria-hidden": "true", style: `min-height:${layout.height}px` });
      box.prepend(caption, plot);
      box.classList.add("ssl-live");
      const draw = () => {
        const page = getComputedStyle(box);
        let text = JSON.stringify({ data: data.figure.data, layout: { ...layout, title: undefined, margin: { ...layout.margin, t: layout.margin.t - 40 } } });
        for (const [tone, name] of Object.entries(data.tones)) text = text.replaceAll(tone, page.getPropertyValue(`--${name}`).trim());
        const figure = JSON.parse(text);
        here.Plotly.react(plot, figure.data, figure.layout, { displayModeBar: false, responsive: true });
      };
      const folded = (/** @type {boolean} */ paper) => { if (table) table.open = paper; };
      const paper = matchMedia("print");
      paper.addEventListener("change", () => folded(paper.matches));
      folded(paper.matches);
      new IntersectionObserver((seen, near) => {
        if (!seen.some((each) => each.isIntersecting)) return;
        near.disconnect();
        draw();
        matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
        new MutationObserver(draw).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
      }, { rootMargin: "800px" }).observe(plot);
    },
  };

  // --- JupyterLab and VS Code --------------------------------------------------------------------------------------

  const widget = {
    /** @param {{model: any, el: HTMLElement}} view of anywidget */
    render({ model, el }) {
      const data = model.get("data"), place = make("div", el, "", { class: "ssl" });
      const write = (/** @type {Answers} */ answers) => { model.set("answers", answers); model.save_changes(); };
      // An answer of Python has the number of its request.
      const waiting = new Map(), hear = (/** @type {any} */ message) => { waiting.get(message.number)?.(message); waiting.delete(message.number); };
      model.on("msg:custom", hear);
      const ask = (/** @type {any} */ request) => new Promise((done) => { const number = waiting.size + Date.now(); waiting.set(number, done); model.send({ ...request, number }); });
      const made = here.sharedstate[data.kind].mount(place, data, { read: () => model.get("answers"), write, ask });
      return () => { model.off("msg:custom", hear); made?.close?.(); };
    },
  };

  // --- the site ----------------------------------------------------------------------------------------------------

  // The browser keeps the answers of each page: {text of the question: its answers}. A browser that keeps nothing still
  // judges.
  const PREFIX = "sharedstate-lite/answers/";
  const page = typeof location === "undefined" ? "" : decodeURIComponent(location.pathname.split("/").at(-1) ?? "").replace(/\.html$/, "");
  /** @type {Map<string, string>} */
  const unsaved = new Map();
  const store = {
    /** @param {string} of a page @returns {Record<string, Answers>} */
    read(of) {
      try {
        const found = JSON.parse(unsaved.get(of) ?? localStorage.getItem(PREFIX + of) ?? "{}");
        return found && typeof found === "object" ? found : {};
      } catch { return {}; }
    },
    /** @param {string} of @param {Record<string, Answers>} answers */
    write(of, answers) {
      const text = JSON.stringify(answers);
      try { localStorage.setItem(PREFIX + of, text); } catch { unsaved.set(of, text); }
      for (const tell of counts) tell();
    },
    /** @param {string} of */
    forget(of) {
      unsaved.delete(of);
      try { localStorage.removeItem(PREFIX + of); } catch { return; }
    },
  };
  /** @type {(() => void)[]} */
  const counts = [];

  /** How many of a page's questions were answered, and how many of them were right at first. @param {string} of */
  function done(of) {
    const each = Object.values(store.read(of)).filter(({ first }) => first !== undefined);
    return { answered: each.length, right: each.filter(({ firstRight }) => firstRight).length };
  }
  /** @param {number} answered @param {number} right @param {number} of */
  const words = (answered, right, of) => `${answered} of ${of} predictions answered${answered ? `, ${right} right at the first try` : ""}`;

  /** The count at the end of a page, or on the first page over all of them. @param {any} place */
  function countIn(place) {
    /** @type {Record<string, [string, number]>} */
    const pages = JSON.parse(place.dataset.pages), names = Object.keys(pages), whole = names.length > 1;
    const line = make("p", place), list = whole ? make("ul", place) : null, row = make("div", place, "", { class: "row" });
    if (whole) button(row, "Save my answers as text", () => save(pages));
    button(row, whole ? "Forget my answers" : "Forget the answers of this page", () => { names.forEach(store.forget); location.reload(); });
    const tell = () => {
      const each = names.map((of) => ({ of, ...done(of) }));
      const [answered, right] = [each.reduce((n, { answered: more }) => n + more, 0), each.reduce((n, { right: more }) => n + more, 0)];
      line.textContent = `${whole ? "In this browser" : "On this page"}: ${words(answered, right, names.reduce((n, of) => n + pages[of][1], 0))}.`;
      list?.replaceChildren();
      for (const { of, answered: some, right: good } of each) if (list && some) {
        make("a", make("li", list), pages[of][0], { href: `notebooks/${of}.html` }).after(`: ${words(some, good, pages[of][1])}`);
      }
      row.hidden = !answered;
    };
    counts.push(tell);
    tell();
    place.hidden = false;
  }

  /** Download all answers. @param {Record<string, [string, number]>} pages */
  function save(pages) {
    const text = Object.entries(pages).flatMap(([of, [title]]) => {
      const answered = Object.entries(store.read(of)).filter(([, { first }]) => first !== undefined);
      const lines = answered.flatMap(([question, { first, firstRight, last, right }]) =>
        [`${firstRight ? "✓" : "✗"} ${question}`, `  ${first}${last === first ? "" : `, then ${last} (${right ? "right" : "not right"})`}`]);
      return lines.length ? [title, ...lines, ""] : [];
    });
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text.join("\n")], { type: "text/plain" }));
    link.download = "predictions.txt";
    link.click();
    URL.revokeObjectURL(link.href);
  }

  /** What follows a question, up to the next question or heading, but not the code before the first result: it shows the answer. @param {Element} place */
  function results(place) {
    const found = [];
    for (let next = place.closest(".nb-output")?.nextElementSibling; next && !next.matches("h1, h2, h3"); next = next.nextElementSibling) {
      if (next.querySelector(".ssl-predict")) break;
      if (found.length || !next.matches("details, pre, .highlight")) found.push(next);
    }
    return found;
  }
  /** Hide the results of a question. Return the function that shows them. @param {Element} place */
  function held(place) {
    const found = results(place), row = found.length ? make("p", place, "", { class: "ssl-holds" }) : null;
    const show = () => { row?.remove(); found.forEach((each) => each.classList.remove("ssl-held")); };
    if (row) found[0].before(row);
    if (row) button(row, "Go on without an answer", show);
    found.forEach((each) => each.classList.add("ssl-held"));
    return show;
  }
  /** @param {HTMLElement} place @param {any} data */
  function mounted(place, data) {
    place.classList.add("ssl-mounted");
    const question = data.question, read = () => store.read(page)[question], open = (/** @type {Answers | undefined} */ answers) => answers?.right || answers?.shown;
    const show = data.kind === "prediction" && !open(read()) ? held(place) : () => {};
    here.sharedstate[data.kind].mount(place, data, {
      read,
      write: (/** @type {Answers} */ answers) => {
        store.write(page, { ...store.read(page), [question]: answers });
        if (open(answers)) show();
      },
    });
  }
  /** A recording that is too large for the page is a script of its own, which is loaded when its place is near. */
  const near = typeof IntersectionObserver === "undefined" ? null : new IntersectionObserver((seen) => {
    for (const { isIntersecting, target } of seen) if (isIntersecting) {
      const place = /** @type {HTMLElement} */ (target), { file = "", key = "" } = place.dataset;
      near?.unobserve(place);
      const script = make("script", document.head, "", { src: file });
      script.onload = () => mounted(place, here.recordings[key]);
      script.onerror = () => make("p", place, `The recording cannot be loaded: ${script.src}`);
    }
  }, { rootMargin: "1000px" });

  /** Mount everything that is on the page. */
  function begin() {
    for (const place of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".ssl-mount"))) {
      if (place.dataset.file) near?.observe(place);
      else mounted(place, JSON.parse(place.querySelector("script")?.textContent ?? "{}"));
    }
    document.querySelectorAll(".ssl-done").forEach(countIn);
  }

  here.sharedstate = { version: VERSION, judge, prediction, chart, widget };
  if (typeof document !== "undefined") {
    if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", begin);
    else queueMicrotask(begin); // when stepper.js has run
  }
})();
