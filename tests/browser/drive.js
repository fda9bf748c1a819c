// Opens notebooks in JupyterLab, runs them, and steps their steppers as a person with a keyboard would.
//
//   node drive.js '{"address": ..., "notebooks": [...], "out": ..., "looks": [["light", 1280], ...]}'
//
// Prints one JSON object: for each notebook and look what was seen. Exits with 1 and a
// plain word where something does not happen. Nothing here is slept through: every wait
// is for something to be seen.
const path = require("path");
const { chromium } = require(process.env.PLAYWRIGHT || "playwright-core");
const { faults } = require("./faults.js");

const told = JSON.parse(process.argv[2]);
const address = new URL(told.address);
const token = address.searchParams.get("token");
const QUIET = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
  "--disable-sync", "--no-first-run"];

const expect = (truth, words) => { if (!truth) throw new Error(words); };

async function settings(page, plugin, values) {
  const url = `${address.origin}/lab/api/settings/${encodeURIComponent(plugin)}`;
  const answer = await page.request.put(url, {
    headers: { Authorization: `token ${token}`, "Content-Type": "application/json" },
    data: { raw: JSON.stringify(values) },
  });
  expect(answer.ok(), `settings of ${plugin}: ${answer.status()}`);
}

async function open(page, notebook) {
  await page.goto(`${address.origin}/lab/tree/${notebook}?token=${token}&reset`);
  await page.waitForSelector(".jp-Notebook .jp-CodeCell", { timeout: 60000 });
  await page.waitForSelector('.jp-Notebook-ExecutionIndicator[data-status="idle"]', { timeout: 60000 });
  await page.keyboard.press("Control+b");
}

async function runAll(page) {
  const begun = () => [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].some((e) => /[*\d]/.test(e.innerText));
  for (let asked = 1; ; asked += 1) {
    await page.click(".jp-Notebook .jp-Cell >> nth=0");
    await page.click("li.lm-MenuBar-item >> text=Run");
    await page.click("text=Run All Cells >> nth=0");
    // Once in some dozens of times JupyterLab shows an idle kernel and forgets the first request.
    try {
      await page.waitForFunction(begun, null, { timeout: 20000 });
      break;
    } catch (late) {
      if (asked === 3) throw new Error("asked three times to run all cells, JupyterLab has begun with none");
    }
  }
  // A cell that fails ends the run: those below it are never asked.
  const failed = '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"]';
  const done = (failure) => {
    const prompts = [...document.querySelectorAll(".jp-CodeCell .jp-InputPrompt")].map((e) => e.innerText);
    const shown = prompts.filter((p) => p.trim()); // a folded cell has none, and may be the last one
    return shown.length && shown.every((p) => !p.includes("*")) && shown.some((p) => /\d/.test(p)) &&
      (/\d/.test(shown[shown.length - 1]) || document.querySelector(failure)) &&
      document.querySelector('.jp-Notebook-ExecutionIndicator[data-status="idle"]');
  };
  await page.waitForFunction(done, failed, { timeout: told.seconds * 1000 });
  const errors = await page.$$eval(`${failed}, .jp-RenderedText[data-mime-type="application/vnd.jupyter.stderr"]`,
    (all) => all.map((e) => e.innerText.slice(0, 300)));
  expect(!errors.length, `cells failed: ${errors.join(" | ")}`);
}

// What a stepper says of itself.
const read = (stepper) => stepper.evaluate((root) => {
  const words = (name) => { const e = root.querySelector(name); return e && e.offsetParent ? e.innerText.trim() : ""; };
  const slider = root.querySelector(".slider"), [at, last] = [+slider.value, +slider.max];
  return { where: words(".where"), caption: words(".caption"), question: words(".question"), verdict: words(".verdict"), score: words(".score"),
    word: words(".word"), asked: root.querySelector(".asking").classList.contains("open"), hint: root.querySelector(".asking input").placeholder, step: at, last };
});

const OF_A_CHART = ".js-plotly-plot svg text";

// A picture of each output that is a chart, a drawing or a table; the steppers have theirs.
async function pictures(page, name) {
  const outputs = page.locator(".jp-OutputArea-output").filter({ has: page.locator("svg, img, table") })
    .filter({ hasNot: page.locator(".stepper") }).filter({ visible: true });
  const count = await outputs.count();
  for (let n = 0; n < count; n += 1) {
    const output = outputs.nth(n);
    await output.scrollIntoViewIfNeeded();
    const wrong = await faults(output, OF_A_CHART);
    expect(!wrong.length, `${name}, picture ${n + 1}: ${wrong.slice(0, 4).join("; ")}`);
    await output.screenshot({ path: path.join(told.out, `${name}-out${String(n + 1).padStart(2, "0")}.png`) });
  }
  return count;
}

async function until(page, stepper, test, words, key) {
  for (let n = 0; n < 400; n += 1) {
    const now = await read(stepper);
    if (test(now)) return now;
    if (!key) await page.waitForTimeout(25);
    else {
      expect(now.step < now.last || key !== "ArrowRight", `${words}: not up to the last step`);
      await page.keyboard.press(key);
    }
  }
  throw new Error(`${words}: ${JSON.stringify(await read(stepper))}`);
}

async function walk(page, stepper, shot) {
  const seen = {}, press = (key) => page.keyboard.press(key);
  await stepper.scrollIntoViewIfNeeded();
  await stepper.locator(".caption").click();
  await stepper.focus();
  const first = await read(stepper);
  await shot("begin");
  await press("Home");
  await until(page, stepper, (s) => s.step === 0, "Home goes to the start");
  if (!first.last) return seen;
  const fit = (s) => s.asked && !/yes/.test(s.hint);
  const asked = await until(page, stepper, (s) => fit(s) || s.step === s.last, "a question or the end", "ArrowRight");
  if (fit(asked)) {
    // Wrong here; what was right is then known for the same question on a fork.
    await press("p");
    await page.keyboard.type(asked.hint.startsWith("-U") ? "+I no such row 12345" : "+1 no such row 12345");
    await press("Enter");
    const wrong = await until(page, stepper, (s) => s.verdict, "a wrong prediction gets a word");
    seen.wrong = wrong.verdict;
    await shot("wrong");
    await press("Escape");
    await press("m");
    await page.keyboard.type("no such message");
    await press("Enter");
    seen.word = (await until(page, stepper, (s) => s.word, "a word beside what cannot be read")).word;
    await press("Escape");
    // Inserted once more: a history of its own.
    await press("m");
    const message = await stepper.locator(".editing input").inputValue();
    await page.keyboard.type(message.replace(/^\+1/, "+2"));
    await press("Enter");
    await until(page, stepper, (s) => /history A/.test(s.where), "a fork is gone to");
    await shot("fork");
    seen.forked = message;
    await press("f");
    await until(page, stepper, (s) => !/history/.test(s.where), "F goes on to the first history again");
  }
  // The keyboard reaches every operator; Enter folds it and opens it again; Space runs and pauses.
  const operator = stepper.locator(".node").first();
  for (const open of [false, true]) {
    await operator.focus();
    await press("Enter");
    seen.folds = (seen.folds || 0) + ((await operator.locator(".stack").isVisible()) === open ? 1 : 0);
  }
  await stepper.focus();
  await press("Home");
  await press(" ");
  await until(page, stepper, (s) => s.step > 0, "Space runs");
  await press(" ");
  const paused = (await read(stepper)).step;
  await press("End");
  const end = await until(page, stepper, (s) => s.step === s.last, "End goes to the last step");
  expect(paused < end.last || end.last < 3, "Space pauses");
  await press("PageUp");
  await until(page, stepper, (s) => s.step < end.last, "PageUp goes back by a message");
  await press("?");
  expect(await stepper.locator(".help").isVisible(), "? shows the keys");
  await shot("keys");
  await press("?");
  await press("End");
  await press("t");
  expect(await stepper.locator(".over svg").count() > 0, "T shows messages over time");
  await shot("messages");
  await press("t");
  expect(await stepper.locator(".scene").isVisible(), "T shows state again");
  await shot("end");
  return seen;
}

// Each prediction after "run all": an empty guess gets a word, and so does a text that is no answer. Then the answer is
// asked for. What is there for pages without a script is hidden.
async function predictAll(page, name) {
  const asked = page.locator("form.prediction");
  const count = await asked.count();
  for (let n = 0; n < count; n += 1) {
    const one = asked.nth(n), what = `${name}, prediction ${n + 1}`, field = one.locator("input[maxlength]");
    await one.scrollIntoViewIfNeeded();
    expect(!(await one.locator("output").innerText()), `${what}: waits for a guess after all cells have run`);
    for (const typed of await field.count() ? ["", "no such answer"] : []) {
      await field.focus();
      await page.keyboard.type(typed);
      await page.keyboard.press("Enter");
      await one.locator(".wrong", { hasText: typed ? `You said ${typed}.` : "Type an answer." }).waitFor();
    }
    if (n === 0) await one.screenshot({ path: path.join(told.out, `${name}-predict-asked.png`) });
    await one.locator("button", { hasText: "Show the answer" }).press("Enter");
    await one.locator("output", { hasText: "It was " }).waitFor();
    const wrong = await faults(one, "p");
    expect(!wrong.length, `${what}: ${wrong.slice(0, 4).join("; ")}`);
    if (n === 0) await one.screenshot({ path: path.join(told.out, `${name}-predict-told.png`) });
  }
  expect(!(await page.locator(".ssl-predict:visible").count()), `${name}: a question is shown twice`);
  return count;
}

// The kernel is started anew behind the page's back: steps go on, and an edit gets a word after a while.
async function restarted(page, notebook, stepper) {
  const headers = { Authorization: `token ${token}` };
  const sessions = await (await page.request.get(`${address.origin}/api/sessions`, { headers })).json();
  const id = sessions.find((s) => s.path === notebook).kernel.id;
  await page.request.post(`${address.origin}/api/kernels/${id}/restart`, { headers });
  await stepper.focus();
  await page.keyboard.press("End");
  await until(page, stepper, (s) => s.step === s.last, "a stepper steps without Python");
  await page.keyboard.press("m");
  await page.keyboard.press("Enter");
  return (await until(page, stepper, (s) => s.word, "a word where Python does not answer")).word;
}

(async () => {
  const browser = await chromium.launch({ executablePath: told.chromium, args: QUIET });
  const out = [];
  let current = null;
  try {
    for (const [theme, width] of told.looks) {
      const page = await browser.newPage({ viewport: { width, height: 1000 }, colorScheme: theme, reducedMotion: "reduce" });
      current = page;
      page.setDefaultTimeout(15000);
      const outside = [], loud = [];
      page.on("request", (r) => { if (!r.url().startsWith(address.origin) && /^https?:/.test(r.url())) outside.push(r.url()); });
      page.on("pageerror", (e) => loud.push(String(e)));
      await settings(page, "@jupyterlab/apputils-extension:themes", { theme: theme === "dark" ? "JupyterLab Dark" : "JupyterLab Light" });
      await settings(page, "@jupyterlab/notebook-extension:tracker", { windowingMode: "none" });
      for (const notebook of told.notebooks) {
        await open(page, notebook);
        await runAll(page);
        const predictions = await predictAll(page, `${path.basename(notebook, ".ipynb")}-${theme}-${width}`);
        const steppers = page.locator(".stepper:not(.still)");
        const count = await steppers.count();
        for (let n = 0; n < count; n += 1) {
          const stepper = steppers.nth(n);
          const name = `${path.basename(notebook, ".ipynb")}-${n + 1}-${theme}-${width}`;
          const shot = async (what) => {
            await stepper.screenshot({ path: path.join(told.out, `${name}-${what}.png`) });
          };
          const others = async () => Promise.all([...Array(count).keys()].filter((k) => k !== n).map(async (k) => (await read(steppers.nth(k))).where));
          const before = await others();
          out.push({ name, ...(await walk(page, stepper, shot).catch((e) => { throw new Error(`${name}: ${e.message}`); })) });
          expect(JSON.stringify(before) === JSON.stringify(await others()), `${name}: another stepper moved`);
        }
        if (count && told.restart) {
          out[out.length - 1].gone = await restarted(page, notebook, steppers.last());
          await steppers.last().screenshot({ path: path.join(told.out, `${path.basename(notebook, ".ipynb")}-${theme}-${width}-restarted.png`) });
        }
        if (!count) out.push({ name: notebook, steppers: 0 });
        out[out.length - 1].predictions = predictions;
        out[out.length - 1].pictures = await pictures(page, `${path.basename(notebook, ".ipynb")}-${theme}-${width}`);
        const asks = await page.locator(".Toastify__toast").allInnerTexts();
        expect(!asks.length, `${notebook}: JupyterLab asks: ${asks.join(" | ")}`);
        await page.screenshot({ path: path.join(told.out, `${path.basename(notebook, ".ipynb")}-${theme}-${width}.png`) });
      }
      expect(!outside.length, `asked of the network: ${outside.slice(0, 3).join(", ")}`);
      expect(!loud.length, `errors in the page: ${loud.slice(0, 3).join(", ")}`);
      await page.close();
    }
  } catch (error) {
    if (current) await current.screenshot({ path: path.join(told.out, "failed.png") });
    throw error;
  } finally {
    await browser.close();
  }
  console.log(JSON.stringify(out));
})().catch((error) => { console.error(error.message); process.exit(1); });
