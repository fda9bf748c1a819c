// The website in a browser. Looks at each page in each theme and width, and prints what is wrong as one JSON list.
//
//   node site.js '{"address": "http://127.0.0.1:8000", "pages": ["index.html"], "looks": [["light", 1280]], "chromium": ..., "out": ...}'
const path = require("path");
const { chromium } = require(process.env.PLAYWRIGHT || "playwright-core");
const { faults } = require("./faults.js");

const told = JSON.parse(process.argv[2]), wrong = [];
const PAGE = { light: "rgb(255, 255, 255)", dark: "rgb(20, 23, 26)" };

async function look(browser, name, theme, width) {
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: theme });
  const page = await context.newPage(), where = `${name}, ${theme}, ${width} px`, say = (words) => wrong.push(`${where}: ${words}`);
  page.on("pageerror", (error) => say(error.message));
  page.on("console", (message) => message.type() === "error" && say(message.text()));
  page.on("request", (asked) => /^(https?|wss?):/.test(asked.url()) && !asked.url().startsWith(told.address) && say(`asks ${asked.url()}`));
  await page.goto(`${told.address}/${name}`, { waitUntil: "load" });
  for (const place of await page.locator(".ssl-mount:has(.ssl-still), .ssl-mount[data-key]").all()) {
    await place.scrollIntoViewIfNeeded();
    await place.locator(".stepper").waitFor();
    const stepper = place.locator(".stepper:not(.still)");
    if (await stepper.count()) await step(page, stepper, say);
  }
  const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  if (over > 0) say(`is ${over} px too wide`);
  const pictures = page.locator(".nb-output svg[role=img]:visible");
  for (let n = 0; n < await pictures.count(); n += 1) {
    const seen = await faults(pictures.nth(n), "text");
    if (seen.length) say(`picture ${n + 1}: ${seen.slice(0, 3).join("; ")}`);
  }
  const colours = () => page.evaluate(() => [...document.querySelectorAll(".nb-output svg[role=img]")].map((e) => getComputedStyle(e.querySelector("rect")).fill));
  if ((await colours()).some((each) => each !== PAGE[theme])) say("a picture has the colours of the other theme");
  await page.screenshot({ path: path.join(told.out, `${name.replaceAll("/", "-")}-${theme}-${width}.png`), fullPage: true });
  const toggle = page.locator("label[for^=__palette]:visible");
  if (await toggle.count()) {
    // The next two choices after the system's own are light and dark.
    for (const chosen of ["light", "dark"]) {
      await toggle.click();
      await page.waitForTimeout(300);
      if ((await colours()).some((each) => each !== PAGE[chosen])) say(`a picture does not follow when the reader chooses ${chosen}`);
    }
  }
  if (name === "index.html") await search(page, say);
  await context.close();
}

// Every step forwards and backwards, by keyboard, buttons and slider.
async function step(page, stepper, say) {
  const at = () => stepper.evaluate((root) => ({ step: +root.querySelector(".slider").value, last: +root.querySelector(".slider").max }));
  const expect = async (wanted, how) => { const now = await at(); if (now.step !== wanted) say(`${how}: ${JSON.stringify(now)}, not step ${wanted}`); };
  await stepper.focus();
  await page.keyboard.press("Home");
  await expect(0, "Home");
  const { last } = await at();
  if (!last) say("the stepper has no steps");
  for (let n = 1; n <= last; n += 1) {
    await page.keyboard.press("ArrowRight");
    await expect(n, "→");
  }
  await stepper.locator("button", { hasText: "Back" }).click();
  await expect(last - 1, "Back");
  await stepper.locator("button", { hasText: "Next" }).click();
  await expect(last, "Next");
  await stepper.focus();
  for (const key of ["m", "i", "f"]) await page.keyboard.press(key);
  await expect(last, "keys that need Python");
  for (const shown of ["messages", "state"]) {
    await page.keyboard.press("t");
    await expect(last, `T, which shows ${shown}`);
  }
  if (await stepper.locator("button", { hasText: "Edit" }).count()) say("the stepper offers an edit");
}

async function search(page, say) {
  await page.locator(".md-search__input").focus();
  await page.keyboard.type("arrangement");
  await page.locator(".md-search-result__link").first().waitFor({ timeout: 20000 }).catch(() => say("the search finds nothing"));
}

(async () => {
  const browser = await chromium.launch({ executablePath: told.chromium, args: ["--no-sandbox", "--disable-gpu"] });
  try {
    for (const name of told.pages) for (const [theme, width] of told.looks) await look(browser, name, theme, width);
    console.log(JSON.stringify(wrong));
  } finally {
    await browser.close();
  }
})().catch((error) => { console.error(error.message); process.exit(1); });
