// The explanation of a gap: bars for the terms, the interval, and what would change it most.

import { bar, count, item, make, makeTabs, select, shown, signed, times, value } from "./dom.js";
import { ask } from "./service.js";
import { context } from "./text.js";

const HEADS = {
  alone: "each item by itself",
  shape: "each item by itself; where it is rare, it is pulled towards its shape",
  shapes: "corrected by the shapes next to the boundary: ratio before → after",
  items: "corrected by the items next to the boundary: ratio before → after",
};
const NOTES = { anywhere: "anywhere", none: "no evidence" };

export class Why {
  constructor(panel, failed, closed) {
    Object.assign(this, { panel, failed, closed });
  }

  clear() {
    this.running?.abort();
    this.panel.replaceChildren(make("p", { class: "soft empty" }, "Choose a gap to see what its context says."));
  }

  // Explain the context of a boundary by one of several models.
  async show(items, boundary, models, preferred) {
    const able = models.filter((model) => context(items, boundary, model) !== null);
    if (!able.length) return this.clear();
    const chosen = able.find((model) => model.name === preferred) ?? able[0];
    await this.explain(context(items, boundary, chosen), chosen, able, (model) => this.show(items, boundary, models, model.name));
  }

  async explain(words, model, models = [model], choose = () => {}) {
    this.chosen = model.name;
    this.running?.abort();
    const running = (this.running = new AbortController());
    try {
      const found = await ask("/api/explain", { context: words, model: model.name }, running.signal);
      const changes = make("div", {}, make("p", { class: "soft" }, "Looking for what would change it …"));
      this.draw(found, model, models, choose, changes);
      const response = await ask("/api/changes", { context: words, model: model.name }, running.signal);
      changes.replaceChildren(...drawChanges(response));
    } catch (error) {
      if (error.name !== "AbortError") this.failed(error);
    }
  }

  draw(found, model, models, choose, changes) {
    const focused = this.panel.contains(document.activeElement) && document.activeElement.role === "tab";
    const tabs = make("div", { role: "tablist", "aria-label": "Models", class: "row" }, models.map((other) =>
      make("button", { role: "tab", type: "button", "data-name": other.name, class: `chip ${other.colour}` }, make("i"), other.label)));
    const current = [...tabs.children].find((tab) => tab.dataset.name === model.name);
    select(tabs, current);
    makeTabs(tabs, (tab) => choose(models.find((other) => other.name === tab.dataset.name)));
    const close = make("button", { class: "close small", type: "button", "aria-label": "Close", onclick: () => { this.clear(); this.closed(); } }, "✕");
    this.panel.className = `card ${model.colour}`;
    this.panel.replaceChildren(close, tabs, drawContext(found.ngram, model), ...drawFigure(found, model), drawTerms(found), make("h3", {}, "What would change it most"), changes);
    if (focused) current.focus();
  }
}

function drawContext(ngram, model) {
  const here = make("b", { title: `the boundary: ${model.target} ${model.side === "left" ? "begins" : "ends"} here?` }, "▮");
  const words = ngram.map((word) => item(word));
  const left = model.side === "left";
  const nearest = make("span", {}, left ? [words.pop(), here] : [here, words.shift()]); // stays together
  return make("p", { class: "context" }, left ? [...words, nearest] : [nearest, ...words]);
}

function drawFigure(found, model) {
  const ratio = value(found.ratio);
  const said = Number.isNaN(ratio)
    ? "the model does not hold this N-gram"
    : ratio >= 1 ? `${times(ratio)} times as likely ${model.side === "left" ? "before" : "after"} ${found.target} as elsewhere` : `${times(1 / ratio)} times less likely than elsewhere`;
  const figure = make("div", { class: "figure" }, make("strong", {}, signed(found.log_ratio)), make("span", { class: "soft" }, `log ratio: ${said}`));
  return found.interval ? [figure, drawInterval(value(found.log_ratio), found.interval)] : [figure];
}

function drawInterval(middle, [lower, upper]) {
  const [low, high] = [Math.min(lower, 0, middle) - 0.5, Math.max(upper, 0, middle) + 0.5];
  const at = (x) => `${(100 * (x - low)) / (high - low)}%`;
  const line = make("div", { class: "whisker", "aria-hidden": "true" },
    make("span", { class: "zero", style: { left: at(0) } }),
    make("span", { class: "reach", style: { left: at(lower), width: `${(100 * (upper - lower)) / (high - low)}%` } }),
    make("span", { class: "point", style: { left: at(middle) } }));
  return make("div", {}, line, make("div", { class: "ends" }, make("span", {}, signed(lower)), make("span", {}, "95 % interval"), make("span", {}, signed(upper))));
}

function drawTerms(found) {
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
    rows.push(drawTerm(term, found.ngram, scale));
  }
  const heads = ["", "item", "f_nu", "f_de", "term", ""].map((name) => make("th", { class: name === "item" ? "text" : "", scope: "col" }, name));
  return make("table", { class: "terms" }, make("thead", {}, make("tr", {}, heads)), make("tbody", {}, rows));
}

function drawTerm(term, ngram, scale) {
  const place = term.end - term.start === 1 ? `${term.start + 1}` : `${term.start + 1}–${term.end}`;
  return make("tr", { class: term.selected ? "" : "out" },
    make("td", { class: "note" }, place),
    make("td", { class: "text" }, drawWords(term, ngram)),
    make("td", {}, count(term.f_nu)),
    make("td", {}, count(term.f_de)),
    make("td", {}, term.selected || value(term.value) !== 0 ? signed(term.value) : "·"),
    bar(term.value, scale));
}

function drawWords(term, ngram) {
  if (term.prior !== null) {
    const ratio = ` ${times(Math.exp(value(term.prior)))} → ${times(Math.exp(value(term.prior) + value(term.value)))}`;
    return [...term.items.flatMap((word) => [item(word), " "]), make("span", { class: "note" }, ratio)];
  }
  if (term.items.length > 1) return term.items.flatMap((word) => [item(word), " "]);
  const word = ngram[term.start];
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
