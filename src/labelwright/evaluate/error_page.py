"""The analysis of errors as one page for a browser: tables that filter the errors, each error in its sentence.

All that the page shows is in the JSON inside it; the style and the program are in it, too, so it needs no network.
"""

from collections.abc import Mapping
from html import escape
from typing import Any

from labelwright.html_page import html_page


def page(analyses: Mapping[str, Mapping[str, Any]], title: str = "Errors") -> str:
    """The page of one analysis (`ErrorAnalysis.as_dict`), or of several, by the layer of a cascade."""
    body = f'<header><h1>{escape(title)}</h1><p id="totals"></p></header>\n{BODY}'
    return html_page(title, STYLE, body, PROGRAM, analyses)


STYLE = """
h2 { font-size: .95rem; margin: 0 0 .4rem; }
p { margin: .2rem 0 1rem; color: var(--quiet); }
.tables { display: grid; grid-template-columns: repeat(auto-fit, minmax(320px, 1fr)); gap: .8rem; margin-bottom: 1rem; }
.panel { background: var(--panel); border: 1px solid var(--line); border-radius: 6px; padding: .7rem; min-width: 0; }
.panel.wide { grid-column: 1 / -1; }
.scroll { overflow: auto; max-height: 17rem; }
table { width: 100%; }
th { text-align: right; position: sticky; top: 0; background: var(--panel); }
td { text-align: right; font-variant-numeric: tabular-nums; border-top: 1px solid var(--line); }
th, td { padding: .16rem .4rem; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere;
  min-width: 4.5rem; }
tr.pick { cursor: pointer; } tr.pick:hover td, tr.pick:focus td { color: var(--link); }
td .bar { display: block; height: 4px; background: var(--bar); border-radius: 2px; margin-top: 2px; }
form { display: flex; flex-wrap: wrap; gap: .6rem; align-items: end; position: sticky; top: 0; z-index: 2;
  background: var(--page); padding: .6rem 0; border-bottom: 1px solid var(--line); }
label { font-size: .78rem; color: var(--quiet); display: grid; gap: .15rem; }
select, input, button { font-size: .9rem; background: var(--panel);
  border: 1px solid var(--line); border-radius: 5px; padding: .25rem .45rem; max-width: 13rem; }
article { padding: .55rem 0; border-bottom: 1px solid var(--line); }
.about { font-size: .8rem; color: var(--quiet); display: flex; flex-wrap: wrap; gap: .3rem .8rem; }
.about b { color: var(--text); font-weight: 600; }
.sentence { margin-top: .15rem; overflow-wrap: anywhere; display: grid; grid-template-columns: 5.2rem 1fr; }
.side { font-size: .78rem; color: var(--quiet); align-self: start; padding-top: .15rem; }
mark { padding: .05rem .25rem; border-radius: 4px; color: inherit; }
mark.gold { background: var(--good-back); } mark.predicted { background: var(--bad-back); }
mark small { margin-left: .3rem; font-weight: 600; }
mark.gold small { color: var(--good); } mark.predicted small { color: var(--bad); }
#more { margin: 1rem 0; }
"""

BODY = """<section class="tables" id="tables"></section>
<form id="filters" onsubmit="return false">
<label id="layers" hidden>layer<select name="layer"></select></label>
<label>kind of error<select name="kind"></select></label>
<label>gold<select name="gold"></select></label>
<label>predicted<select name="predicted"></select></label>
<label id="words" hidden>tokens<select name="unseen"><option value="">all</option><option value="true">an unseen one
</option><option value="false">all seen</option></select></label>
<label>order<select name="order"><option value="">by sentence</option><option value="certain">most certain first
</option><option value="close">closest calls first</option></select></label>
<label>search<input name="text" type="search" placeholder="phrase or sentence"></label>
<button type="reset">clear</button>
<label><span id="count" aria-live="polite"></span></label>
</form>
<main id="errors"></main>
<button id="more" type="button" hidden>show more</button>"""

PROGRAM = """
const PAGE = 100;  // errors that are shown at first, and with each "show more"
const form = document.getElementById("filters"), fields = form.elements;
let data, shown = PAGE;

const number = value => value.toLocaleString("en");
const percent = (share, of) => of ? (100 * share).toFixed(2) : "\\u2013";  // nothing to be a share of: a dash
const named = type => type || "(no type)";

function choices(field, values) {
  const before = field.value;
  field.replaceChildren(make("option", "all", {value: ""}), ...values.map(value => make("option", value, {value})));
  if (values.includes(before)) field.value = before;
}

// A table whose rows may set filters.
function table(title, heads, rows, wide) {
  if (!rows.length) return;
  const panel = make("div", null, {className: wide ? "panel wide" : "panel"});
  const box = make("div", null, {className: "scroll"});
  const whole = make("table"), head = make("tr");
  heads.forEach(text => head.append(make("th", text)));
  whole.append(head);
  for (const {cells, filters, share} of rows) {
    const row = make("tr");
    cells.forEach(cell => row.append(make("td", typeof cell === "number" ? number(cell) : cell)));
    if (share !== undefined) {
      const bar = make("span", null, {className: "bar"});
      bar.style.width = 100 * share + "%";
      row.firstChild.append(bar);
    }
    if (filters) {
      row.className = "pick"; row.tabIndex = 0; row.title = (data.meanings[filters.kind] || "") + " (click: show them)";
      row.onclick = () => pick(filters);
      row.onkeydown = event => { if (event.key === "Enter") pick(filters); };
    }
    whole.append(row);
  }
  box.append(whole);
  panel.append(make("h2", title), box);
  document.getElementById("tables").append(panel);
}

// Are there types at all?  Labels such as B, I and O have none.
function typed() { return Object.keys(data.per_type).some(type => type); }
function sides(phrase) {
  const both = ["gold", "predicted"].filter(name => phrase[name] !== null);
  return Object.fromEntries(both.map(name => [name, named(phrase[name])]));
}

function pick(filters) {
  for (const name of ["kind", "gold", "predicted", "text"]) fields[name].value = filters[name] || "";
  draw();
  form.scrollIntoView({behavior: "smooth"});
}

function tables() {
  document.getElementById("tables").replaceChildren();
  const chunks = data.unit === "chunk", kinds = Object.keys(data.kinds), most = Math.max(1, data.n_errors);
  if (chunks) table("Kinds of errors", ["kind", "errors", "share"], kinds.map(kind => ({
    cells: [kind, data.kinds[kind], (100 * data.kinds[kind] / most).toFixed(1) + " %"],
    filters: {kind}, share: data.kinds[kind] / most})));
  const top = data.confusions.length ? data.confusions[0].n : 1;
  table(chunks ? "Confused types" : "Confused labels", ["gold \\u2192 predicted", "errors"], data.confusions.map(c => ({
    cells: [named(c.gold) + " \\u2192 " + named(c.predicted), c.n],
    filters: {gold: named(c.gold), predicted: named(c.predicted)},
    share: c.n / top})));
  if (data.vocabulary) table("Tokens of the training data", chunks ? ["chunks", "gold", "precision", "recall", "f1"]
      : ["tokens", "gold", "accuracy"], Object.entries(data.vocabulary).map(([name, s]) => ({
    cells: [chunks ? {seen: "only seen tokens", unseen: "with an unseen token"}[name] : name + " tokens", s.gold,
      ...(chunks ? [percent(s.precision, s.predicted), percent(s.recall, s.gold), percent(s.f1, s.gold + s.predicted)]
        : [percent(s.recall, s.gold)])]})));
  const wrong = row => kinds.reduce((sum, kind) => sum + row[kind], 0);
  const types = Object.entries(data.per_type).sort((a, b) => wrong(b[1]) - wrong(a[1]));
  if (typed()) table(chunks ? "Types" : "Labels", [chunks ? "type" : "label", "gold", "predicted", "correct",
      ...(chunks ? kinds : ["wrong"])], types.map(([name, row]) => ({
    cells: [named(name), row.gold, row.predicted, row.correct, ...kinds.map(k => row[k])],
    filters: {gold: named(name)}})), chunks);
  const names = {missed: "Missed most often", invented: "Invented most often", label: "Tokens"};
  for (const kind of kinds) if (names[kind] && data.phrases[kind]) {
    const of = kind === "invented" ? "of predicted" : "of gold";
    const types = p => [p.gold, p.predicted].filter(x => x !== null).map(named).join(" \\u2192 ");
    const shown = typed();
    table(names[kind], ["phrase", ...(shown ? [chunks ? "type" : "gold \\u2192 predicted"] : []), "errors", of],
      data.phrases[kind].slice(0, 200).map(p => ({
        cells: [p.text, ...(shown ? [types(p)] : []), p.n, p.total],
        filters: {kind: chunks ? kind : "", text: p.text, ...sides(p)}})));
  }
  table("Tokens at wrong boundaries", ["tokens", "place", "errors"], data.boundaries.slice(0, 200).map(b => ({
    cells: [b.text, b.place, b.n], filters: {kind: "boundary", text: b.text}})));
}

function certainty(error) {
  if (error.predicted) return error.predicted.probability || 0;
  return error.gold.probability === null ? 0 : 1 - error.gold.probability;
}
function difference(error) {
  const gold = error.gold ? error.gold.probability : null;
  const predicted = error.predicted ? error.predicted.probability : null;
  if (gold === null && predicted === null) return 1;
  if (gold !== null && predicted !== null) return Math.abs(predicted - gold);
  return Math.abs(0.5 - (gold === null ? predicted : gold));
}

function chosen() {
  const f = Object.fromEntries(["kind", "gold", "predicted", "unseen", "order", "text"].map(n => [n, fields[n].value]));
  const text = f.text.trim().toLowerCase();
  const is = (span, type) => !type || (span && named(span.type) === type);
  const has = e => [e.text, ...(data.sentences[e.sentence] || [])].join(" ").toLowerCase().includes(text);
  const rows = data.errors.filter(e => (!f.kind || e.kind === f.kind) && is(e.gold, f.gold)
    && is(e.predicted, f.predicted) && (!f.unseen || String(e.unseen) === f.unseen) && (!text || has(e)));
  if (f.order === "certain") rows.sort((a, b) => certainty(b) - certainty(a));
  if (f.order === "close") rows.sort((a, b) => difference(a) - difference(b));
  return rows;
}

function side(name, span, words) {
  const line = make("div", null, {className: "sentence"}), text = make("span");
  line.append(make("span", name, {className: "side"}), text);
  if (!words) {
    text.append("tokens " + span.start + " to " + (span.end - 1) + (span.type && ": ") + span.type);
    return line;
  }
  const marked = make("mark", words.slice(span.start, span.end).join(" "), {className: name});
  const chance = span.probability === null ? "" : " " + span.probability.toFixed(3);
  marked.append(make("small", span.type + chance));
  text.append(words.slice(0, span.start).join(" ") + " ", marked, " " + words.slice(span.end).join(" "));
  return line;
}

function draw() {
  const rows = chosen(), box = document.getElementById("errors");
  box.replaceChildren(...rows.slice(0, shown).map(error => {
    const item = make("article"), about = make("div", null, {className: "about"});
    about.append(make("span", "sentence " + error.sentence), make("b", error.kind));
    if (error.unseen) about.append(make("span", "with an unseen token"));
    item.append(about);
    const words = data.sentences[error.sentence];
    for (const name of ["gold", "predicted"]) if (error[name]) item.append(side(name, error[name], words));
    return item;
  }));
  document.getElementById("count").textContent = number(rows.length) + " of " + number(data.errors.length) + " errors";
  document.getElementById("more").hidden = rows.length <= shown;
}

function open(layer) {
  data = facts[layer];
  const types = Object.keys(data.per_type).map(named);
  choices(fields.kind, Object.keys(data.kinds)); choices(fields.gold, types); choices(fields.predicted, types);
  document.getElementById("words").hidden = !data.vocabulary;
  for (const name of ["gold", "predicted"]) fields[name].parentElement.hidden = !typed();
  const t = data.total, score = data.unit === "chunk" ? "F1 " + percent(t.f1, t.gold + t.predicted)
    : "accuracy " + percent(t.recall, t.gold);
  document.getElementById("totals").textContent = score + "; " + number(t.gold) + " gold " + data.unit + "s, "
    + number(t.predicted) + " predicted, " + number(t.correct) + " correct; " + number(data.n_errors) + " errors";
  tables(); draw();
}

const layers = Object.keys(facts);
if (layers.length > 1) {
  document.getElementById("layers").hidden = false;
  fields.layer.replaceChildren(...layers.map(name => make("option", name, {value: name})));
}
fields.layer.onchange = event => { event.stopPropagation(); shown = PAGE; open(fields.layer.value); };
form.oninput = () => { shown = PAGE; draw(); };
form.onreset = () => setTimeout(() => { shown = PAGE; open(layers.length > 1 ? fields.layer.value : layers[0]); });
document.getElementById("more").onclick = () => { shown += PAGE; draw(); };
open(layers[0]);
"""
