// A tagger in one file, written by `labelwright export` of labelwright @VERSION@.  It needs nothing else.
//
//   const { Tagger } = require("./tagger.js");   // Node; a page that has it as a script knows Tagger; a module is .mjs
//   const tagger = new Tagger();
//   tagger.tag(["Ada", "ran"]);        // the label of each token; a token is a list where the model reads several columns
//   tagger.tagText("Ada ran. So?");    // for each sentence [start, end, label] of each token, in UTF-16 units
//
// A line of the template reads cells of a sentence, such as the suffix of the word before.  What its cells have read is
// looked up cell by cell; it ends in a feature, whose weights are added to the scores of states (or pairs of states).
// The answer is the best path; of a latent CRF, where each label has several states, the most probable labelling.
"use strict";

const DATA = `@DATA@`;

const MOST_VALUES = 100000; // of a column that are remembered
const MOST_EXPANSIONS = 100000; // of the search for the most probable labelling; then the best path is the answer
const TIE = 1e-11; // of two prefixes this close, the longer goes first
const LETTERS = {
  a: /^\p{L}/u, d: /^\p{Nd}/u, l: /^\p{Lowercase}/u, p: /^[\p{P}\p{S}]/u, u: /^\p{Uppercase}/u, w: /^[\p{L}\p{N}]/u,
  s: /^[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/u,
};
const NO_LETTERS = /^[\p{Uppercase}\p{Lt}\p{Lowercase}\p{Nd}\p{L}\p{M}]/u;

function shape(word) {
  const of = (c) => (/[\p{Uppercase}\p{Lt}]/u.test(c) ? "X" : LETTERS.l.test(c) ? "x" : LETTERS.d.test(c) ? "d" : "a");
  return Array.from(word, (c) => (NO_LETTERS.test(c) ? of(c) : c)).join("");
}

// What a regular expression matches first: x* as short as possible, x? one letter if possible.
function match(word, [anchored, items]) {
  const text = Array.from(word), failed = new Set();
  for (let start = 0; start <= (anchored ? 0 : text.length); start++) {
    const waiting = [[0, start]];
    while (waiting.length) {
      const [k, at] = waiting.pop();
      if (k === items.length) return text.slice(start, at).join("");
      if (failed.has(k * (text.length + 1) + at)) continue;
      failed.add(k * (text.length + 1) + at);
      const [kind, letter, sign] = items[k], c = text[at];
      const inside = kind === "any" || (kind === "letter" ? c === letter : kind === "class" && isOf(c, letter));
      const fits = kind === "end" ? at === text.length : at < text.length && inside;
      if (sign) waiting.push(...(fits ? [[k, at + 1], [k + 1, at]] : [[k + 1, at]]));
      else if (fits) waiting.push([k + 1, kind === "end" ? at : at + 1]);
      if (sign === "?" && fits) waiting.splice(-2, 2, [k + 1, at], [k + 1, at + 1]);
    }
  }
  return null;
}

const isOf = (c, letter) => LETTERS[letter.toLowerCase()].test(c ?? "") === (letter === letter.toLowerCase());

const READERS = { // what a cell reads of a value
  value: (word) => word,
  lower: (word) => word.toLowerCase(),
  prefix: (word, n) => Array.from(word).slice(0, n).join(""),
  suffix: (word, n) => Array.from(word).slice(-n).join(""),
  shape,
  short_shape: (word) => shape(word).replace(/(.)\1+/gsu, "$1"),
  match: (word, expression) => match(word, expression) ?? "",
  lower_match: (word, expression) => (match(word, expression) ?? "").toLowerCase(),
  test: (word, expression) => (match(word, expression) === null ? "false" : "true"),
};

function half(bits) { // a number of 16 bits
  const sign = bits & 0x8000 ? -1 : 1, power = (bits >> 10) & 31, part = bits & 1023;
  return sign * (power ? (1024 + part) * 2 ** (power - 25) : part * 2 ** -24);
}

class Tagger {
  constructor(data = DATA) {
    const content = Uint8Array.from(atob(data), (c) => c.charCodeAt(0)), view = new DataView(content.buffer);
    let end = 16;
    const parts = [0, 4, 8, 12].map((at) => content.subarray(end, (end += view.getUint32(at, true))));
    const decode = (bytes) => new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
    Object.assign(this, (this.about = JSON.parse(decode(parts[0]))));
    this.first = [0];
    for (const size of this.states) this.first.push(this.first.at(-1) + size);
    this.labelOf = this.states.flatMap((size, y) => Array(size).fill(y));
    let at = 0;
    const next = () => { // whole numbers, seven bits in each byte, the lowest first
      for (let number = 0, factor = 1; ; factor *= 128) {
        const byte = parts[1][at++];
        number += (byte & 127) * factor;
        if (byte < 128) return number;
      }
    };
    this.readStrings(next, decode(parts[2]));
    this.readFeatures(next);
    this.readWeights(next, new DataView(parts[3].slice().buffer));
    if (!this.tokenizer) return;
    this.token = new RegExp(this.tokenizer.token, "gu");
    this.unspaced = new RegExp(this.tokenizer.UNSPACED, "u");
  }

  // -- the data -------------------------------------------------------------------------------------------------------

  readStrings(next, text) { // numbers below are those of places outside of the sentence
    let at = 0;
    this.known = this.strings.map((size) => {
      const known = new Map();
      for (let i = 0, string = ""; i < size; i++) {
        const kept = next(), length = next();
        string = string.slice(0, kept) + text.slice(at, (at += length));
        known.set(string, 2 * this.reach + i);
      }
      return known;
    });
    this.seen = this.columns.map(() => new Map());
  }

  readFeatures(next) { // cell by cell: (what is known so far, number of the string) -> what is known; at last the feature
    this.nFeatures = 0;
    const tables = this.tables.map(([readers, sizes]) => {
      const levels = sizes.map((size, i) => {
        const index = new Map();
        for (let rank = 0, code = 0; rank < size; rank++) index.set((code += next()), rank);
        return { index, width: 2 * this.reach + this.known[readers[i]].size };
      });
      const first = this.nFeatures;
      this.nFeatures += sizes.length ? sizes.at(-1) : 1;
      return { first, levels };
    });
    this.cellsOfLines = this.lines.map(([kind, table, cells]) => ({
      kind, first: tables[table].first,
      cells: cells.map(([row, absolute, reader], i) => (
        { row, absolute, reader, column: this.readers[reader][0], ...tables[table].levels[i] })),
    }));
  }

  readWeights(next, view) {
    const S = this.first.at(-1), read = {}, forms = { b: "getInt8", e: "getUint16", f: "getFloat32", d: "getFloat64" };
    let at = 0;
    for (const [name, form, scale, size] of this.weights) {
      const width = { b: 1, e: 2, f: 4, d: 8 }[form];
      read[name] = Float64Array.from({ length: size }, (_, i) => {
        const q = view[forms[form]](at + i * width, true);
        return (form === "e" ? half(q) : q) * scale;
      });
      at += size * width;
    }
    this.cells = {};
    for (const kind of this.kinds) { // feature f has the weights ptr[f] to ptr[f + 1]
      const ptr = [0];
      for (let f = 0; f < this.nFeatures; f++) ptr.push(ptr[f] + next());
      this.cells[kind] = { ptr, target: Uint32Array.from({ length: ptr.at(-1) }, next), weight: read[kind] };
    }
    const fence = (allowed) => (allowed === "1" ? 0 : -Infinity);
    this.from = read.transitions.map((w, i) => w + fence(this.arc[i])); // r * S + s: from state r to state s
    this.starts = Array.from(this.start, fence);
    this.ends = Array.from(this.end, fence);
  }

  // -- scores ---------------------------------------------------------------------------------------------------------

  numbersOf(column, value) { // what each reader sees of a value of this column; NaN: unknown, or not its column
    const seen = this.seen[column];
    if (!seen.has(value)) {
      if (typeof value !== "string") throw new TypeError(`expected tokens with the columns ${this.columns.join(", ")}`);
      if (seen.size > MOST_VALUES) seen.clear();
      seen.set(value, this.readers.map(([of, name, argument], i) => (
        of === column ? this.known[i].get(READERS[name](value, argument)) ?? NaN : NaN)));
    }
    return seen.get(value);
  }

  scores(sentence) { // of states at each token, and of transitions into each token
    const T = sentence.length, S = this.first.at(-1), reach = this.reach, several = this.columns.length > 1;
    const outside = Array.from({ length: 2 * reach }, (_, mark) => Array(this.known.length).fill(mark));
    const read = this.columns.map((_, c) => [
      ...outside.slice(0, reach).reverse(),
      ...Array.from(sentence, (token) => this.numbersOf(c, !several ? token : Array.isArray(token) ? token[c] : null)),
      ...outside.slice(reach),
    ]);
    const nodes = [], arcs = [];
    for (let t = 0; t < T; t++) {
      const node = new Float64Array(S), arc = t && this.cells.edge ? this.from.slice() : this.from;
      for (const { kind, first, cells } of this.cellsOfLines) {
        let at = 0;
        for (const { row, absolute, reader, column, index, width } of cells) {
          const place = !absolute ? row + t : row < 0 ? row + T : row;
          at = index.get(at * width + read[column][place + reach][reader]);
          if (at === undefined) break;
        }
        if (at === undefined || (kind === "edge" && !t)) continue;
        const { ptr, target, weight } = this.cells[kind], scores = kind === "state" ? node : arc;
        for (let i = ptr[first + at]; i < ptr[first + at + 1]; i++) scores[target[i]] += weight[i];
      }
      for (let s = 0; s < S; s++) node[s] += (t ? 0 : this.starts[s]) + (t < T - 1 ? 0 : this.ends[s]);
      nodes.push(node);
      arcs.push(arc);
    }
    return [nodes, arcs];
  }

  // -- labels ---------------------------------------------------------------------------------------------------------

  tag(sentence) {
    if (!sentence.length) return [];
    const [nodes, arcs] = this.scores(sentence);
    const labels = (this.exact && this.mostProbable(nodes, arcs)) || this.bestPath(nodes, arcs);
    return labels.map((y) => this.labels[y]);
  }

  bestPath(nodes, arcs) { // Viterbi's algorithm; the labels of the states on the best path
    const S = this.first.at(-1), back = [];
    let best = nodes[0];
    for (let t = 1; t < nodes.length; t++) {
      const top = new Float64Array(S).fill(-Infinity), before = new Uint32Array(S);
      for (let r = 0; r < S; r++) {
        for (let s = 0; s < S; s++) {
          const score = best[r] + arcs[t][r * S + s];
          if (score > top[s]) [top[s], before[s]] = [score, r];
        }
      }
      back.push(before);
      best = top.map((score, s) => score + nodes[t][s]);
    }
    const states = [best.indexOf(Math.max(...best))];
    for (const before of back.reverse()) states.push(before[states.at(-1)]);
    return states.reverse().map((s) => this.labelOf[s]);
  }

  // The most probable labelling, by a best-first search over its prefixes; null where that takes too long.  A prefix
  // weighs what its paths through the states of its labels weigh, times a bound on what may follow.
  mostProbable(nodes, arcs) {
    const T = nodes.length, S = this.first.at(-1), L = this.labels.length, first = this.first;
    const exponentials = (row) => {
      const top = row.reduce((a, b) => Math.max(a, b));
      return row.map((x) => Math.exp(x - top));
    };
    const psi = nodes.map(exponentials), plain = exponentials(this.from);
    const E = arcs.map((arc) => (arc === this.from ? plain : exponentials(arc)));
    const bounds = Array(T).fill(null), logs = Array(T).fill(0); // of what may follow, and what it was divided by
    bounds[T - 1] = new Float64Array(S).fill(1);
    for (let t = T - 1; t > 0; t--) {
      const bound = new Float64Array(S), value = psi[t].map((x, s) => x * bounds[t][s]);
      for (let r = 0; r < S; r++) {
        for (let y = 0; y < L; y++) {
          let sum = 0;
          for (let k = first[y]; k < first[y + 1]; k++) sum += value[k] * E[t][r * S + k];
          if (sum > bound[r]) bound[r] = sum;
        }
      }
      const most = bound.reduce((a, b) => Math.max(a, b));
      if (!(most > 0 && most < Infinity)) return null;
      bounds[t - 1] = bound.map((x) => x / most);
      logs[t - 1] = logs[t] + Math.log(most);
    }
    const heap = new Heap();
    let prefix = { t: -1, log: 0 };
    for (let n = 0; n < MOST_EXPANSIONS; n++) {
      const t = prefix.t + 1;
      for (let y = 0; y < L; y++) {
        const vector = [];
        let most = 0, weight = 0;
        for (let k = first[y]; k < first[y + 1]; k++) {
          let sum = t ? 0 : 1;
          if (t) prefix.vector.forEach((x, i) => { sum += x * E[t][(first[prefix.y] + i) * S + k]; });
          vector.push(sum * psi[t][k]);
          most = Math.max(most, vector.at(-1));
          weight += vector.at(-1) * bounds[t][k];
        }
        if (!(weight > 0)) continue;
        const log = prefix.log + Math.log(most), key = Math.log(weight) + prefix.log + logs[t] + TIE * t;
        heap.push({ key, t, y, parent: prefix, log, vector: vector.map((x) => x / most) });
      }
      prefix = heap.pop();
      if (!prefix) return null;
      if (prefix.t === T - 1) break;
    }
    if (prefix.t < T - 1) return null;
    const labels = [];
    for (; prefix.t >= 0; prefix = prefix.parent) labels.push(prefix.y);
    return labels.reverse();
  }

  // -- text -----------------------------------------------------------------------------------------------------------

  tagText(text) {
    return this.sentences(text).map((places) => {
      const labels = this.tag(places.map(([a, b]) => text.slice(a, b)));
      return places.map(([a, b], t) => [a, b, labels[t]]);
    });
  }

  sentences(text) { // the places of the tokens of each sentence
    if (!this.tokenizer) throw new TypeError(`give tag the tokens with the columns ${this.columns.join(", ")}`);
    const places = this.tokens(text), sentences = places.length ? [places.slice(0, 1)] : [];
    for (let t = 1; t < places.length; t++) {
      if (this.endsBefore(text, places, t, t - sentences.at(-1).length)) sentences.push([]);
      sentences.at(-1).push(places[t]);
    }
    return sentences;
  }

  tokens(text) { // combining marks and joiners belong to the word before them, and do not end it
    const { JOINERS, characters } = this.tokenizer, places = [];
    let goesOn = false;
    for (const found of text.matchAll(this.token)) {
      const a = found.index, b = a + found[0].length, c = String.fromCodePoint(text.codePointAt(a));
      const isMark = /^\p{M}/u.test(c) || JOINERS.includes(c), last = places.at(-1);
      const continues = goesOn && LETTERS.w.test(c) && !this.unspaced.test(c);
      if (last && last[1] === a && (isMark || continues)) last[1] = b;
      else places.push([a, b]);
      goesOn = isMark && !characters && LETTERS.w.test(text.slice(places.at(-1)[0]));
    }
    return places;
  }

  endsBefore(text, places, t, start) { // does the sentence that begins with token `start` end before token t?
    const { ENDS, WIDE_ENDS, CLOSERS, MOST_CLOSERS, sentences } = this.tokenizer, end = places[t - 1][1];
    const lines = text.slice(end, places[t][0]).split("\n").length - 1;
    const following = String.fromCodePoint(text.codePointAt(places[t][0]));
    if (lines > 1 || sentences !== "split") return sentences !== "none" && lines > (sentences === "lines" ? 0 : 1);
    let last = t - 1, mark = text[end - 1];
    while (CLOSERS.includes(mark) && last > Math.max(start, t - 1 - MOST_CLOSERS) && places[last - 1][1] === places[last][0])
      mark = text[places[--last][1] - 1];
    if (WIDE_ENDS.includes(mark)) return !CLOSERS.includes(following) && !WIDE_ENDS.includes(following);
    if (!ENDS.includes(mark) || end === places[t][0] || LETTERS.l.test(following)) return false;
    return mark !== "." || last === t - 2 || !this.isAbbreviated(text, places, last);
  }

  isAbbreviated(text, places, t) { // does token t end with a period that belongs to its word, or to the one before it?
    const [a, b] = places[t], own = t && b - a === 1 && places[t - 1][1] === a;
    const word = text.slice(own ? places[t - 1][0] : a, b).replace(/\.+$/, "");
    const isInitial = Array.from(word).length === 1 && LETTERS.u.test(word);
    return word.includes(".") || isInitial || this.tokenizer.ABBREVIATIONS.includes(word.toLowerCase());
  }
}

class Heap { // the largest key first
  items = [];
  push(item) {
    const items = this.items;
    let at = items.push(item) - 1;
    for (let up; at && items[(up = (at - 1) >> 1)].key < item.key; at = up) items[at] = items[up];
    items[at] = item;
  }
  pop() {
    const items = this.items, top = items[0], item = items.pop();
    if (!items.length) return top;
    let at = 0;
    for (let down = 1; down < items.length; down = 2 * at + 1) {
      if (down + 1 < items.length && items[down + 1].key > items[down].key) down++;
      if (items[down].key <= item.key) break;
      items[at] = items[down];
      at = down;
    }
    items[at] = item;
    return top;
  }
}

if (typeof module === "object") module.exports = { Tagger };
else globalThis.Tagger = Tagger;
