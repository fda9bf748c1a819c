// Drives the pages of test_page_in_chromium.py in Chromium, opened from a folder, and prints what was seen as JSON.
const { chromium } = require(process.env.PLAYWRIGHT);
const fs = require("fs");

const told = JSON.parse(process.argv[2]), seen = { errors: [], asked: [] };
// The theme's search cannot load its index from a folder.
const EXPECTED = /search_index|ERR_FILE_NOT_FOUND/;

async function open(browser, name, { width = 900, theme = "light", script = true } = {}) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme, javaScriptEnabled: script, acceptDownloads: true });
  const page = await context.newPage();
  page.on("pageerror", (error) => EXPECTED.test(error.message) || seen.errors.push(error.message));
  page.on("console", (message) => message.type() === "error" && !EXPECTED.test(message.text()) && seen.errors.push(message.text()));
  page.on("request", (request) => request.url().startsWith("file:") || seen.asked.push(request.url()));
  await page.goto(`file://${told.site}/${name}`, { waitUntil: "load" });
  return page;
}

const form = (page, n) => page.locator("form.prediction").nth(n);
const said = async (page, n) => (await form(page, n).locator("output").innerText()).replace(/\n+/g, "\n");
const buttons = (page, n) => form(page, n).locator("button:visible").allInnerTexts();
const count = (page) => page.locator(".ssl-done p").innerText();
const plotted = (page) => page.locator(".plot .main-svg text").first().waitFor({ timeout: 20000 });

// A reader answers by keyboard alone.
async function answers(browser) {
  const page = await open(browser, "notebooks/77-made.html", { width: 390 }), input = form(page, 0).locator("input"), out = {};
  const type = async (text) => { await input.focus(); await input.fill(text); await page.keyboard.press("Enter"); return said(page, 0); };
  out.before = [await said(page, 0), await buttons(page, 0), await count(page)];
  out.empty = await type("  ");
  const result = page.getByText("16 is the result");
  out.held = [await result.isVisible()];
  out.unread = [await type("maybe"), await input.inputValue(), await count(page)];
  out.wrong = [await type("7"), await input.inputValue(), await buttons(page, 0), await count(page)];
  await form(page, 0).getByText("Try again").press("Enter");
  out.again = await page.evaluate(() => [document.activeElement.tagName, getSelection().toString()]);
  out.right = [await type("16 rows"), await buttons(page, 0), await count(page)];
  out.held.push(await result.isVisible());
  // Choices: by arrow keys and Enter.
  await form(page, 1).getByRole("button", { name: "JOIN", exact: true }).focus();
  await page.keyboard.press("ArrowLeft");
  await page.keyboard.press("Enter");
  out.choice = [await said(page, 1), await form(page, 1).locator("[aria-pressed=true]").allInnerTexts()];
  // Any number of names: by space.
  for (const name of ["visit", "answer"]) { await form(page, 2).getByLabel(name, { exact: true }).focus(); await page.keyboard.press("Space"); }
  await form(page, 2).getByText("Check").press("Enter");
  out.names = await said(page, 2);
  await form(page, 3).getByText("Show the answer").click();
  out.shown = [await said(page, 3), await buttons(page, 3), await count(page)];
  const all = () => Promise.all([0, 1, 2, 3].map((n) => said(page, n)));
  const told = await all();
  await page.reload();
  out.reloaded = [JSON.stringify(await all()) === JSON.stringify(told), await input.inputValue(), await count(page)];

  await page.goto(page.url().replace("notebooks/77-made", "index"));
  out.home = [await count(page), await page.locator(".ssl-done li").allInnerTexts()];
  const [download] = await Promise.all([page.waitForEvent("download"), page.getByText("Save my answers as text").click()]);
  out.saved = fs.readFileSync(await download.path(), "utf8");
  await page.locator(".ssl-done a").click();
  out.link = page.url().split("/").at(-1);
  await Promise.all([page.waitForEvent("load"), page.getByText("Forget the answers of this page").click()]);
  out.forgotten = [await said(page, 0), await count(page)];
  out.held.push(await result.isVisible());
  await page.getByText("Go on without an answer").click();
  out.held.push(await result.isVisible());

  // What another program left in the browser's storage is no reason to ask nothing.
  await page.evaluate(() => localStorage.setItem("sharedstate-lite/answers/77-made", "{not JSON"));
  await page.reload();
  out.damaged = [await count(page), await type("16")];
  await page.context().close();
  return out;
}

// A browser that keeps nothing still judges and counts.
async function unkept(browser) {
  const context = await browser.newContext();
  await context.addInitScript(() => { Object.defineProperty(window, "localStorage", { get() { throw new Error("denied"); } }); });
  const page = await context.newPage();
  await page.goto(`file://${told.site}/notebooks/77-made.html`);
  await form(page, 0).locator("input").fill("16");
  await page.keyboard.press("Enter");
  const out = [await said(page, 0), await count(page)];
  await context.close();
  return out;
}

// Every part of the page that is ours, at each width and in each theme.
async function look(browser, width, theme) {
  const page = await open(browser, "notebooks/77-made.html", { width, theme });
  await page.locator(".plot").last().scrollIntoViewIfNeeded();
  await plotted(page);
  await page.addScriptTag({ path: told.axe });
  const faults = await page.evaluate(async () => {
    const found = await window.axe.run({ include: [[".ssl-mount"], [".ssl-done"]] }, { preload: false });
    return found.violations.flatMap((each) => each.nodes.map((node) => `${each.id}: ${node.html.slice(0, 120)}`));
  });
  const out = await page.evaluate(() => {
    const own = [...document.querySelectorAll(".ssl-mount, .ssl-done")], texts = own.flatMap((each) => [...each.querySelectorAll("p, label, button, input, small, summary, text")]);
    const shown = texts.filter((each) => each.getClientRects().length && each.textContent.trim());
    const cut = shown.filter((each) => { const box = each.getBoundingClientRect(); return box.left < -1 || box.right > innerWidth + 1; });
    const fill = getComputedStyle(document.querySelector(".plot .xtitle")).fill;
    return { over: document.documentElement.scrollWidth - innerWidth, texts: shown.length, fill,
      small: shown.filter((each) => parseFloat(getComputedStyle(each).fontSize) < 12).map((each) => each.textContent),
      cut: cut.map((each) => each.textContent.slice(0, 60)), hidden: [...document.querySelectorAll(".plot")].every((each) => each.ariaHidden === "true"),
      folded: [...document.querySelectorAll(".ssl-chart details")].every((each) => !each.open) };
  });
  if (told.shots) await page.screenshot({ path: `${told.shots}/${width}-${theme}.png`, fullPage: true });
  await page.context().close();
  return { width, theme, faults, ...out };
}

const state = (page) => page.evaluate(() => {
  const visible = (words) => [...document.querySelectorAll(words)].filter((each) => each.checkVisibility()).length;
  return { forms: visible("form.prediction"), questions: visible(".ssl-predict"), answers: visible(".ssl-predict code"), counts: visible(".ssl-done"), results: visible("pre.nb-text"),
    plots: visible(".plot"), tables: visible(".ssl-chart table"), captions: visible(".ssl-chart caption") };
});

async function still(browser) {
  const page = await open(browser, "notebooks/77-made.html", { script: false });
  const out = { "without a script": await state(page) };
  if (told.shots) await page.screenshot({ path: `${told.shots}/no-script.png`, fullPage: true });
  await page.context().close();
  const live = await open(browser, "notebooks/77-made.html");
  out["with a script"] = await state(live);
  await live.emulateMedia({ media: "print" });
  await live.waitForFunction(() => [...document.querySelectorAll(".ssl-chart details")].every((each) => each.open));
  out["on paper"] = await state(live);
  if (told.shots) await live.screenshot({ path: `${told.shots}/print.png`, fullPage: true });
  await live.context().close();
  const bare = await open(browser, "notebooks/78-more.html");
  out["without plotly.js"] = await state(bare);
  await bare.context().close();
  return out;
}

// The reader's own choice of a theme changes a chart that is drawn.
async function toggled(browser) {
  const page = await open(browser, "notebooks/77-made.html");
  await page.locator(".plot").first().scrollIntoViewIfNeeded();
  await plotted(page);
  const fill = () => page.evaluate(() => getComputedStyle(document.querySelector(".plot .xtitle")).fill);
  const out = [await fill()];
  // What the theme's button does; from a folder, the theme's own script ends before it.
  await page.evaluate(() => document.body.setAttribute("data-md-color-scheme", "slate"));
  await page.waitForFunction((before) => getComputedStyle(document.querySelector(".plot .xtitle")).fill !== before, out[0]);
  out.push(await fill());
  await page.context().close();
  return out;
}

(async () => {
  const browser = await chromium.launch({ executablePath: told.chromium, args: ["--no-sandbox", "--disable-gpu"] });
  try {
    seen.answers = await answers(browser);
    seen.unkept = await unkept(browser);
    seen.looks = [];
    for (const width of [390, 900, 1280]) for (const theme of ["light", "dark"]) seen.looks.push(await look(browser, width, theme));
    seen.still = await still(browser);
    seen.toggled = await toggled(browser);
    console.log(JSON.stringify(seen));
  } finally {
    await browser.close();
  }
})().catch((error) => { console.error(error.message); process.exit(1); });
