// The explanation of a gap: bars for the terms, the interval, and what would change it most.

import { bar, count, isSpace, item, make, makeTabs, ngram, select, shown, signed, times, value } from "./dom.js";
import { ask } from "./service.js";
import { context } from "./text.js";

const HEADS = {
  alone: "each item by itself",
  shape: "each item by itself; where it is rare, it is pulled towards its shape",
  shapes: "corrected by the shapes next to the gap: ratio before → after",
  items: "corrected by the items next to the gap: ratio before → after",
  calibration: "calibrated by contexts that were not in the fit: ratio before → after",
};
const NOTES = { anywhere: "anywhere", none: "no evidence" };

export class Why {
  constructor(panel, failed, closed) {
    Object.assign(this, { panel, failed, closed });
  }

  clear(message = "Choose a gap to see what its context says.") {
    this.running?.abort();
    this.key = null;
    this.panel.replaceChildren(make("p", { class: "soft empty" }, message));
  }

  // Explain the context of a boundary by one of several models that have a log ratio there.
  async show(items, boundary, models, preferred) {
    if (!models.length) return this.clear();
    const chosen = models.find((model) => model.name === preferred) ?? models[0];
    await this.explain(context(items, boundary, chosen), chosen, models, (model) => this.show(items, boundary, models, model.name));
  }

  async explain(words, model, models = [model], choose = () => {}) {
    this.chosen = model.name;
    this.choose = choose;
    const key = JSON.stringify([words, model.name, models.map((other) => other.name)]);
    if (key === this.key) return; // it is shown, and need not be read out again
    this.key = key;
    this.running?.abort();
    const running = (this.running = new AbortController());
    try {
      const found = await ask("/api/explain", { context: words, model: model.name }, running.signal);
      const changes = make("div", {}, make("p", { class: "soft" }, "Looking for what would change it …"));
      this.draw(found, model, models, changes);
      const response = await ask("/api/changes", { context: words, model: model.name }, running.signal);
      changes.replaceChildren(...drawChanges(response));
    } catch (error) {
      if (error.name === "AbortError") return;
      this.key = null;
      this.failed(error);
    }
  }

  draw(found, model, models, changes) {
    const focused = this.panel.contains(document.activeElement) && document.activeElement.role === "tab";
    const tabs = make("div", { role: "tablist", "aria-label": "Models", class: "row" }, models.map((other) =>
      make("button", { role: "tab", type: "button", "data-name": other.name, class: `chip ${other.colour}` }, make("i"), other.label)));
    const current = [...tabs.children].find((tab) => tab.dataset.name === model.name);
    select(tabs, current);
    makeTabs(tabs, (tab) => this.choose(models.find((other) => other.name === tab.dataset.name)));
    const close = make("button", { class: "close small", type: "button", "aria-label": "Close", onclick: () => { this.clear(); this.closed(); } }, "✕");
    this.panel.className = `card ${model.colour}`;
    this.panel.replaceChildren(close, tabs, drawContext(found.ngram, model), ...drawFigure(found), drawTerms(found, model), make("h3", {}, "What would change it most"), changes);
    if (focused) current.focus();
  }
}

function drawContext(items, model) {
  const here = make("b", { title: "the gap" }, "▮");
  const left = model.side === "left";
  const words = [[]]; // what stays on one line
  items.forEach((text, place) => {
    words.at(-1).push(item(text));
    if (place < items.length - 1 && (model.kind !== "letters" || isSpace(text))) words.push([]);
  });
  if (left) words.at(-1).push(here);
  else words[0].unshift(here);
  return make("p", { class: "context" }, words.map((word) => make("span", { class: "word" }, word)));
}

function drawFigure(found) {
  const figure = make("div", { class: "figure" }, make("strong", {}, signed(found.log_ratio)), make("span", { class: "soft" }, found.sentence));
  return found.interval ? [figure, drawInterval(value(found.log_ratio), found.interval)] : [figure];
}

// The numbers stand at the ends of the interval, outwards, so that they never meet; there is room for them on both sides.
function drawInterval(middle, ends) {
  const [lower, upper] = ends.map(value);
  const [low, high] = [Math.min(lower, 0), Math.max(upper, 0)];
  const at = (x) => 17 + (66 * (x - low)) / (high - low || 1);
  const line = make("div", { class: "whisker", "aria-hidden": "true" },
    make("span", { class: "zero", style: { left: `${at(0)}%` } }, make("span", {}, "0 (ratio 1)")),
    make("span", { class: "reach", style: { left: `${at(lower)}%`, width: `${at(upper) - at(lower)}%` } }),
    make("span", { class: "point", style: { left: `${at(middle)}%` } }),
    make("span", { class: "lower", style: { right: `${100 - at(lower)}%` } }, signed(lower)),
    make("span", { class: "upper", style: { left: `${at(upper)}%` } }, signed(upper)));
  return make("div", {}, line, make("p", { class: "soft" }, `95 % interval: log ratio from ${signed(lower)} to ${signed(upper)}`));
}

function drawTerms(found, model) {
  const terms = found.terms;
  const kinds = new Set(terms.map((term) => term.kind));
  const plain = kinds.size === 1 && kinds.has("item");
  const scale = Math.max(...terms.map((term) => Math.abs(value(term.value))).filter(Number.isFinite), 0) || 1;
  const shapes = ["anywhere", "shape", "shapes"].some((kind) => kinds.has(kind));
  const rows = [];
  let section = plain ? "" : null;
  for (const term of terms) {
    const here = plain ? "" : term.prior !== null ? term.kind : shapes ? "shape" : "alone";
    if (here !== section) {
      section = here;
      rows.push(make("tr", { class: "section" }, make("td", { colspan: 6 }, HEADS[here])));
    }
    rows.push(drawTerm(term, found.ngram, scale, model.kind));
  }
  const titles = { f_nu: `how often ${model.here}`, f_de: `how often ${model.elsewhere}`, term: "what it adds to the log ratio" };
  const heads = ["", "item", "f_nu", "f_de", "term", ""].map((name) => make("th", { class: name === "item" ? "text" : "", scope: "col", title: titles[name] }, name));
  return make("table", { class: "terms" }, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows));
}

function drawTerm(term, items, scale, kind) {
  const place = term.kind === "calibration" ? "" : term.end - term.start === 1 ? `${term.start + 1}` : `${term.start + 1}–${term.end}`;
  return make("tr", { class: term.selected ? "" : "out" },
    make("td", { class: "note" }, place),
    make("td", { class: "text" }, drawWords(term, items, kind)),
    ...[term.f_nu, term.f_de].map((f) => make("td", {}, term.kind === "calibration" ? "" : count(f))),
    make("td", {}, term.selected || value(term.value) !== 0 ? signed(term.value) : "·"),
    bar(term.value, scale));
}

function drawWords(term, items, kind) {
  if (term.prior !== null) {
    const ratio = ` ${times(Math.exp(value(term.prior)))} → ${times(Math.exp(value(term.prior) + value(term.value)))}`;
    return [...ngram(term.items, kind), make("span", { class: "note" }, ratio)];
  }
  if (term.items.length > 1) return ngram(term.items, kind);
  const word = items[term.start];
  const as = term.kind === "shape" && term.items[0] !== word ? `as ${shown(term.items[0])}` : NOTES[term.kind] ?? (term.selected ? "" : "not selected");
  return [item(word), as ? make("span", { class: "note" }, ` (${as})`) : ""];
}

function drawChanges({ up, down }) {
  if (!up.length && !down.length) return [make("p", { class: "soft" }, "No other item at any position changes it.")];
  const scale = Math.max(...[...up, ...down].map((change) => Math.abs(value(change.change))).filter(Number.isFinite), 0) || 1;
  const row = (change) => make("tr", {},
    make("td", { class: "note" }, `${change.position}`),
    make("td", { class: "text" }, item(change.before), " → ", make("strong", {}, item(change.item))),
    make("td", { class: value(change.change) < 0 ? "down" : "up" }, signed(change.change)),
    make("td", {}, `= ${signed(change.log_ratio)}`),
    bar(change.change, scale));
  const table = (rows) => make("table", {}, make("tbody", {}, rows));
  const few = [...up.slice(0, 3), ...down.slice(0, 3)].map(row);
  const rest = [...up.slice(3), ...down.slice(3)].map(row);
  return [table(few), rest.length ? make("details", {}, make("summary", { class: "soft" }, "the other positions"), table(rest)) : ""];
}
