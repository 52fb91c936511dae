"""Explanations as one self-contained page, which draws the same facts as `labelwright explain --json` writes."""

from typing import Any

from labelwright.html_page import html_page
from labelwright.inspection.explanation import in_view

MOST = 40  # features of a token on a page; the others are summed up


def page(facts: dict[str, Any]) -> str:
    """The page of explained sentences, light or dark as the reader's system is."""
    shown = facts | {"sentences": [_reduced(sentence) for sentence in facts["sentences"]]}
    return html_page(f"Why these labels? {facts['model']}", STYLE, BODY, SCRIPT, shown)


def _reduced(sentence: dict[str, Any]) -> dict[str, Any]:
    """A sentence with the largest contributions of each token, and the sum of the others."""
    layers = {name: [_with_rest(token) for token in tokens] for name, tokens in sentence["layers"].items()}
    return sentence | {"layers": layers}


def _with_rest(token: dict[str, Any]) -> dict[str, Any]:
    rows, transitions = in_view(token)
    rest = {"n": len(rows[MOST:]), "value": sum(row["value"] for row in rows[MOST:])}
    kept = [{key: row[key] for key in ("name", "token", "end", "value", "below")} for row in rows[:MOST]]
    nets = [{"name": row["name"], "value": row["value"], "token": None} for row in transitions]
    return token | {"contributions": kept, "rest": rest, "transitions": nets}


BODY = """<header>
<h1>Why these labels?</h1>
<p id="about"></p>
<p class="help">Choose a token to see why it has its label. The best labelling of the sentence is compared with the best
one that has another label there; the contributions add up to the difference of their scores.
<span id="legend"><span class="doubt"></span> marks tokens where that difference is below 2.</span>
<span id="wrongs">A struck-out label is wrong; the gold label follows it.</span></p>
</header>
<main id="sentences"></main>"""

STYLE = """
h2 { font-size: 1rem; margin: 0 0 .4rem; }
h3 { font-size: .9rem; margin: 1.1rem 0 .35rem; } p { margin: .3rem 0; }
.help, .faint, header p { color: var(--quiet); }
section { background: var(--panel); border: 1px solid var(--line); border-radius: 8px; padding: 1rem; margin: 1rem 0; }
.tokens { display: flex; flex-wrap: wrap; gap: .3rem; }
.tokens button { background: none; border: 1px solid var(--line); border-radius: 6px;
  padding: .15rem .45rem .2rem; text-align: left; line-height: 1.3; }
.tokens button small { display: block; color: var(--quiet); font-size: .75rem; }
.tokens button.plain small { opacity: .55; } s { color: var(--bad); }
.tokens button:hover { border-color: var(--link); }
.tokens button[aria-pressed=true] { outline: 2px solid var(--link); }
.tokens button.doubtful, .doubt { background: var(--mark); border-color: var(--edge); }
.doubt { display: inline-block; width: 1em; height: 1em; border: 1px solid var(--edge); border-radius: 3px;
  vertical-align: -2px; }
.why { margin-top: 1rem; border-top: 1px solid var(--line); padding-top: .8rem; overflow-x: auto; }
.why b { font-weight: 650; }
td, th { padding: .12rem .6rem .12rem 0; text-align: left;
  font-weight: 400; white-space: nowrap; } .labellings td.unlike { font-weight: 650; }
.bars td { vertical-align: middle; } .bars .number { text-align: right; font-variant-numeric: tabular-nums; }
.bars .name { font-family: ui-monospace, monospace; font-size: .83rem; }
.bar { position: relative; width: 16rem; height: .8rem; }
.bar::before { content: ""; position: absolute; left: 50%; top: -.25rem; bottom: -.25rem;
  border-left: 1px solid var(--line); }
.bar i { position: absolute; top: 0; bottom: 0; border-radius: 2px; }
.bar i.for { left: 50%; background: var(--good); } .bar i.against { right: 50%; background: var(--bad); }
.bars button { color: var(--link); background: none; border: 0; padding: 0; }
.total td { border-top: 1px solid var(--line); font-weight: 650; padding-top: .25rem; }
ul { margin: .2rem 0; padding-left: 1.2rem; } mark { background: var(--mark); color: inherit; padding: 0 .2em; }
@media (max-width: 40rem) { .bar { width: 7rem; } body { padding: .8rem; } }
"""

SCRIPT = r"""
const add = (parent, ...children) => { parent.append(...children); return parent; };
const signed = (x, digits = 3) => (x < 0 ? "\u2212" : "+") + Math.abs(x).toFixed(digits);
const percent = (x) => x === null ? "" : " (" + (100 * x).toFixed(x > 0.9995 || x < 0.0005 ? 2 : 1) + " %)";
const rowOf = (cells, tag = "td") => add(make("tr"), ...cells.map((c) => c instanceof Node ? add(make(tag), c)
  : make(tag, c)));
const SHOWN = 15;
const gram = (labels) => labels.map((l) => l === null ? "_" : l).join(" ");

function bars(token, words) {
  const table = make("table", null, "bars");
  const largest = Math.max(...[...token.contributions, ...token.transitions].map((c) => Math.abs(c.value)), 1e-12);
  const hidden = [];
  const draw = (c, n) => {
    const bar = make("div", null, "bar"), fill = make("i", null, c.value < 0 ? "against" : "for");
    fill.style.width = 50 * Math.abs(c.value) / largest + "%";
    bar.append(fill);
    const place = c.token === null ? "" : "at \u201c" + words.slice(c.token, c.end).join(" ") + "\u201d";
    const row = rowOf([signed(c.value), bar, c.name, place + (c.below ? " \u00b7 from the layer below" : "")]);
    row.cells[0].className = "number"; row.cells[2].className = "name"; row.cells[3].className = "faint";
    table.append(row);
    if (n >= SHOWN) { row.hidden = true; hidden.push(row); }
  };
  token.contributions.forEach(draw);
  const more = (value, text, name) => {
    const row = rowOf([signed(value), "", text, ""]);
    row.cells[0].className = "number"; if (name) row.className = name;
    table.append(row);
  };
  const rest = token.contributions.slice(SHOWN).reduce((sum, c) => sum + c.value, token.rest.value);
  const n = hidden.length + token.rest.n;
  if (n) {
    more(rest, n + " more");
    const line = table.lastChild, button = make("button", "show");
    button.type = "button";
    button.addEventListener("click", () => {
      hidden.forEach((row) => { row.hidden = false; });
      if (token.rest.n) line.cells[0].textContent = signed(token.rest.value);
      if (token.rest.n) line.cells[2].textContent = token.rest.n + " more"; else line.remove();
    });
    if (hidden.length) line.cells[3].append(button);
  }
  token.transitions.forEach((c) => draw(c, 0));
  more(token.log_odds, "sum: the " + token.measure, "total");
  return table;
}

function labellings(token, words) {
  const unlike = token.labels.map((l, t) => l !== token.runner_up_labels[t]);
  const begin = Math.max(0, unlike.indexOf(true) - 2), end = Math.min(words.length, unlike.lastIndexOf(true) + 3);
  const table = make("table", null, "labellings");
  table.append(rowOf(["", ...words.slice(begin, end)], "th"));
  for (const [name, labels] of [["label", token.labels], ["runner-up", token.runner_up_labels]]) {
    const row = rowOf([name, ...labels.slice(begin, end)]);
    unlike.slice(begin, end).forEach((u, i) => { if (u) row.cells[i + 1].className = "unlike"; });
    table.append(row);
  }
  return table;
}

function neighbours(rows) {
  const list = make("ul");
  for (const row of rows.slice(0, 8)) {
    const item = make("li", "distance " + row.distance.toFixed(4) + ", " + gram(row.labels) + ", "
      + row.instances.length + (row.instances.length === 1 ? " token" : " tokens"));
    for (const place of row.places) {
      if (place.words === null) continue;
      const line = make("div", "sentence " + place.sentence + ": ", "faint");
      place.words.forEach((w, t) => line.append(t === place.token ? make("mark", w) : w, " "));
      item.append(line);
    }
    list.append(item);
  }
  return list;
}

function details(d) {
  const parts = [make("h3", "Predictions that cover it (inference " + d.inference + ")")];
  const table = make("table");
  for (const p of d.proposals) table.append(rowOf([p.word ?? p.token, gram(p.labels), "confidence "
    + p.confidence.toFixed(3)]));
  parts.push(table);
  if (d.neighbours) parts.push(make("h3", "Nearest neighbours in the training data"), neighbours(d.neighbours));
  return parts;
}

function why(token, words) {
  const box = make("div", null, "why");
  const head = make("h2");
  head.append((token.word ?? "token " + token.token) + ": ", make("b", token.label), percent(token.probability));
  if (token.runner_up === null) {
    add(box, head, make("p", "No other label is possible here, or none was proposed.", "faint"));
  } else {
    head.append(" rather than ", make("b", token.runner_up), percent(token.runner_up_probability));
    add(box, head, make("p", token.measure + " " + token.log_odds.toFixed(4), "faint"));
    if (token.runner_up_labels) add(box, make("h3", "The two labellings, where they differ"), labellings(token, words));
  }
  if (token.wrong) head.append("; wrong, gold is ", make("b", token.gold));
  if (token.flips && token.flips.length) {
    const list = make("ul");
    for (const f of token.flips) {
      list.append(make("li", f.label + " without " + f.name + " at \u201c" + words[f.token] + "\u201d"));
    }
    add(box, make("h3", "Without one of these the label would be another"), list);
  } else if (token.flips) {
    box.append(make("p", "No single feature decides: without any one of them the label is the same.", "faint"));
  }
  if (token.runner_up !== null) add(box, make("h3", "Contributions"), bars(token, words));
  if (token.details) add(box, ...details(token.details));
  return box;
}

function show(sentence, layer, tokens, section) {
  const line = make("div", null, "tokens");
  let open = null;
  const choose = (button, token) => {
    const same = open === button;
    section.querySelectorAll(".why").forEach((e) => e.remove());
    section.querySelectorAll(".tokens button").forEach((b) => b.setAttribute("aria-pressed", "false"));
    open = same ? null : button;
    if (same) return;
    button.setAttribute("aria-pressed", "true");
    line.after(why(token, sentence.words));
  };
  for (const token of tokens) {
    const label = token.wrong ? [make("s", token.label), " " + token.gold] : [token.label];
    const button = add(make("button", token.word ?? "token " + token.token), add(make("small"), ...label));
    button.type = "button"; button.setAttribute("aria-pressed", "false");
    if (token.label === "O") button.classList.add("plain");
    const unsure = token.log_odds !== null && token.log_odds < 2 && token.measure === "log-odds";
    if (unsure) button.classList.add("doubtful");
    button.title = token.runner_up === null ? "" : token.measure + " " + token.log_odds.toFixed(2) + " against "
      + token.runner_up;
    button.addEventListener("click", () => choose(button, token));
    line.append(button);
  }
  if (layer) section.append(make("h3", layer));
  section.append(line);
  return line;
}

document.getElementById("about").textContent = facts.kind + " " + facts.model + ", " + facts.sentences.length
  + (facts.sentences.length === 1 ? " sentence of " : " sentences of ") + facts.file;
facts.sentences.forEach((sentence, n) => {
  const section = add(make("section"), make("h2", "Sentence " + sentence.sentence));
  for (const [layer, tokens] of Object.entries(sentence.layers)) {
    const line = show(sentence, layer, tokens, section);
    if (n === 0 && line.firstChild && !section.querySelector(".why")) {
      const odds = tokens.map((t) => t.log_odds ?? Infinity);
      line.children[odds.indexOf(Math.min(...odds))].click();
    }
  }
  document.getElementById("sentences").append(section);
});
document.getElementById("legend").hidden = document.querySelector(".doubtful") === null;
document.getElementById("wrongs").hidden = document.querySelector(".tokens s") === null;
"""
