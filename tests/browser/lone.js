// The stepper's script in a browser, without JupyterLab: a model that loses messages stands for Python.
//
//   node lone.js '{"script": ..., "models": {NAME: {"state": ..., "history": ..., "kept": ...}}, "cases": [...], "chromium": ...}'
//
// A case says which messages are lost and what the reader does; for each, what was seen is
// printed, as one JSON list. The model answers with the frames and the slider it was handed.
const { chromium } = require(process.env.PLAYWRIGHT || "playwright-core");

const told = JSON.parse(require("fs").readFileSync(0, "utf8"));

// Runs in the page: one stepper over a model that plays the case.
async function play({ script, models, one }) {
  for (const [from, to] of one.patches || []) {
    if (!script.includes(from)) throw new Error(`${one.name}: the script has no ${from}`);
    script = script.replaceAll(from, to);
  }
  const module = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
  const heard = [], listeners = {}, values = structuredClone(models[one.model]);
  const emit = (name, ...what) => (listeners[name] || []).forEach((f) => f(...what));
  const answers = {
    frames: (m) => ({ type: "frames", branch: m.branch, width: m.width, version: 0, line: { ...values.kept.line, svg: `<svg width="${m.width}"></svg>` },
      frames: Object.fromEntries(m.steps.map((n) => [n, { ...Object.values(values.kept.frames)[0], asks: { text: "What?", hint: "" } }])) }),
    predict: () => ({ type: "error", where: "predict", text: "a plain word" }),
    fork: () => ({ type: "forked" }),
  };
  let lost = one.lost;
  const fake = {
    get: (name) => values[name],
    on: (name, f) => (listeners[name] ||= []).push(f),
    off: (name, f) => (listeners[name] = (listeners[name] || []).filter((g) => g !== f)),
    send(message) {
      if (one.throws) throw new Error("Cannot send");
      heard.push(message);
      if (message.do === one.of && lost > 0) { lost -= 1; return; }
      if (one.of === "all") return;
      setTimeout(() => {
        const answer = answers[message.do];
        if (answer && message.do !== "frames") emit("msg:custom", answer(message));
        const last = message.do === "frames" ? answer(message) : { type: "ack" };
        emit("msg:custom", { ...last, seq: message.seq, view: message.view });
      }, 5);
    },
  };
  const place = document.createElement("div");
  place.style.width = "900px";
  document.body.replaceChildren(place);
  const close = module.default.render({ model: fake, el: place });
  const root = place.querySelector(".ssl-stepper"), silence = root.querySelector(".silence"), words = [];
  new MutationObserver(() => silence.hidden || words.push(silence.textContent)).observe(silence, { attributes: true, childList: true });
  const seen = (test, most = one.most) => new Promise((done) => {
    const start = performance.now();
    const look = () => (test() ? done(true) : performance.now() - start > most ? done(false) : requestAnimationFrame(look));
    look();
  });
  const frames = await seen(() => root.getAttribute("aria-busy") === "false" && heard.some((m) => m.width === 900));
  const out = { name: one.name, frames };
  if (one.of === "predict") {
    root.querySelector("input").value = "no answer";
    root.querySelector(".ask button").click();
    out.word = await seen(() => root.querySelector(".verdict").textContent === "a plain word");
    out.said = new Set(heard.filter((m) => m.do === "predict").map((m) => m.seq)).size;
  }
  if (one.resized) {
    const ruled = (wide) => seen(() => root.querySelector(".slide svg")?.getAttribute("width") === String(wide));
    out.resized = [await ruled(900)];
    for (const wide of [700, 900]) {
      place.style.width = `${wide}px`;
      out.resized.push(await ruled(wide));
    }
  }
  const press = (key) => root.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  out.question = root.querySelector(".question").textContent;
  if (one.forked) {
    const said = () => root.querySelector(".said").textContent, begin = said();
    for (const key of ["ArrowRight", "m"]) press(key);
    root.querySelector(".edit button").click();
    await seen(() => root.querySelector(".edit").hidden);
    press("ArrowLeft");
    out.forked = [begin, said()];
  }
  if (one.turned) {
    const scene = root.querySelector(".scene");
    const look = () => [scene.querySelectorAll(".message").length, scene.querySelectorAll(".node").length, scene.querySelector("svg").getAttribute("aria-label")];
    for (let n = 0; n < one.turned; n += 1) press("ArrowRight");
    out.turned = [look()];
    press("t");
    out.turned.push(look());
    press("ArrowRight");
    out.turned.push(look());
    [...root.querySelectorAll(".bar button")].find((b) => b.textContent.startsWith("State")).click();
    out.turned.push(look());
  }
  const mark = root.querySelector(".slide .mark circle"), ink = root.querySelector(".slide .walked");
  out.mark = mark && { y: +mark.getAttribute("cy"), walked: ink.getAttribute("d"), rows: values.kept.line.rows };
  await seen(() => silence.hidden && words.length === 0, 100);
  out.calm = await seen(() => silence.hidden);
  out.words = [...new Set(words)];
  out.sent = heard.length;
  if (!one.of && !one.throws) {
    root.querySelector(".next").click();
    out.moved = await seen(() => heard.some((m) => m.do === "next"));
  }
  close();
  const before = heard.length;
  await seen(() => heard.length > before, 400);
  out.closed = heard.length === before;
  return out;
}

(async () => {
  const browser = await chromium.launch({ executablePath: told.chromium, args: ["--no-sandbox", "--disable-gpu"] });
  try {
    const page = await browser.newPage({ viewport: { width: 1000, height: 800 } }), out = [];
    for (const one of told.cases) out.push(await page.evaluate(play, { script: told.script, models: told.models, one }));
    console.log(JSON.stringify(out));
  } finally {
    await browser.close();
  }
})().catch((error) => { console.error(error.message); process.exit(1); });
