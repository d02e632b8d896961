// Texts and their items, cut as the models cut them, and the log ratios of their boundaries.

import { ask } from "./service.js";

// White space as Python's str.split sees it, which is not what \s means here.
const WORD = /[^\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/g;

export const APART = "words and signs"; // the kind of items of models that split words from punctuation

// Unicode's rules for word boundaries, as the service has them: a class for each character, and what is one word.
const rules = { classes: [], word: null, known: new Map() };

export function setRules({ classes, word }) {
  Object.assign(rules, { classes, word: new RegExp(word, "g") });
}

function classOf(character) {
  const code = character.codePointAt(0);
  if (!rules.known.has(code)) rules.known.set(code, rules.classes.find(([first, last]) => first <= code && code <= last)?.[2] ?? "x");
  return rules.known.get(code);
}

function apart(string) {
  const characters = Array.from(string);
  return [...characters.map(classOf).join("").matchAll(rules.word)].map((match) => characters.slice(match.index, match.index + match[0].length).join(""));
}

export function split(text, kind) {
  if (kind === "letters") return Array.from(text);
  const strings = text.match(WORD) ?? [];
  return kind === APART ? strings.flatMap(apart) : strings;
}

// What stands before each item, and after the last one.
export function spaces(text, kind) {
  if (kind === "letters") return null;
  const found = [];
  let end = 0;
  for (const match of text.matchAll(WORD)) {
    found.push(text.slice(end, match.index));
    if (kind === APART) found.push(...apart(match[0]).slice(1).map(() => ""));
    end = match.index + match[0].length;
  }
  return [...found, text.slice(end)];
}

// The items beside a boundary: n of them, or as many as there are; a model of padded contexts wants empty strings for the others.
export function context(items, boundary, model) {
  const [low, high] = model.side === "left" ? [boundary - model.n, boundary] : [boundary, boundary + model.n];
  const found = items.slice(Math.max(low, 0), high);
  const pads = model.pad ? Array(model.n - found.length).fill("") : [];
  return model.side === "left" ? [...pads, ...found] : [...found, ...pads];
}

// The text of a file; one that holds anything else is refused.
export async function readText(file) {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (!text.startsWith("PAR1") && !text.includes("\0")) return text;
  } catch { /* it is not UTF-8 */ }
  throw new Error(`${file.name} is not plain text. The Rank view reads files of other formats.`);
}

export function base64(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result.slice(reader.result.indexOf(",") + 1));
    reader.onerror = () => failed(new Error(`${file.name} cannot be read.`));
    reader.readAsDataURL(file);
  });
}

// The log ratios of a text that is being typed: only the boundaries that a change can reach are asked for again.
export class Scores {
  constructor(models, kind) {
    this.models = models.filter((model) => model.kind === kind);
    this.kind = kind;
    this.reach = Math.max(1, ...this.models.map((model) => model.n));
    this.items = [];
    this.scores = null;
  }

  async update(text, signal) {
    const items = split(text.toWellFormed ? text.toWellFormed() : text, this.kind);
    const [low, high] = this.scores ? this.changed(items) : [0, items.length];
    const from = Math.max(low - 2 * this.reach, 0);
    const to = Math.min(high + 2 * this.reach, items.length);
    const sent = items.slice(from, to).join(this.kind === "letters" ? "" : " ");
    const request = { texts: [sent], models: this.models.map((model) => model.name), digits: 4 };
    const fresh = (await ask("/api/texts", request, signal)).texts[0].scores;
    const first = Math.max(low - this.reach, 0);
    const last = Math.min(high + this.reach, items.length);
    const moved = items.length - this.items.length;
    const scores = {};
    for (const { name } of this.models) {
      const old = this.scores?.[name] ?? [];
      const part = fresh[name].slice(first - from, last + 1 - from);
      scores[name] = this.scores ? [...old.slice(0, first), ...part, ...old.slice(last + 1 - moved)] : part;
    }
    Object.assign(this, { items, scores });
  }

  // The items that are not as they were: from the first on, and up to the last.
  changed(items) {
    const old = this.items;
    const most = Math.min(old.length, items.length);
    let head = 0;
    while (head < most && old[head] === items[head]) head += 1;
    let tail = 0;
    while (tail < most - head && old[old.length - 1 - tail] === items[items.length - 1 - tail]) tail += 1;
    return [head, items.length - tail];
  }
}
