// Drives the steppers of test_stepper_in_chromium.py in Chromium, and prints what was seen as JSON.
const { chromium } = require(process.env.PLAYWRIGHT);
const fs = require("fs");

const told = JSON.parse(fs.readFileSync(process.argv[2], "utf8")), seen = { errors: [], faults: [] };
const WIDTHS = [1280, 900, 390], STEPS = 5;

async function open(browser, data, { width = 900, theme = "light", ask = false } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.on("pageerror", (error) => seen.errors.push(error.stack));
  page.on("console", (message) => message.type() === "error" && seen.errors.push(message.text()));
  await page.setContent(`<!doctype html><html lang="en"><title>A stepper</title><style>body{margin:8px}${told.style}</style><main><h1>A page</h1><h2>A lesson</h2><div class="ssl" id="place"></div></main></html>`);
  await page.addScriptTag({ content: told.script });
  await page.evaluate(([recording, forks]) => {
    const kind = recording.kind, place = document.getElementById("place");
    globalThis.requests = [];
    const ask = async (request) => { globalThis.requests.push(request); return forks[request.text] ?? { error: `${request.text} is not a message` }; };
    globalThis.made = globalThis.sharedstate[kind].mount(place, recording, ask && Object.keys(forks).length ? { ask } : {});
  }, [data, ask ? told.forks : {}]);
  await page.waitForTimeout(100);
  return page;
}

// What is wrong with a step, by the places of boxes: in the browser.
function look(step) {
  if (globalThis.made) globalThis.made.go(step);
  const root = document.querySelector(".stepper"), scene = root.querySelector(".scene"), diagram = root.querySelector(".diagram");
  const shown = (each) => getComputedStyle(each).visibility !== "hidden" && each.getClientRects().length > 0;
  const box = (each) => each.getBoundingClientRect();
  const meets = (a, b, slack = 1) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > slack && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > slack;
  const nodes = [...root.querySelectorAll(".node")].filter(shown), chips = [...root.querySelectorAll(".chips .move")], faults = [];
  const called = (each) => (each.dataset.operator ?? each.textContent).slice(0, 40);
  for (const [n, a] of nodes.entries()) for (const b of nodes.slice(n + 1)) if (meets(box(a), box(b))) faults.push(`${called(a)} lies on ${called(b)}`);
  for (const [n, a] of chips.entries()) {
    for (const b of nodes) if (meets(box(a), box(b))) faults.push(`message ${called(a)} lies on ${called(b)}`);
    for (const b of chips.slice(n + 1)) if (meets(box(a), box(b))) faults.push(`message ${called(a)} lies on message ${called(b)}`);
  }
  const origin = box(diagram);
  for (const path of root.querySelectorAll(".wires path")) {
    const long = path.getTotalLength();
    for (let at = 8; at < long - 8; at += 7) {
      const { x, y } = path.getPointAtLength(at), [left, top] = [x + origin.left, y + origin.top];
      const crossed = nodes.find((each) => { const b = box(each); return b.left + 2 < left && left < b.right - 2 && b.top + 2 < top && top < b.bottom - 2; });
      if (crossed) { faults.push(`a line runs through ${called(crossed)}`); break; }
    }
  }
  const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  for (let each = texts.nextNode(); each; each = texts.nextNode()) {
    const parent = each.parentElement;
    if (each.textContent.trim() && parseFloat(getComputedStyle(parent).fontSize) < 12) faults.push(`${each.textContent.trim().slice(0, 30)} has less than 12 px`);
  }
  if (document.documentElement.scrollWidth > innerWidth) faults.push("the page scrolls sideways");
  const acting = root.querySelector(".acts");
  if (acting && shown(acting)) {
    const [inner, outer] = [box(acting), box(scene)], fits = (small, large, from, to) => small[to] - small[from] > large[to] - large[from] || (small[from] >= large[from] - 1 && small[to] <= large[to] + 1);
    if (!fits(inner, outer, "left", "right") || !fits(inner, outer, "top", "bottom")) faults.push(`${called(acting)} acts and is out of view`);
  }
  const places = [...root.querySelectorAll(".node")].map((each) => { const b = box(each); return [b.left - origin.left, b.top - origin.top, b.width, b.height].map(Math.round).join(" "); }).join("; ");
  const rect = box(root);
  return { faults: [...new Set(faults)], places: `${places} in ${Math.round(rect.height)}`, columns: root.querySelectorAll(".column").length };
}

async function layouts(browser) {
  for (const [name, data] of Object.entries(told.recordings)) {
    for (const [n, width] of WIDTHS.entries()) {
      const page = await open(browser, data, { width, theme: n % 2 ? "dark" : "light" });
      const last = data.steps.length - 1, wanted = [...new Set(Array.from({ length: STEPS }, (_, k) => Math.round((k * last) / (STEPS - 1 || 1))))];
      const places = new Set();
      for (const step of wanted) {
        const found = await page.evaluate(look, step);
        for (const fault of found.faults) seen.faults.push(`${name}, ${width} px, step ${step}: ${fault}`);
        places.add(found.places);
      }
      if (places.size > 1) seen.faults.push(`${name}, ${width} px: boxes move from step to step\n${[...places].join("\n")}`);
      if (told.shots) await page.screenshot({ path: `${told.shots}/${name.replace(/\W+/g, "-")}-${width}.png`, fullPage: true });
      await page.context().close();
    }
  }
}

// A reader goes through a stepper by keyboard alone.
async function keys(browser) {
  const data = told.recordings.full, page = await open(browser, data, { width: 1280, ask: true }), out = {};
  const state = () => page.evaluate(() => ({ step: made.step, caption: document.querySelector(".caption").textContent, slider: document.querySelector(".slider").getAttribute("aria-valuetext"), acts: document.querySelector("[aria-current]")?.dataset.operator ?? "" }));
  await page.locator(".stepper").focus();
  for (const key of ["ArrowRight", "ArrowRight", "ArrowLeft", "e", "PageDown", "End", "Home"]) { await page.keyboard.press(key); (out.steps ??= []).push((await state()).step); }
  await page.evaluate((step) => made.go(step), told.asked.step);
  out.asked = [await state(), await page.locator(".question").innerText()];
  for (const [key, text] of told.asked.answers) {
    await page.keyboard.press("p");
    if (await page.locator(".asking input").isVisible()) await page.keyboard.type(text);
    if (await page.locator(".asking input").isVisible()) await page.keyboard.press("Enter");
    (out.verdicts ??= []).push([key, await page.locator(".verdict").innerText(), await page.locator(".score").innerText()]);
    await page.keyboard.press("Escape");
  }
  await page.locator(".stepper").focus();
  await page.keyboard.press("t");
  out.time = [await page.locator(".over svg").count(), await page.locator(".scene").isVisible(), await page.locator(".over svg text.words").allTextContents()];
  await page.keyboard.press("t");
  await page.keyboard.press("?");
  out.keys = await page.locator(".help li").allInnerTexts();
  await page.keyboard.press("?");
  await page.locator(".node[data-operator='result.join1']").focus();
  out.folded = [];
  for (let n = 0; n < 2; n += 1) { await page.keyboard.press("Enter"); out.folded.push(await page.locator(".node[data-operator='result.join1'] .stack").isVisible()); }
  await page.locator(".stepper").focus();
  await page.evaluate(() => made.go(made.last));
  await page.keyboard.press("m");
  out.edit = [await page.locator(".which").innerText(), await page.locator(".editing input").inputValue()];
  for (const text of ["nonsense", Object.keys(told.forks)[0]]) {
    await page.locator(".editing input").fill(text);
    await page.keyboard.press("Enter");
    await page.waitForTimeout(50);
    (out.forked ??= []).push([await page.locator(".word").innerText(), await page.evaluate(() => [made.histories.length, made.history.name, made.step])]);
  }
  await page.keyboard.press("f");
  out.turned = await page.evaluate(() => made.history.name);
  out.requests = await page.evaluate(() => globalThis.requests);
  await page.context().close();
  // Without Python, what needs it is said.
  const alone = await open(browser, data, { width: 390 });
  out.alone = [await alone.locator(".bar button:visible").allInnerTexts(), await alone.evaluate(() => document.querySelector(".help").textContent.includes("edit this message, in JupyterLab"))];
  await alone.evaluate(() => made.go(made.last));
  out.still = await alone.evaluate(() => { const before = document.querySelectorAll(".stepper *").length; made.go(0); made.go(made.last); return document.querySelectorAll(".stepper *").length - before; });
  await alone.context().close();
  seen.keys = out;
}

async function access(browser) {
  seen.axe = {};
  for (const [name, theme, width] of [["full", "light", 1280], ["shared", "dark", 1280], ["partial", "light", 390], ["partial", "dark", 900]]) {
    const page = await open(browser, told.recordings[name], { width, theme });
    await page.evaluate(() => made.go(Math.floor(made.last * 0.8)));
    await page.waitForTimeout(400);
    await page.addScriptTag({ path: told.axe });
    const found = await page.evaluate(() => axe.run(".stepper", { resultTypes: ["violations"] }));
    seen.axe[`${name} ${theme} ${width}`] = found.violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html.slice(0, 120)).slice(0, 3).join(" | ")}`);
    await page.context().close();
  }
}

(async () => {
  const browser = await chromium.launch({ executablePath: told.chromium, args: ["--no-sandbox"] });
  try {
    await layouts(browser);
    await keys(browser);
    await access(browser);
    console.log(JSON.stringify(seen));
  } finally { await browser.close(); }
})().catch((error) => { console.error(error); process.exit(1); });
