// Labelling: a sentence with suggested marks; keys and mouse change them; an answer is sent until the service has kept it.

import { ask } from "./api.js";
import { pieces } from "./sentence.js";
import { chance, chooseColours, coloured, counted, el } from "./wording.js";

const POLL = 4000; // milliseconds between two looks at the state
const AGAIN = 1500; // until an answer is sent again to a service that does not answer
const MOST_UNDONE = 100;
const TWICE = 400; // between the two of a double click
const WAIT = 200; // after the last key of a search
const REASONS = { uncertain: "The model is least sure here.", random: "A random sentence.", skipped: "You skipped this one before.",
  again: "Go on with this one.", found: "", conflict: "" };

const $ = (id) => document.getElementById(id);
const line = $("line"), status = $("status");
let page = stored("page") ?? named();
let answers = JSON.parse(stored("answers") ?? "[]"); // given on this page, to be undone: {id, tag, before, given}
let state = { types: [] }, card = null, busy = false, drag = null, last = { time: -TWICE, token: null };
let marks = [], open = new Set(), chosen = null, history = []; // chosen: {anchor, cursor}; of the sentence that is shown

function stored(name) { try { return sessionStorage.getItem(name); } catch { return null; } }
function keep(name, value) { try { sessionStorage.setItem(name, value); } catch { /* for this page only */ } return value; }
function named() { return keep("page", crypto.getRandomValues(new Uint32Array(2)).join("-")); }
function keepAnswers() { keep("answers", JSON.stringify(answers)); }
const wait = (milliseconds) => new Promise((done) => { setTimeout(done, milliseconds); });

// -- the sentence -----------------------------------------------------------------------------------------------------

function show(next, draft = null) {
  card = next;
  marks = [];
  open = new Set();
  chosen = null;
  history = [];
  $("conflict").hidden = true;
  $("remove-answer").hidden = !card.answer;
  for (const id of ["accept", "skip"]) $(id).disabled = card.id === null;
  if (card.id === null) {
    $("why").textContent = "";
    line.replaceChildren(el("span", { class: "done-all" }, card.lent ? `All other sentences are with another page (${card.lent}).`
      : "All sentences are labelled."));
    return drawTypes();
  }
  const given = draft ?? card.answer;
  if (given) read(given);
  else marks = card.spans.map((span) => ({ ...span, isOwn: false }));
  $("why").classList.toggle("look", Boolean(card.doubt));
  $("why").replaceChildren(...(card.doubt ? doubted(card.doubt) : [card.answer ? "Answered; correct it, or accept it again." : REASONS[card.why] ?? ""]));
  draw();
  drawTypes();
  if (!$("search").matches(":focus")) line.focus({ preventScroll: true });
}

/** The marks of an answer, whose places are characters. */
function read({ label, unknown }) {
  const inside = (start, end) => card.tokens.flatMap((token, t) => (token.start < end && start < token.end ? [t] : []));
  marks = label.map(([start, end, type]) => [inside(start, end), type]).filter(([tokens]) => tokens.length)
    .map(([tokens, type]) => ({ label: type, first: tokens[0], last: tokens.at(-1), probability: null, isOwn: true }));
  open = new Set(unknown.flatMap(([start, end]) => inside(start, end)).filter((t) => !markAt(t)));
}

/** The answer that the marks make. */
function written() {
  const [label, unknown] = [[], []];
  for (const mark of marks) label.push([card.tokens[mark.first].start, card.tokens[mark.last].end, mark.label]);
  card.tokens.forEach((token, t) => {
    if (!open.has(t)) return;
    if (t && open.has(t - 1)) unknown.at(-1)[1] = token.end;
    else unknown.push([token.start, token.end]);
  });
  return { label, unknown };
}

function doubted({ gold, suggested, probability, suggested_probability: better }) {
  const words = (span) => el("b", {}, `“${wordsOf(span.first, span.last)}”`);
  const isSame = gold && suggested && gold.first === suggested.first && gold.last === suggested.last;
  if (!gold) return ["Second look: models of the other answers see ", words(suggested), ` as ${suggested.label} (${chance(better)}).`];
  const nodes = ["Second look: you marked ", words(gold), ` as ${gold.label}. Models of the other answers give that ${chance(probability)}`];
  if (isSame) nodes.push(`, and ${suggested.label} ${chance(better)}.`);
  else if (suggested) nodes.push(", and ", words(suggested), ` as ${suggested.label} ${chance(better)}.`);
  else nodes.push("; they would mark nothing here.");
  return nodes;
}

const markAt = (t) => marks.find((mark) => mark.first <= t && t <= mark.last);
const tokenAt = (t) => line.querySelector(`[data-token="${t}"]`);

/** The chosen tokens: from the anchor to the cursor; of a single one inside of a mark the whole mark. */
function range() {
  if (!chosen) return null;
  const mark = chosen.anchor === chosen.cursor && !chosen.isExact ? markAt(chosen.cursor) : null;
  return mark ? [mark.first, mark.last] : [Math.min(chosen.anchor, chosen.cursor), Math.max(chosen.anchor, chosen.cursor)];
}

function draw() {
  const hadFocus = line.contains(document.activeElement) || document.activeElement === line;
  const points = Array.from(card.text), [from, to] = range() ?? [-1, -2];
  marks.sort((a, b) => a.first - b.first);
  line.replaceChildren(...pieces(points, card.tokens, marks, true, (t) => {
    const mark = markAt(t), notes = [card.tokens[t].text];
    if (mark) notes.push(mark.label, mark.isOwn ? "marked" : "suggested");
    if (mark?.probability != null) notes.push(`probability ${chance(mark.probability)}`);
    if (open.has(t)) notes.push("unknown");
    const isChosen = from <= t && t <= to;
    return el("span", { class: `token${isChosen ? " chosen" : ""}${open.has(t) ? " unknown" : ""}`, role: "button", "data-token": t,
      "aria-pressed": String(isChosen), "aria-label": notes.join(", "), tabindex: t === (chosen?.cursor ?? 0) ? "0" : "-1" },
    el("span", { class: "word" }, card.tokens[t].text));
  }));
  line.querySelectorAll(".span").forEach((node, k) => node.classList.toggle("suggested", !marks[k].isOwn));
  if (hadFocus && chosen) tokenAt(chosen.cursor).focus({ preventScroll: true });
  $("undo").disabled = !history.length && !answers.length;
}

// -- changes ----------------------------------------------------------------------------------------------------------

function change(act) {
  history.push({ marks: marks.map((mark) => ({ ...mark })), open: new Set(open) });
  act();
  draw();
}

/** Take these tokens out of all marks; what is left of a mark stays. */
function clear(first, last) {
  marks = marks.flatMap((mark) => {
    if (mark.last < first || last < mark.first) return [mark];
    const rest = [{ ...mark, last: first - 1, probability: null }, { ...mark, first: last + 1, probability: null }];
    return rest.filter((part) => part.first <= part.last);
  });
}

function put(type) {
  if (busy) return;
  const place = range();
  if (!place) return say("Choose words first: drag over them, or go there with the arrow keys.");
  const [first, last] = place;
  change(() => {
    clear(first, last);
    for (let t = first; t <= last; t++) open.delete(t);
    marks.push({ label: type, first, last, probability: null, isOwn: true });
    chosen = { anchor: last, cursor: last };
  });
  say(`${type}: ${wordsOf(first, last)}`);
}

function remove() {
  if (busy) return;
  const place = range();
  if (!place) return;
  change(() => { clear(...place); for (let t = place[0]; t <= place[1]; t++) open.delete(t); });
  say(`No mark: ${wordsOf(...place)}`);
}

/** Leave words open: the chosen ones, or all but the own marks. */
function leaveOpen() {
  if (busy) return;
  const place = range(), all = card.tokens.map((_, t) => t);
  const tokens = place ? all.slice(place[0], place[1] + 1) : all.filter((t) => !markAt(t)?.isOwn);
  const isOpen = tokens.length > 0 && tokens.every((t) => open.has(t));
  change(() => {
    if (place) clear(...place);
    else marks = marks.filter((mark) => mark.isOwn);
    for (const t of tokens) open[isOpen ? "delete" : "add"](t);
  });
  say(isOpen ? "Known again: no mark." : place ? `Unknown: ${wordsOf(...place)}` : "All but your own marks is unknown.");
}

function confirm() {
  const mark = chosen && markAt(chosen.cursor);
  if (mark) change(() => { Object.assign(markAt(chosen.cursor), { isOwn: !mark.isOwn }); });
}

const wordsOf = (first, last) => card.tokens.slice(first, last + 1).map((token) => token.text).join(" ");

function say(words, isError = false) {
  status.classList.toggle("error", isError);
  status.textContent = words;
}

// -- to and from the service ------------------------------------------------------------------------------------------

/** Run one thing at a time; what goes wrong is said in one line. */
async function alone(act) {
  if (busy) return;
  busy = true;
  $("card").setAttribute("aria-busy", "true");
  try {
    await act();
  } catch (error) {
    say(error.message, true);
  }
  busy = false;
  $("card").setAttribute("aria-busy", "false");
}

/** Send an answer until the service has it; the same one again changes nothing. */
async function send(body) {
  for (;;) {
    try {
      const kept = await ask("answer", body);
      showState(kept.state);
      return kept;
    } catch (error) {
      if (!error.isOffline) throw error;
      say("The service does not answer. Your answer is kept on this page and sent again; start labelwright again if it has ended.", true);
      await wait(AGAIN);
    }
  }
}

const next = async (more = {}) => show(await ask("next", { page, ...more }));

async function accept(base = card.answer?.tag) {
  if (card.id === null) return;
  const given = written(), { id, answer: before } = card;
  try {
    const { tag } = await send({ id, base, ...given });
    remember({ id, tag, before, given });
  } catch (error) {
    if (!error.answer?.card) throw error;
    return conflict(error.answer.card);
  }
  say("Kept.");
  await next();
}

function remember(answer) {
  answers.push(answer);
  if (answers.length > MOST_UNDONE) answers.shift();
  keepAnswers();
}

/** Somebody else has answered the same sentence: this person decides which answer stays. */
function conflict(theirs) {
  const points = Array.from(theirs.text), mine = written();
  const decide = (act) => alone(async () => { $("conflict").hidden = true; await act(); });
  const shown = el("p", { class: "line", dir: "auto" }), own = [marks, open];
  if (theirs.answer) {
    read(theirs.answer);
    shown.append(...pieces(points, theirs.tokens, marks, true, (t) => el("span", {}, theirs.tokens[t].text)));
    [marks, open] = own;
  }
  const what = theirs.answer ? "Somebody has answered this sentence meanwhile:" : "Somebody has taken the answer back meanwhile.";
  $("conflict").replaceChildren(el("p", {}, what), shown, el("div", { class: "actions" },
    el("button", { type: "button", onclick: () => decide(() => next()) }, "Keep theirs"),
    el("button", { type: "button", onclick: () => decide(async () => { card.answer = theirs.answer; read(mine); await accept(theirs.answer?.tag); }) },
      "Replace it with mine")));
  $("conflict").hidden = false;
  $("conflict").querySelector("button").focus();
}

/** Take back the last change of this sentence, or else the last answer of this page. */
async function undo() {
  if (history.length) {
    ({ marks, open } = history.pop());
    draw();
    return say("Change taken back.");
  }
  const last = answers.at(-1);
  if (!last) return say("Nothing to undo.");
  let theirs = null;
  try {
    await send({ id: last.id, base: last.tag ?? undefined, ...(last.before ? { label: last.before.label, unknown: last.before.unknown } : {}) });
  } catch (error) {
    theirs = error.answer?.card;
    if (!theirs) throw error;
  }
  answers.pop();
  keepAnswers();
  if (theirs) {
    show(theirs);
    return say("Somebody has changed this answer meanwhile; it is kept.");
  }
  show(await ask("sentence", { id: last.id }), last.given);
  say(last.tag ? "Answer taken back; here it is again." : "The answer is kept again.");
}

async function takeBack() {
  const { id, answer: before } = card;
  await send({ id, base: before.tag });
  remember({ id, tag: null, before, given: before });
  show(await ask("sentence", { id }));
  say("Answer removed.");
}

// -- state, types, search ---------------------------------------------------------------------------------------------

function showState(fresh) {
  const hadTypes = state.types.join();
  state = { ...fresh, types: [...new Set([...fresh.types, ...state.types])] };
  $("file").textContent = state.file;
  $("bar").max = state.sentences;
  $("bar").value = state.answered;
  const more = [state.partial && `${state.partial} in part`, state.skipped && `${state.skipped} skipped`].filter(Boolean);
  $("count").textContent = `${state.answered.toLocaleString("en")} of ${counted(state.sentences, "sentence")}${more.length ? ` (${more.join(", ")})` : ""}`;
  const { score, learnt } = state, facts = [];
  if (score) {
    facts.push(el("p", { class: "f1" }, `${(100 * score.f1).toFixed(1)} `, el("small", {}, `± ${(100 * score.deviation).toFixed(1)} F1`)),
      el("p", { class: "quiet" }, `cross-validated on ${counted(score.answers, "answer")}, which are harder than most`));
    if (score.more) facts.push(el("p", {}, `About ${counted(rounded(score.more), "more answer")} for one more point.`));
  }
  if (state.problem) facts.push(el("p", { class: "error" }, state.problem));
  else if (learnt === null) facts.push(el("p", { class: "quiet" }, state.answered ? "Learning …" : "It learns from your answers as soon as one has a mark."));
  else facts.push(el("p", { class: "quiet" }, learnt === state.answered ? "Has learnt from all answers." : `Has learnt from ${counted(learnt, "answer")}; learning …`));
  if (learnt !== null && !score) facts.push(el("p", { class: "quiet" }, "From ten answers on its score is shown here."));
  if (state.second_looks) {
    facts.push(el("p", {}, el("button", { type: "button", onclick: () => alone(() => next({ look: true })) },
      `${counted(state.second_looks, "answer")} to look at again`)));
  }
  $("model").replaceChildren(...facts);
  if (state.types.join() !== hadTypes) {
    chooseColours(state.types);
    drawTypes();
    if (card?.id) draw();
  }
}

/** In two digits: it is an estimate. */
const rounded = (n) => { const step = 10 ** Math.max(0, Math.floor(Math.log10(n)) - 1); return Math.round(n / step) * step; };

/** The keys of types: a number, and the first letter of the name that no other type has. */
function keysOf(types) {
  const taken = new Set();
  return types.map((type, n) => {
    const letter = [...type.toLowerCase()].find((c) => /\p{L}/u.test(c) && !taken.has(c));
    if (letter) taken.add(letter);
    return [n < 9 ? String(n + 1) : null, letter ?? null];
  });
}

function drawTypes() {
  const keys = keysOf(state.types), isOff = !card || card.id === null;
  const command = (words, key, title, act) => el("button", { type: "button", class: "command", title, disabled: isOff, onclick: act }, words, el("kbd", {}, key));
  $("types").replaceChildren(...state.types.map((type, n) => coloured(el("button", { type: "button", class: "type", disabled: isOff,
    "aria-keyshortcuts": keys[n].filter(Boolean).join(" "), title: `Mark as ${type}: ${keys[n].filter(Boolean).join(" or ")}`, onclick: () => put(type) },
  type, ...keys[n].filter(Boolean).map((key) => el("kbd", {}, key))), type)),
  command("No mark", "⌫", "Remove the mark", remove), command("Unknown", "?", "Leave the selected words open; with nothing selected all but your own marks", leaveOpen),
  el("button", { type: "button", title: "Add a type", onclick: () => { $("new-type").hidden = false; $("type-name").focus(); } }, "+ Type"));
}

function addType(event) {
  event.preventDefault();
  const name = $("type-name").value.trim();
  if (!/^[^\s|_][^\s|]*$/u.test(name)) return say("The name of a type has no spaces and no |.", true);
  showState({ ...state, types: [...state.types, name] });
  $("type-name").value = "";
  $("new-type").hidden = true;
  if (range()) put(name);
  line.focus({ preventScroll: true });
}

let timer = 0;
function searchSoon() {
  clearTimeout(timer);
  timer = setTimeout(async () => {
    const text = $("search").value, which = $("which").value;
    if (!text && !which) {
      $("hits").textContent = "";
      return $("results").replaceChildren();
    }
    try {
      const { sentences, found } = await ask("search", { text, ...(which && { answered: which === "yes" }) });
      $("hits").textContent = found > sentences.length ? `${counted(found, "sentence")}, the first ${sentences.length}:` : counted(found, "sentence");
      $("results").replaceChildren(...sentences.map((each) => el("li", {}, el("button", { type: "button", class: each.answered ? "answered" : null,
        title: each.text, "aria-label": `${each.answered ? "Answered: " : ""}${each.text}`,
        onclick: () => alone(async () => { show(await ask("sentence", { id: each.id })); say(""); line.focus(); }) }, each.text))));
    } catch (error) {
      $("hits").textContent = error.message;
    }
  }, WAIT);
}

// -- keys and mouse ---------------------------------------------------------------------------------------------------

function move(step, isExtended) {
  const last = card.tokens.length - 1, clamped = (t) => Math.max(0, Math.min(last, t));
  const cursor = chosen ? clamped(chosen.cursor + step) : clamped(step > 0 ? Math.min(step - 1, last) : last);
  chosen = { anchor: isExtended && chosen ? chosen.anchor : cursor, cursor, isExact: isExtended };
  draw();
  tokenAt(cursor).focus();
}

function onKey(event) {
  const typing = event.target.closest?.("input, select, textarea"), isButton = event.target.closest?.("button, summary");
  if (event.key === "Escape") {
    if (typing) { $("new-type").hidden = true; line.focus({ preventScroll: true }); }
    else if (card?.id) { chosen = null; draw(); line.focus({ preventScroll: true }); }
    return;
  }
  if (typing || busy || !card) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "z" && !event.shiftKey) {
    event.preventDefault();
    return alone(undo);
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    event.preventDefault();
    return $("search").select();
  }
  if (card.id === null || !$("conflict").hidden) return;
  const forward = getComputedStyle(line).direction === "rtl" ? -1 : 1, keys = keysOf(state.types);
  const acts = {
    ArrowRight: () => move(forward, event.shiftKey), ArrowLeft: () => move(-forward, event.shiftKey),
    Home: () => move(-card.tokens.length, event.shiftKey), End: () => move(card.tokens.length, event.shiftKey),
    Backspace: remove, Delete: remove, "?": leaveOpen,
    ...(!isButton && { Enter: () => alone(event.shiftKey ? () => next({ skip: card.id }) : () => accept()), " ": confirm }),
  };
  const typed = state.types.find((_, n) => keys[n].includes(event.key.toLowerCase()));
  const act = acts[event.key] ?? (typed && (() => put(typed)));
  if (!act) return;
  event.preventDefault();
  act();
}

const tokenOf = (node) => { const token = node?.closest?.("#line .token"); return token ? +token.dataset.token : null; };

function pressed(event) {
  const t = tokenOf(event.target);
  if (t === null || event.button || busy || card?.id == null) return;
  const isTwice = event.timeStamp - last.time < TWICE && last.token === t; // which chooses the word alone
  last = { time: event.timeStamp, token: t };
  drag = { anchor: event.shiftKey && chosen ? chosen.anchor : t };
  chosen = { anchor: drag.anchor, cursor: t, isExact: isTwice || drag.anchor !== t };
  draw();
  tokenAt(t).focus({ preventScroll: true });
  event.preventDefault();
}

function dragged(event) {
  if (!drag) return;
  const t = tokenOf(document.elementFromPoint(event.clientX, event.clientY));
  if (t === null || t === chosen.cursor) return;
  chosen = { anchor: drag.anchor, cursor: t, isExact: true };
  draw();
}

line.addEventListener("pointerdown", pressed);
addEventListener("pointermove", dragged);
addEventListener("pointerup", () => { drag = null; });
addEventListener("pointercancel", () => { drag = null; });
line.addEventListener("focusin", (event) => { // by the Tab key, or by a reader of the screen
  const t = tokenOf(event.target);
  if (t !== null && !drag && chosen?.cursor !== t) { chosen = { anchor: t, cursor: t }; draw(); tokenAt(t).focus(); }
});
addEventListener("keydown", onKey);
$("accept").addEventListener("click", () => alone(() => accept()));
$("skip").addEventListener("click", () => alone(() => next({ skip: card.id })));
$("undo").addEventListener("click", () => alone(undo));
$("remove-answer").addEventListener("click", () => alone(takeBack));
$("new-type").addEventListener("submit", addType);
$("search").addEventListener("input", searchSoon);
$("which").addEventListener("change", searchSoon);
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); (line.querySelector(".token") ?? line).focus(); });

addEventListener("beforeunload", (event) => { if (busy) event.preventDefault(); }); // an answer may be under way

/** A tab that was duplicated has the storage of the first, which holds the lock: it gets a name of its own. */
const identify = () => new Promise((done) => {
  navigator.locks.request(page, { ifAvailable: true }, (lock) => {
    if (lock) {
      done();
      return new Promise(() => {}); // held as long as the page is open
    }
    page = named();
    answers = [];
    keepAnswers();
    return identify().then(done);
  });
});

async function look() {
  try {
    showState(await ask("state"));
  } catch { /* the next answer says so */ }
}

alone(async () => {
  await identify();
  showState(await ask("state"));
  await next();
  setInterval(() => { if (!document.hidden && !busy) look(); }, POLL);
});
