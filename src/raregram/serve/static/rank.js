// The ranking view: the best contexts of a text, searched and saved.

import { $, alertUser, count, item, make, shown, signed, value } from "./dom.js";
import { ask } from "./service.js";

const SHOWN = 500; // rows drawn at a time

export class Ranking {
  constructor(models, currentText, explain) {
    Object.assign(this, { models, currentText, explain, rows: [], found: [] });
    $("rank-model").replaceChildren(...models.map((model) => make("option", { value: model.name }, model.label)));
    $("rank-form").addEventListener("submit", (event) => { event.preventDefault(); this.run(); });
    $("rank-search").addEventListener("input", () => this.draw());
    $("download").addEventListener("click", () => this.download());
    $("file").addEventListener("change", () => {
      const file = $("file").files[0];
      $("rank-source").textContent = file ? `${file.name}, ${count(file.size)} bytes` : "Without a file, the text of the first view is ranked.";
    });
  }

  async run() {
    alertUser("");
    $("rank-count").textContent = "ranking …";
    try {
      const file = $("file").files[0];
      const text = file ? await file.text() : this.currentText();
      this.model = this.models.find((model) => model.name === $("rank-model").value);
      const request = { text: text.toWellFormed ? text.toWellFormed() : text, model: this.model.name, top: Number($("rank-top").value), by: $("rank-by").value };
      const response = await ask("/api/rank", request);
      if (!response.contexts) throw new Error(`There is no whole context in this text: the model wants ${this.model.n} ${this.model.kind} in a row.`);
      Object.assign(this, { rows: response.ranking, contexts: response.contexts });
      $("ranking").hidden = false;
      this.draw();
    } catch (error) {
      $("rank-count").textContent = "";
      alertUser(error.message);
    }
  }

  text(row) {
    return row.items.map(shown).join(this.model.kind === "words" ? " " : "");
  }

  draw() {
    const wanted = $("rank-search").value.toLowerCase();
    this.found = this.rows.filter((row) => this.text(row).toLowerCase().includes(wanted));
    $("rank-count").textContent = `${count(this.found.length)} of the best ${count(this.rows.length)}; the text has ${count(this.contexts)} contexts`;
    $("rank-rows").replaceChildren(...this.found.slice(0, SHOWN).map((row) => make("tr", { onclick: () => this.explain(row.items, this.model) },
      make("td", {}, `${row.rank}`),
      make("td", {}, signed(row.log_ratio)),
      make("td", { class: "note" }, row.lower === null ? "–" : `${signed(row.lower)} to ${signed(row.upper)}`),
      make("td", { class: "text" }, make("button", { type: "button" }, make("bdi", {}, this.text(row)))))));
  }

  // What search has left, with all digits. A spreadsheet must not take a context for a formula.
  download() {
    const cell = (text) => `"${(/^[=+\-@\t\r]/.test(text) ? "'" : "") + text.replaceAll('"', '""')}"`;
    const number = (x) => (x === null ? "" : String(value(x)));
    const lines = this.found.map((row) => [row.rank, number(row.log_ratio), number(row.lower), number(row.upper), cell(this.text(row))].join(","));
    const file = new Blob([["rank,log_ratio,lower,upper,context", ...lines].join("\r\n") + "\r\n"], { type: "text/csv" });
    const link = make("a", { href: URL.createObjectURL(file), download: `ranking-${this.model.target}.csv`.replace(/[^\w.-]+/g, "-") });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}
