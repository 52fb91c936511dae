// Small things that all parts share: elements, numbers, labels and their colours.

/** An element; `of` holds attributes, on… handlers and class; texts are never read as HTML. */
export function el(name, of = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(of)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** A probability in words: never rounded up to 1 nor down to 0. */
export function chance(p) {
  if (!(p > 0)) return "under 0.000001"; // the service rounds to six digits
  if (p > 0.9999) return "over 0.9999";
  if (p >= 0.99) return (Math.floor(p * 1e4) / 1e4).toFixed(4);
  if (p >= 0.01) return p.toFixed(2);
  if (p >= 0.0001) return p.toFixed(4);
  const [digits, power] = p.toExponential(1).split("e");
  return `${digits} × 10${[...String(Number(power))].map((c) => RAISED[c]).join("")}`;
}

/** An upper bound in words, rounded up. */
export function atMost(gap) {
  const digits = gap >= 0.01 && gap < 0.99 ? 2 : gap >= 0.0001 ? 4 : 6;
  return Math.min(1, Math.ceil(gap * 10 ** digits - 1e-9) / 10 ** digits || 10 ** -digits).toFixed(digits);
}

/** In two digits, for the small tags beside spans. */
export const brief = (p) => (p > 0.99 ? "> 0.99" : p < 0.01 ? "< 0.01" : p.toFixed(2));
export const signed = (x) => `${x < 0 ? "−" : "+"}${Math.abs(x).toFixed(2)}`;
export const counted = (n, what) => `${n.toLocaleString("en")} ${what}${n === 1 ? "" : "s"}`;

/** PER of B-PER; a label without a prefix is its own type. */
export const typeOf = (label) => label.replace(/^[BIESLUM]-(?=.)/, "");

/** Do the labels of a model mark spans (B-PER, I-PER, O) rather than single tokens (NN, VB)? */
export const marksSpans = (labels) => labels.every((label) => /^(O|[BIESLUM](-.+)?)$/.test(label));

// Hues of oklch: with fixed lightness all have the same contrast. A type gets the hue of its hash, or the next free one.
const HUES = [25, 255, 145, 310, 75, 200, 350, 115, 280, 50, 170, 225];
const hues = new Map();

export function chooseColours(types) {
  hues.clear();
  const used = new Set();
  for (const type of [...new Set(types)].sort()) {
    let slot = [...type].reduce((hash, c) => (hash * 31 + c.codePointAt(0)) >>> 0, 7) % HUES.length;
    while (used.has(slot) && used.size < HUES.length) slot = (slot + 1) % HUES.length;
    used.add(slot);
    hues.set(type, HUES[slot]);
  }
}

/** Gives an element the colour of a label type; CSS makes background and text of it. */
export function coloured(node, label) {
  const hue = hues.get(typeOf(label));
  if (hue !== undefined && label !== "O") node.style.setProperty("--hue", hue);
  node.classList.toggle("outside", label === "O");
  return node;
}

/** A bar from the left, for probabilities. */
export function shareBar(p) {
  const bar = el("span", { class: "share", "aria-hidden": "true" }, el("span"));
  bar.firstChild.style.width = `${Math.max(0, Math.min(1, p)) * 100}%`;
  return bar;
}
