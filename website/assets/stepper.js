// The stepper on a page without Python. `stepper` is the widget's script (sharedstate_lite/show/stepper/widget.js), which
// the build puts before this one. A model answers its requests from the frames that the notebook's run has drawn.

const fit = (widths, wide) => widths.filter((w) => w <= wide).at(-1) ?? widths[0];
const widthsOf = (drawn) => Object.keys(drawn).map(Number).sort((a, b) => a - b);

function model({ state, history, frames, lines }, place) {
  const listeners = {};
  const wide = fit(widthsOf(frames), place.clientWidth);
  const line = () => lines[fit(widthsOf(lines), place.clientWidth)];
  const values = { state, history, kept: { branch: state.branch, width: wide, line: line(), frames: frames[wide] } };
  const emit = (message) => (listeners["msg:custom"] || []).forEach((hear) => hear(message));
  const answer = ({ seq, view, ...asked }) => {
    if (asked.do !== "frames") return { type: "ack", seq, view };
    const drawn = frames[fit(widthsOf(frames), asked.width)];
    const chosen = Object.fromEntries(asked.steps.map((n) => [n, drawn[n]]));
    return { type: "frames", branch: state.branch, width: asked.width, version: 0, frames: chosen, line: line(), seq, view };
  };
  return {
    get: (name) => values[name],
    on: (name, hear) => (listeners[name] ??= []).push(hear),
    off: (name, hear) => (listeners[name] = (listeners[name] || []).filter((each) => each !== hear)),
    send: (message) => queueMicrotask(() => emit(answer(message))),
  };
}

function begin(place) {
  const script = document.createElement("script");
  script.src = place.dataset.frames;
  script.onload = () => stepper.render({ model: model(window.steppers[place.dataset.key], place), el: place });
  script.onerror = () => { place.textContent = `The stepper's frames cannot be loaded: ${script.src}`; };
  document.head.append(script);
}

// The frames of a stepper have megabytes, so they are loaded when its place is near.
const near = new IntersectionObserver((seen) => {
  for (const { isIntersecting, target } of seen) if (isIntersecting) { near.unobserve(target); begin(target); }
}, { rootMargin: "1000px" });
for (const place of document.querySelectorAll(".nb-stepper")) near.observe(place);
