// Why a token has its label: contributions with signed bars, what would flip it, and the hidden states behind it.

import { chance, coloured, counted, el, shareBar, signed, typeOf } from "./wording.js";

const FEATURES = 12; // contributions that are drawn; the others are summed
const FLIPS = 5;
const TOTALS = { margin: "margin of scores", weight: "weight of constraints" };

/** The panel's content. `facts` is the answer of /explain, `hidden` the probabilities of its states. */
export function reasons(facts, hidden, shown) {
  const nodes = [], layers = Object.entries(facts.layers ?? { "": facts }).reverse(); // of a cascade the highest first
  for (const [layer, token] of layers) {
    if (layers.length > 1) nodes.push(el("h3", { class: "layer" }, `Layer ${layer}`));
    const isTop = layers[0][1] === token;
    nodes.push(...explained(token, facts.words ?? [], isTop ? shown : token.labels, isTop ? hidden : null));
  }
  return nodes;
}

function explained(token, words, shown, hidden) {
  const p = (value) => (value == null ? "" : ` (${chance(value)})`);
  const nodes = [];
  const name = (label) => coloured(el("b", { class: "tag" }, label), label);
  const shownLabel = shown[token.token], isShown = token.labels.every((label, t) => label === shown[t]);
  if (!isShown) {
    nodes.push(el("p", { class: "note" }, "The decoder chose another labelling. This explains the most probable one, " +
      `which has ${token.label === shownLabel ? `${token.label} here too` : `${token.label} here, not ${shownLabel}`}.`));
  }
  if (token.runner_up == null) {
    nodes.push(el("p", {}, name(token.label), `${p(token.probability)}: no other label is possible here, or none was proposed.`));
    return [...nodes, ...(hidden ? states(hidden, shownLabel) : []), ...neighbours(token)];
  }
  nodes.push(el("p", {}, name(token.label), `${p(token.probability)} rather than `, name(token.runner_up),
    p(token.runner_up_probability)));
  const measure = TOTALS[token.measure] ?? token.measure;
  if (token.measure === "log-odds") {
    nodes.push(el("p", { class: "quiet" }, `The ${isShown ? "labelling shown" : "most probable labelling"} is ${times(token.log_odds)} as probable as the best one ` +
      `with ${token.runner_up} here: log-odds ${signed(token.log_odds)}.`));
  }
  if (hidden) nodes.push(...states(hidden, shownLabel));
  const compared = differing(token, words);
  if (compared) nodes.push(el("h3", {}, "The two labellings, where they differ"), compared);
  nodes.push(el("h3", {}, `Contributions to the ${measure}`), contributions(token, words, measure));
  if (token.flips?.length) {
    const more = token.flips.length - FLIPS;
    nodes.push(el("h3", {}, "Without one of these the label would be another"), el("ul", { class: "flips" },
      ...token.flips.slice(0, FLIPS).map((flip) => el("li", {}, name(flip.label), " without ",
        el("code", {}, flip.name), ` at “${words[flip.token] ?? ""}”`)),
      more > 0 ? el("li", { class: "quiet" }, `and ${counted(more, "more feature")}`) : null));
  } else if (token.flips) {
    nodes.push(el("p", { class: "quiet" }, "No single feature decides: without any one of them the label is the same."));
  }
  return [...nodes, ...neighbours(token)];
}

/** Of memory-based taggers: where a similar token stood in the training data. */
function neighbours(token) {
  const rows = (token.details?.neighbours ?? []).slice(0, FLIPS).map((near) => {
    const place = near.places?.find((one) => one.words), from = Math.max(0, (place?.token ?? 0) - 3);
    const around = place ? place.words.slice(from, place.token + 4).map((word, k) =>
      (from + k === place.token ? el("b", {}, `${word} `) : `${word} `)) : [];
    return el("li", {}, el("code", {}, near.labels.map((label) => label ?? "_").join(" ")),
      ` at distance ${near.distance.toFixed(3)}${place ? ": … " : ""}`, ...around);
  });
  return rows.length ? [el("h3", {}, "Nearest in the training data"), el("ul", { class: "flips" }, ...rows)] : [];
}

function times(logOdds) {
  const ratio = Math.exp(logOdds);
  if (ratio < 1.05) return "about";
  return `${ratio < 10 ? ratio.toFixed(1) : ratio < 1e6 ? Math.round(ratio).toLocaleString("en") : "over a million"} times`;
}

function differing(token, words) {
  const other = token.runner_up_labels;
  if (!other) return null;
  const unlike = token.labels.flatMap((label, t) => (label === other[t] ? [] : [t]));
  if (!unlike.length) return null;
  const first = Math.max(0, unlike[0] - 1), last = Math.min(words.length, unlike.at(-1) + 2, first + 12);
  const row = (title, labels) => el("tr", {}, el("th", { scope: "row" }, title), ...labels.slice(first, last).map((label, k) =>
    el("td", {}, token.labels[first + k] === other[first + k] ? label : el("mark", {}, label))));
  return el("div", { class: "scroll", role: "group", tabindex: "0", "aria-label": "The two labellings" }, el("table", {},
    el("thead", {}, el("tr", {}, el("td"), ...words.slice(first, last).map((word) => el("th", { scope: "col", dir: "auto" }, word)))),
    el("tbody", {}, row("label", token.labels), row("runner-up", other))));
}

function contributions(token, words, measure) {
  const all = token.contributions, features = all.filter((row) => row.kind !== "transition");
  const shown = features.slice(0, FEATURES), rest = features.slice(FEATURES);
  const sum = (rows) => rows.reduce((total, row) => total + row.value, 0);
  const [into, out, elsewhere] = [[], [], []];
  for (const row of all) {
    if (row.kind === "transition") (row.end - 1 === token.token ? into : row.token === token.token ? out : elsewhere).push(row);
  }
  const at = (row) => (row.token == null || row.token === token.token ? null :
    el("span", { class: "quiet" }, ` at “${words.slice(row.token, row.end).join(" ")}”`));
  const rows = shown.map((row) => [row.value, true, el("code", {}, row.name), at(row)]);
  if (rest.length) rows.push([sum(rest), false, counted(rest.length, "more feature")]);
  for (const [title, moves] of [["into it", into], ["out of it", out]]) {
    if (moves.length) rows.push([sum(moves), true, `transition ${title}: `, el("code", {}, moves[0].name)]);
  }
  if (elsewhere.length) rows.push([sum(elsewhere), false, "transitions elsewhere"]);
  rows.push([sum(all), false, el("b", {}, `sum: the ${measure}`)]);
  const largest = Math.max(...rows.filter((row) => row[1]).map((row) => Math.abs(row[0])), 1e-9);
  const list = el("ul", { class: "reasons" });
  for (const [value, isDrawn, ...text] of rows) {
    const axis = el("span", { class: "axis", "aria-hidden": "true" }, el("span", { class: value < 0 ? "against" : "for" }));
    axis.firstChild.style.width = isDrawn ? `${(Math.abs(value) / largest) * 50}%` : "0";
    list.append(el("li", {}, el("span", { class: "number" }, signed(value)), axis, el("span", {}, ...text)));
  }
  return el("div", {}, el("p", { class: "quiet axes", "aria-hidden": "true" }, el("span", {}, `← ${token.runner_up}`),
    el("span", {}, `${token.label} →`)), list);
}

/** The hidden states of a token, those of its label first. */
function states(all, label) {
  const rows = Object.entries(all).sort((a, b) => b[1] - a[1]).filter(([name, p], k) => k < 2 || p >= 0.005 || name.startsWith(`${label}#`));
  return [el("h3", {}, "Hidden states behind it"), el("ul", { class: "reasons states" }, ...rows.slice(0, 6).map(([name, p]) => el("li", {}, el("span", { class: "number" }, chance(p)),
    shareBar(p), coloured(el("span", { class: "tag" }, name), typeOf(name.replace(/#\d+$/, ""))))))];
}
