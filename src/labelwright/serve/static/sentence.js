// One labelled sentence: its tokens and spans, the proof, the next-best labellings, the probabilities of each token.

import * as api from "./api.js";
import { atMost, brief, chance, coloured, counted, el, marksSpans, shareBar } from "./wording.js";

const NEXT_BEST = 6; // labellings, with the best
const AROUND = 3; // tokens shown on each side of a difference
const OTHERS = 3; // labels beside the chosen one in the table of probabilities

/** The card of a sentence. `column` has model, points (characters of the text), open (parts that are open). */
export function card(column, sentence, n, other) {
  const heading = column.title ? el("h2", {}, column.title) : null;
  const node = el("article", { class: "card", "data-column": column.number, "data-sentence": n }, heading,
    line(column, sentence, n, other), proof(sentence));
  const part = (name, title, fill) => {
    const details = el("details", { "data-part": name }, el("summary", {}, title),
      el("div", { class: "scroll", role: "group", tabindex: "0", "aria-label": title }));
    const open = () => {
      column.open[details.open ? "add" : "delete"](`${name}${n}`);
      if (details.open && !details.dataset.filled) {
        details.dataset.filled = "yes";
        fill(details.lastChild);
      }
    };
    details.addEventListener("toggle", open);
    details.open = column.open.has(`${name}${n}`);
    if (details.open) open();
    node.append(details);
  };
  if (!sentence.tokens.length) return node;
  part("next", "Next-best labellings", (body) => later(body, column, sentence, "nbest", nextBest));
  if (column.model.probabilities !== false) {
    part("tokens", "Probabilities of each token", (body) => later(body, column, sentence, "marginals", probabilities));
  }
  return node;
}

// -- the sentence -----------------------------------------------------------------------------------------------------

const spansShown = (column, sentence) => sentence.spans?.length > 0 || marksSpans(column.model.labels ?? sentence.labels);

function line(column, sentence, n, other) {
  const p = el("p", { class: "line", dir: "auto", role: "group", "aria-label": `Sentence ${n + 1}` });
  const asSpans = spansShown(column, sentence);
  p.classList.toggle("stacked", !asSpans);
  p.append(...pieces(column.points, sentence.tokens, sentence.spans ?? [], asSpans, (t, span) => {
    const label = sentence.labels[t], word = sentence.tokens[t].text;
    const otherLabel = other?.get(place(sentence.tokens[t]));
    const differs = other && otherLabel !== label;
    const p = sentence.marginals?.[t]?.[label];
    const notes = [word, label === "O" ? "no label" : label];
    if (p !== undefined) notes.push(`probability ${chance(p)}`);
    if (span && t === span.first && span.probability != null) notes.push(`span ${span.label} ${chance(span.probability)}`);
    if (differs) notes.push(otherLabel === undefined ? "split differently in the other column" : `other column ${otherLabel}`);
    const node = el("span", { class: differs ? "token differs" : "token", role: "button", tabindex: t ? "-1" : "0",
      "data-token": t, "aria-label": notes.join(", ") }, el("span", { class: "word" }, word));
    if (!asSpans) node.append(coloured(el("span", { class: "tag" }, label), label));
    return node;
  }));
  return p;
}

export const place = (token) => `${token.start}-${token.end}`;

/** Tokens with the text between them; spans are wrapped and named. */
export function pieces(points, tokens, spans, asSpans, draw, shown = null) {
  const nodes = [], starts = new Map(asSpans ? spans.map((span) => [span.first, span]) : []);
  const gap = (t) => {
    const before = tokens[t - 1], token = tokens[t];
    if (!before || token.start == null) return before ? " " : "";
    return points.slice(before.end, token.start).join("").slice(0, 20);
  };
  let left = false;
  for (let t = 0; t < tokens.length; t++) {
    const span = starts.get(t), last = span ? Math.max(t, span.last) : t;
    const isShown = !shown || Array.from({ length: last - t + 1 }, (_, k) => t + k).some((k) => shown.has(k));
    if (!isShown) {
      if (!left) nodes.push(" … ");
      left = true;
    } else {
      nodes.push(left ? "" : gap(t));
      left = false;
      if (!span) nodes.push(draw(t, null));
      else {
        const mark = coloured(el("span", { class: "span" }), span.label || "span");
        for (let k = t; k <= last; k++) mark.append(k > t ? gap(k) : "", draw(k, span));
        const p = span.probability == null ? null : el("small", {}, brief(span.probability));
        // a hard space: the tag stays on the line of the last word
        mark.append(el("span", { class: "tag", "aria-hidden": "true" }, "\u00a0", span.label || "span", p ? "\u00a0" : null, p));
        nodes.push(mark);
      }
    }
    t = last;
  }
  return nodes;
}

/** What the search proved, in plain words. */
function proof(sentence) {
  const { exact, gap, probability, log_probability: log, confidence } = sentence;
  const p = probability == null ? null : ` P\u00a0=\u00a0${chance(log == null ? probability : Math.exp(log))}.`;
  let words, state;
  if (!sentence.tokens.length) [state, words] = ["none", "No tokens here."];
  else if (exact && p) [state, words] = ["proven", "Proven: of all labellings, the model finds this the most probable."];
  else if (exact) [state, words] = ["proven", "Proven: of all labellings, this has the highest score."];
  else if (gap != null) {
    [state, words] = ["bounded", `Not proven: another labelling may be more probable, by at most ${atMost(gap)}.`];
  } else [state, words] = ["open", p ? "Not proven: a more probable labelling may exist." : "No proof for this kind of model."];
  if (p == null && confidence != null) words += ` Confidence ${chance(confidence)}.`;
  const sign = { proven: "✓", bounded: "≈", open: "?", none: "–" }[state];
  return el("p", { class: `proof ${state}` }, el("span", { class: "sign", "aria-hidden": "true" }, sign), ` ${words}${p ?? ""}`);
}

// -- what is opened ---------------------------------------------------------------------------------------------------

const QUESTIONS = { nbest: NEXT_BEST, marginals: true, states: true };

/** The nbest, marginals or states of a sentence; what the first answer left out is asked for once. */
export async function inDetail(column, sentence, what) {
  if (!sentence[what]?.length) {
    const tokens = [sentence.tokens.map((token) => token.text)];
    const answer = await api.tag({ model: column.model.name, tokens, [what]: QUESTIONS[what] });
    sentence[what] = answer.sentences[0][what];
  }
  return sentence[what];
}

async function later(body, column, sentence, what, draw) {
  body.replaceChildren(el("p", { class: "quiet" }, "Loading …"));
  try {
    body.replaceChildren(draw(column, sentence, await inDetail(column, sentence, what)));
  } catch (error) {
    body.replaceChildren(el("p", { class: "error", role: "alert" }, error.message));
  }
}

function nextBest(column, sentence, rows) {
  const same = (labels) => labels.every((label, t) => label === sentence.labels[t]);
  const list = el("ol", { class: "next" });
  const largest = Math.max(...rows.map((row) => row.probability ?? 0), 1e-300);
  for (const row of rows) {
    const item = el("li", {}, el("span", { class: "number" }, row.probability == null ? row.score?.toFixed(2) ?? "" : chance(row.probability)),
      row.probability == null ? el("span") : shareBar(row.probability / largest));
    if (same(row.labels)) item.append(el("span", { class: "quiet" }, "the labelling above"));
    else item.append(alternative(column, sentence, row));
    list.append(item);
  }
  return rows.length ? list : el("p", { class: "quiet" }, "This model has no other labellings to show.");
}

/** Another labelling, around the tokens whose label differs; these are marked. */
function alternative(column, sentence, row) {
  const unlike = sentence.labels.flatMap((label, t) => (label === row.labels[t] ? [] : [t]));
  const shown = new Set(unlike.flatMap((t) => Array.from({ length: 2 * AROUND + 1 }, (_, k) => t - AROUND + k)));
  const asSpans = spansShown(column, sentence);
  const node = el("span", { class: asSpans ? "labelling" : "labelling stacked", dir: "auto" });
  const spans = (row.spans ?? []).map((span) => ({ ...span, probability: null }));
  node.append(...pieces(column.points, sentence.tokens, spans, asSpans, (t) => {
    const changed = sentence.labels[t] !== row.labels[t], label = row.labels[t];
    const token = el(changed ? "mark" : "span", { title: changed ? `${label}, not ${sentence.labels[t]}` : null },
      el("span", { class: "word" }, sentence.tokens[t].text));
    if (!asSpans) token.append(coloured(el("span", { class: "tag" }, label), label));
    return token;
  }, shown));
  const changes = unlike.slice(0, 4).map((t) => `${sentence.tokens[t].text} ${sentence.labels[t]} → ${row.labels[t]}`);
  if (unlike.length > 4) changes.push(`${unlike.length - 4} more`);
  return el("span", { class: "alternative" }, node, el("small", { class: "quiet" }, changes.join("; ")));
}

function probabilities(column, sentence, marginals) {
  const rows = sentence.tokens.map((token, t) => {
    const label = sentence.labels[t], all = Object.entries(marginals[t] ?? {}).sort((a, b) => b[1] - a[1]);
    const p = all.find(([name]) => name === label)?.[1] ?? 0;
    const others = all.filter(([name, value]) => name !== label && value >= 0.005).slice(0, OTHERS);
    return el("tr", {}, el("th", { scope: "row", dir: "auto" }, token.text),
      el("td", {}, coloured(el("span", { class: "tag" }, label), label)),
      el("td", { class: "number" }, chance(p).replace("over", ">")), el("td", {}, shareBar(p)),
      el("td", { class: "quiet others" }, ...others.flatMap(([name, value], k) =>
        [k ? ", " : "", el("span", {}, `${name} ${brief(value)}`)])));
  });
  const head = ["Token", "Label", "P", "", "Other labels"].map((name) =>
    (name ? el("th", { scope: "col", class: name === "P" ? "number" : null }, name) : el("td")));
  return el("table", { "aria-label": `Probabilities of ${counted(rows.length, "token")}` },
    el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
}

/** What the tooltip of a token says. */
export function inShort(sentence, t) {
  const label = sentence.labels[t], span = sentence.spans?.find((one) => one.first <= t && t <= one.last);
  const lines = [], all = sentence.marginals?.[t] ?? {};
  if (span?.probability != null) lines.push(`“${span.text ?? ""}” is ${span.label || "a span"}: ${chance(span.probability)}`);
  lines.push(all[label] === undefined ? label : `${label}: ${chance(all[label])}`);
  const next = Object.entries(all).filter(([name]) => name !== label).sort((a, b) => b[1] - a[1])[0];
  if (next && next[1] >= 0.0001) lines.push(`next ${next[0]}: ${chance(next[1])}`);
  return lines;
}
