// Texts that lie on each other, stick out or are too small, measured by the browser itself.
const faults = (within, which) => within.evaluate((root, which) => {
  const out = [], edge = root.getBoundingClientRect();
  const texts = [...root.querySelectorAll(which)]
    .filter((e) => e.getBoundingClientRect().width > 0 && e.textContent.trim());
  // The text itself, not the box that it was given: what runs over must be seen.
  const boxes = texts.map((e) => { const range = document.createRange(); range.selectNodeContents(e);
    return e.ownerSVGElement ? e.getBoundingClientRect() : range.getBoundingClientRect(); });
  // What a chart does not have room for it draws smaller by a transformation.
  const scale = (e) => { const m = e.getScreenCTM && e.getScreenCTM(); return m ? Math.sqrt(Math.abs(m.a * m.d - m.b * m.c)) : 1; };
  boxes.forEach((a, i) => {
    if (a.left < edge.left - 1 || a.right > edge.right + 1) out.push(`sticks out: ${texts[i].textContent}`);
    if (parseFloat(getComputedStyle(texts[i]).fontSize) * scale(texts[i]) < 11.9) out.push(`too small: ${texts[i].textContent}`);
    boxes.forEach((b, j) => {
      const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (i < j && wide > 1.5 && high > 4 && !texts[i].contains(texts[j]) && !texts[j].contains(texts[i]))
        out.push(`${texts[i].textContent} lies on ${texts[j].textContent}`);
    });
  });
  return out;
}, which);

module.exports = { faults };
