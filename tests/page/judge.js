// Judges texts with page.js: reads [{data, texts}, ...] as JSON, and prints [{text: [right, why]}, ...]. A question of a
// stepper has no form beside its sealed part, and its verdict is words.
require("../../sharedstate_lite/show/page/page.js");
const { judge } = globalThis.sharedstate;

const given = JSON.parse(require("fs").readFileSync(0, "utf8"));
const verdicts = given.map(({ data, texts }) =>
  Object.fromEntries(texts.map((text) => {
    const { right, why } = data.text ? (({ right, text: why }) => ({ right, why }))(judge.step(data, text)) : judge.verdict(data, text);
    return [text, [right, why]];
  })));
console.log(JSON.stringify(verdicts));
