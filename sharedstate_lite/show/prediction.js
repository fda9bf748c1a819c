// The browser side of a prediction: one form until a guess is sent, then the verdict.
function node(tag, text, parent, kind) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (kind) made.className = kind;
  parent.append(made);
  return made;
}

function render({ model, el }) {
  const box = document.createElement("div");
  box.className = "ssl ssl-predict";
  el.append(box);
  // A text that is no answer gets a word, and the form stays as it is.
  let tell = () => {};
  const again = () => tell();
  const draw = () => {
    const given = model.get("given"), focused = box.contains(document.activeElement);
    box.replaceChildren();
    const asked = node("p", "", box);
    node("b", "Predict. ", asked);
    asked.append(model.get("question"));
    if ("text" in given) {
      const mark = given.right === null ? "" : given.right ? "✓ " : "✗ ";
      const said = node("p", mark + given.text, box, given.right === null ? "" : given.right ? "right" : "wrong");
      said.setAttribute("role", "status");
      said.tabIndex = -1;
      if (given.why) node("p", given.why, box);
      if (focused) said.focus();
      return;
    }
    const form = document.createElement("form");
    box.append(form);
    const input = node("input", "", form);
    input.setAttribute("aria-label", model.get("question"));
    input.autocomplete = "off";
    node("button", "Check", form).type = "submit";
    const skip = node("button", "Skip", form);
    skip.type = "button";
    const word = node("p", "", box, "wrong");
    word.setAttribute("role", "status");
    word.hidden = true;
    const say = (text) => { word.textContent = text; word.hidden = !text; };
    tell = () => say(model.get("again").text);
    const send = (message) => {
      say("");
      model.send(message);
      // Without a kernel there is no answer, and a restarted one does not know this box; the reader is told.
      const before = model.get("again").number;
      setTimeout(() => {
        if (!("text" in model.get("given")) && model.get("again").number === before)
          say("Python does not answer. It may be busy with another cell. If it was restarted, run this cell again.");
      }, 5000);
    };
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      if (input.value.trim()) send({ guess: input.value });
      else say("Type a guess, or press Skip.");
    });
    skip.addEventListener("click", () => send({ skip: true }));
    // JupyterLab's shortcuts must not see what is typed.
    for (const kind of ["keydown", "keypress", "keyup"]) form.addEventListener(kind, (event) => event.stopPropagation());
  };
  model.on("change:given", draw);
  model.on("change:again", again);
  draw();
  return () => { model.off("change:given", draw); model.off("change:again", again); };
}

export default { render };
