// The model view: settings and totals, how many items are selected at each position, and the strongest of them.

import { $, alertUser, bar, count, make, makeTabs, ngram, select, signed, value } from "./dom.js";
import { ask } from "./service.js";

const HIDDEN = new Set(["name", "kind", "file", "strongest_for", "strongest_against", "strongest_by_position", "digest", "corpus", "selected_by_position", "items_stored_by_position", "shapes_stored_by_position"]);
const NAMES = { items: "kind of items", lam0: "lam0 (neutral lam)" };

export class ModelView {
  constructor(models) {
    this.models = models;
    const list = $("model-tabs");
    list.replaceChildren(...models.map((model) => make("button", { role: "tab", type: "button", "data-name": model.name, class: `chip ${model.colour}` }, make("i"), model.label)));
    makeTabs(list, (tab) => this.show(tab.dataset.name));
  }

  async show(name = this.current ?? this.models[0].name) {
    this.current = name;
    const list = $("model-tabs");
    select(list, [...list.children].find((tab) => tab.dataset.name === name));
    $("model").replaceChildren(make("p", { class: "soft" }, "Reading the model …"));
    try {
      this.draw(await ask(`/api/models/${encodeURIComponent(name)}`));
    } catch (error) {
      alertUser(error.message);
    }
  }

  draw(facts) {
    const model = this.models.find((other) => other.name === facts.name);
    const names = { ...NAMES, n_nu: `contexts ${model.here} (n_nu)`, n_de: `contexts ${model.elsewhere} (n_de)` };
    const settings = Object.entries(facts).filter(([fact]) => !HIDDEN.has(fact));
    const list = settings.map(([fact, x]) => make("div", {}, make("dt", {}, names[fact] ?? fact.replaceAll("_", " ")), make("dd", {}, told(x))));
    const digest = [["corpus", "digest of the counts"], ["digest", "digest of the model"]].filter(([fact]) => facts[fact])
      .map(([fact, said]) => make("div", { class: "long" }, make("dt", {}, said), make("dd", {}, facts[fact])));
    const pair = make("div", { class: "pair" });
    const positions = facts.strongest_by_position;
    const pillars = make("div", { class: "pillars", role: "tablist", "aria-label": "Positions" });
    const tallest = Math.max(1, ...positions.map((position) => position.selected));
    pillars.append(...positions.map((position) => make("button", { role: "tab", type: "button", title: `position ${position.position}: ${count(position.selected)} selected` },
      count(position.selected), make("i", { style: { height: `${(100 * position.selected) / tallest}%` } }), positions.length > 1 ? `${position.position}` : "whole")));
    const choose = (tab) => {
      select(pillars, tab);
      drawPosition(pair, positions[[...pillars.children].indexOf(tab)], model);
    };
    makeTabs(pillars, choose);
    $("model").replaceChildren(
      make("div", { class: "card" }, make("h2", {}, `${facts.target}: ${facts.file}`), make("dl", {}, list, digest)),
      make("div", { class: "card" }, make("h2", {}, "Selected items at each position, |Θ", make("sub", {}, "k"), "|"), pillars, pair));
    if (positions.length) choose(pillars.children[facts.side === "left" ? positions.length - 1 : 0]);
  }
}

function drawPosition(pair, position, model) {
  const all = [...position.strongest_for, ...position.strongest_against];
  const scale = Math.max(...all.map((entry) => Math.abs(value(entry.log_ratio))).filter(Number.isFinite), 0) || 1;
  const where = all[0]?.items.length > 1 ? "" : ` at position ${position.position} of ${model.n}`;
  const heads = () => [["item", "text"], ["f_nu", ""], ["f_de", ""], ["log ratio", ""], ["", ""]].map(([name, kind]) => make("th", { class: kind, scope: "col" }, name));
  const row = (entry) => make("tr", {},
    make("td", { class: "text" }, ngram(entry.items, model.kind)),
    make("td", { class: "note" }, count(entry.f_nu)),
    make("td", { class: "note" }, count(entry.f_de)),
    make("td", {}, signed(entry.log_ratio)),
    bar(entry.log_ratio, scale));
  const column = (title, entries) => make("div", {}, make("h3", {}, title + where), entries.length
    ? make("table", {}, make("thead", {}, make("tr", {}, heads())), make("tbody", {}, entries.map(row)))
    : make("p", { class: "soft" }, "none"));
  pair.replaceChildren(column(`Likelier ${model.here}`, position.strongest_for), column(`Less likely ${model.here}`, position.strongest_against));
}

function told(x) {
  if (x === null) return "none";
  if (typeof x === "boolean") return x ? "yes" : "no";
  if (typeof x === "number") return Number.isInteger(x) ? count(x) : (Math.abs(x) < 0.001 ? x.toExponential(2) : String(Number(x.toPrecision(3))));
  if (Array.isArray(x)) return x.map(told).join(" ");
  if (typeof x === "object") return Object.entries(x).map(([name, y]) => `${name}: ${told(y)}`).join(", ") || "none";
  return x;
}
