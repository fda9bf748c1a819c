// Judges texts with page.js: reads [{data, texts}, ...] as JSON, and prints [{text: [right, why]}, ...].
require("../../sharedstate_lite/show/page/page.js");
const { judge } = globalThis.sharedstate;

const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const verdicts = given.map(({ data, texts }) =>
  Object.fromEntries(texts.map((text) => {
    const { right, why } = judge.verdict(data, text);
    return [text, [right, why]];
  })));
console.log(JSON.stringify(verdicts));
