// The page: text and models in, labelled sentences out, reasons on demand; the view is kept in the address.

import * as api from "./api.js";
import { card, inDetail, inShort, place } from "./sentence.js";
import { reasons } from "./why.js";
import { chooseColours, coloured, counted, el, typeOf } from "./wording.js";

const EXAMPLE = "Hans Blix of the United Nations met Tony Blair in London on Monday. " +
  "Arsenal beat Chelsea 2-1 at Highbury, and the German striker scored twice.";
const WAIT = 200; // milliseconds after the last key
const SHARED = 2000; // characters of text that an address may hold
const EAGER = 4000; // characters up to which probabilities of tokens come at once, not when they are opened

const $ = (id) => document.getElementById(id);
const text = $("text"), status = $("status"), list = $("sentences"), why = $("why"), tip = $("tip");
const placeholder = why.firstElementChild;
let known = { default: null, models: [] }, timer = 0, explained = null;
const columns = [0, 1].map((number) => ({
  number, isOn: number === 0, model: null, decoder: "", answer: null, asked: "", points: [], open: new Set(), error: null,
  request: null, box: document.querySelector(`.choice[data-column="${number}"]`),
}));

// -- labelling --------------------------------------------------------------------------------------------------------

function soon() {
  clearTimeout(timer);
  timer = setTimeout(labelAll, WAIT + Math.min(600, text.value.length / 20));
  sayBusy();
}

function sayBusy() {
  $("results").setAttribute("aria-busy", String(timer !== 0 || columns.some((column) => column.request)));
}

function labelAll() {
  clearTimeout(timer);
  timer = 0;
  keepAddress();
  for (const column of columns) if (column.isOn) label(column);
  sayBusy();
}

/** Label the text for one column; an earlier request that is still under way is dropped. */
async function label(column) {
  column.request?.abort();
  if (!column.model) return;
  const request = (column.request = new AbortController()), value = text.value;
  column.box.classList.add("busy");
  const eager = value.length <= EAGER;
  const body = { model: column.model.name, text: value, spans: true, marginals: eager && column.model.probabilities !== false,
    states: eager && Boolean(column.model.latent), ...(column.decoder && { decoder: column.decoder }) };
  try {
    const answer = value.trim() ? await api.tag(body, request.signal) : { model: column.model.name, sentences: [] };
    Object.assign(column, { answer, asked: value, points: Array.from(value), error: null });
  } catch (error) {
    if (error.name === "AbortError") return;
    column.error = error.message;
    refused(error);
  }
  if (column.request !== request) return;
  column.request = null;
  column.box.classList.remove("busy");
  draw();
  sayBusy();
}

function refused(error) {
  $("access").hidden = !(error instanceof api.Unauthorised);
  if (!$("access").hidden) $("token").focus();
}

/** Draw all sentences anew; focus stays where it was. */
function draw() {
  const on = columns.filter((column) => column.isOn), focus = placeOf(document.activeElement);
  const errors = [...new Set(on.map((column) => column.error).filter(Boolean))];
  for (const column of on) column.title = on.length > 1 ? `${"AB"[column.number]}: ${titleOf(column)}` : "";
  const ready = on.filter((column) => column.answer), rows = new Map();
  for (const column of ready) {
    column.answer.sentences.forEach((sentence, n) => {
      const key = sentence.start ?? n; // two models may split a text differently
      if (!rows.has(key)) rows.set(key, []);
      rows.get(key).push([column, sentence, n]);
    });
  }
  const others = ready.length > 1 && ready[0].asked === ready[1].asked ? ready.map((_, k) => labelsOf(ready[1 - k])) : [];
  const ordered = [...rows].sort((a, b) => a[0] - b[0]).map(([, cells]) => cells);
  list.classList.toggle("two", on.length > 1);
  list.replaceChildren(...ordered.map((cells) => el("li", {}, ...cells.map(([column, sentence, n]) =>
    card(column, sentence, n, others[ready.indexOf(column)])))));
  const tokens = ready.reduce((sum, column) => sum + column.answer.sentences.reduce((n, one) => n + one.tokens.length, 0), 0);
  status.classList.toggle("error", errors.length > 0);
  if (errors.length) status.textContent = errors.join(" ");
  else if (!tokens) status.textContent = text.value.trim() ? "No tokens in this text." : "Nothing to label yet.";
  else status.textContent = `${counted(ready[0].answer.sentences.length, "sentence")}, ${counted(tokens / ready.length | 0, "token")}`;
  compareWords(ready, others);
  if (focus) tokenAt(focus)?.focus();
  if (explained && !tokenAt(explained)) close();
  else if (explained) tokenAt(explained).setAttribute("aria-pressed", "true");
}

const labelsOf = (column) => new Map(column.answer.sentences.flatMap((sentence) =>
  sentence.tokens.map((token, t) => [place(token), sentence.labels[t]])));
const titleOf = (column) => `${column.model?.name ?? ""}${column.decoder ? `, ${column.decoder}` : ""}`;

function compareWords(ready, others) {
  const line = $("differences");
  line.hidden = !columns[1].isOn;
  if (others.length < 2) line.textContent = " ";
  else {
    const unlike = [...others[1]].filter(([key, label]) => others[0].get(key) !== label).length;
    line.textContent = unlike ? `A and B differ at ${unlike} of ${counted(others[1].size, "token")} (marked ≠).`
      : "A and B give the same labels.";
  }
}

// -- tokens: focus, tooltip, reasons ----------------------------------------------------------------------------------

function placeOf(node) {
  const token = node?.closest?.(".token"), box = token?.closest(".card");
  return box ? { column: +box.dataset.column, sentence: +box.dataset.sentence, token: +token.dataset.token } : null;
}
const tokenAt = ({ column, sentence, token }) =>
  list.querySelector(`.card[data-column="${column}"][data-sentence="${sentence}"] .token[data-token="${token}"]`);
const sentenceAt = (at) => columns[at.column].answer?.sentences[at.sentence];

function go(node) {
  if (!node) return;
  for (const one of node.closest(".line").querySelectorAll(".token")) one.tabIndex = one === node ? 0 : -1;
  node.focus();
}

function onKey(event) {
  const at = placeOf(event.target);
  if (!at || event.ctrlKey || event.metaKey || event.altKey) return;
  const all = [...list.querySelectorAll(`.card[data-column="${at.column}"] .token`)], here = all.indexOf(event.target);
  const rtl = getComputedStyle(event.target.closest(".line")).direction === "rtl" ? -1 : 1;
  const vertical = (step) => tokenAt({ ...at, sentence: at.sentence + step }) ?? tokenAt({ ...at, sentence: at.sentence + step, token: 0 });
  const targets = {
    ArrowRight: () => all[here + rtl], ArrowLeft: () => all[here - rtl], ArrowDown: () => vertical(1), ArrowUp: () => vertical(-1),
    Home: () => tokenAt({ ...at, token: 0 }), End: () => [...event.target.closest(".line").querySelectorAll(".token")].at(-1),
  };
  if (targets[event.key]) go(targets[event.key]());
  else if (event.key === "Enter" || event.key === " ") explain(at);
  else return;
  event.preventDefault();
}

function showTip(event) {
  const at = placeOf(event.target), sentence = at && sentenceAt(at);
  if (!sentence) return hideTip();
  tip.replaceChildren(...inShort(sentence, at.token).map((line) => el("div", {}, line)));
  tip.hidden = false;
  const box = event.target.closest(".token").getBoundingClientRect(), own = tip.getBoundingClientRect();
  const above = box.top - own.height - 6;
  tip.style.left = `${Math.max(4, Math.min(box.left, document.documentElement.clientWidth - own.width - 4))}px`;
  tip.style.top = `${above > 4 ? above : box.bottom + 6}px`;
}
const hideTip = () => { tip.hidden = true; };

async function explain(at) {
  close(false);
  const column = columns[at.column], sentence = sentenceAt(at), token = sentence?.tokens[at.token];
  if (!token) return;
  explained = at;
  const label = sentence.labels[at.token], node = tokenAt(at);
  node.setAttribute("aria-pressed", "true");
  const body = el("div", { class: "body" }, el("p", { class: "quiet" }, "Loading …"));
  why.replaceChildren(el("div", { class: "head" }, el("h2", {}, "Why is ", el("bdi", {}, `“${token.text}”`), " ",
    coloured(el("b", { class: "tag" }, label), label), "?"),
  el("button", { type: "button", class: "close", "aria-label": "Close the reasons", onclick: () => close() }, "×")),
  column.title ? el("p", { class: "quiet" }, column.title) : "", body);
  why.classList.add("open");
  hideTip();
  why.scrollTop = 0;
  why.focus({ preventScroll: true });
  const uncover = () => { // on narrow screens the reasons lie over the sentences
    const covers = getComputedStyle(why).position === "fixed";
    if (covers && node.getBoundingClientRect().bottom > why.getBoundingClientRect().top) node.scrollIntoView({ block: "start" });
  };
  uncover();
  try {
    const asked = { model: column.model.name, text: column.asked, sentence: at.sentence, token: at.token };
    const hidden = column.model.latent ? inDetail(column, sentence, "states").catch(() => null) : null;
    const [facts, states] = await Promise.all([api.explain(asked), hidden]);
    if (explained === at) {
      body.replaceChildren(...reasons(facts, states?.[at.token], sentence.labels));
      uncover(); // they are taller now
    }
  } catch (error) {
    refused(error);
    if (explained === at) body.replaceChildren(el("p", { class: "error", role: "alert" }, error.message));
  }
}

function close(restoreFocus = true) {
  if (!explained) return;
  const node = tokenAt(explained);
  node?.removeAttribute("aria-pressed");
  explained = null;
  const hadFocus = why.contains(document.activeElement);
  why.classList.remove("open");
  why.replaceChildren(placeholder);
  if (restoreFocus && hadFocus && node) go(node);
}

// -- models, address, buttons -----------------------------------------------------------------------------------------

function choose(column, name, decoder = "") {
  column.model = known.models.find((model) => model.name === name) ?? known.models.find((model) => model.name === known.default)
    ?? known.models[0] ?? null;
  const decoders = column.model?.decoders ?? [];
  column.decoder = decoders.includes(decoder) ? decoder : "";
  const [models, ways] = column.box.querySelectorAll("select");
  models.replaceChildren(...known.models.map((model) => el("option", { value: model.name }, model.name)));
  ways.replaceChildren(el("option", { value: "" }, column.model?.decoder ? `${column.model.decoder} (default)` : "default"), ...decoders.map((one) => el("option", { value: one }, one)));
  models.value = column.model?.name ?? "";
  models.title = column.model?.description ?? "";
  ways.value = column.decoder;
  ways.disabled = !decoders.length;
}

function compare(isOn) {
  columns[1].isOn = isOn;
  columns[1].box.hidden = !isOn;
  $("compare").setAttribute("aria-pressed", String(isOn));
  document.body.classList.toggle("comparing", isOn);
}

function keepAddress() {
  const view = new URLSearchParams();
  columns.forEach((column, n) => {
    if (!column.isOn || !column.model) return;
    view.set(`model${n ? "2" : ""}`, column.model.name);
    if (column.decoder) view.set(`decoder${n ? "2" : ""}`, column.decoder);
  });
  if (text.value.length <= SHARED) view.set("text", text.value);
  history.replaceState(null, "", `#${view}`);
}

function fromAddress() {
  const view = new URLSearchParams(location.hash.slice(1));
  choose(columns[0], view.get("model"), view.get("decoder") ?? "");
  choose(columns[1], view.get("model2"), view.get("decoder2") ?? "");
  compare(view.has("model2"));
  text.value = view.get("text") ?? (text.value || EXAMPLE);
  close(false);
  labelAll();
}

async function copy() {
  const shown = columns.filter((column) => column.isOn && column.answer).map((column) => column.answer);
  const json = JSON.stringify(shown.length > 1 ? shown : shown[0] ?? null, null, 2);
  try {
    await navigator.clipboard.writeText(json);
  } catch { // not a secure context, or not allowed
    const area = el("textarea", { class: "hidden" }, json);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    $("copy").focus();
  }
  status.textContent = "Copied as JSON.";
}

async function start() {
  status.classList.remove("error");
  status.textContent = "Loading …";
  try {
    known = await api.models();
  } catch (error) {
    status.classList.add("error");
    status.textContent = error.message;
    return refused(error);
  }
  $("access").hidden = true;
  chooseColours(known.models.flatMap((model) => (model.labels ?? []).filter((label) => label !== "O").map(typeOf)));
  fromAddress();
}

text.addEventListener("input", () => { close(false); soon(); });
for (const column of columns) {
  const [models, ways] = column.box.querySelectorAll("select");
  models.addEventListener("change", () => { choose(column, models.value); close(false); labelAll(); });
  ways.addEventListener("change", () => { column.decoder = ways.value; close(false); labelAll(); });
}
$("compare").addEventListener("click", () => {
  if (!columns[1].isOn) { // another model if there is one, else another decoder
    const rest = known.models.filter((model) => model.name !== columns[0].model?.name), only = columns[0].model;
    choose(columns[1], (rest[0] ?? only)?.name, rest.length ? "" : only?.decoders?.find((one) => one !== columns[0].decoder));
  }
  close(false);
  compare(!columns[1].isOn);
  if (columns[1].isOn) labelAll();
  else {
    columns[1].request?.abort();
    columns[1].request = null;
    keepAddress();
    draw();
    sayBusy();
  }
});
$("example").addEventListener("click", () => { text.value = EXAMPLE; close(false); labelAll(); });
$("clear").addEventListener("click", () => { text.value = ""; close(false); labelAll(); text.focus(); });
$("copy").addEventListener("click", copy);
$("access").addEventListener("submit", (event) => { event.preventDefault(); api.useToken($("token").value); start(); });
list.addEventListener("click", (event) => { const at = placeOf(event.target); if (at) { go(tokenAt(at)); explain(at); } });
list.addEventListener("keydown", onKey);
list.addEventListener("pointerover", showTip);
list.addEventListener("pointerout", hideTip);
list.addEventListener("focusin", showTip);
list.addEventListener("focusout", hideTip);
addEventListener("scroll", hideTip, { passive: true });
document.querySelector(".skip").addEventListener("click", (event) => { // the hash is taken: it holds the view
  event.preventDefault();
  (list.querySelector(".token") ?? $("results")).focus();
});
addEventListener("hashchange", fromAddress);
addEventListener("keydown", (event) => { if (event.key === "Escape") { hideTip(); close(); } });
start();
