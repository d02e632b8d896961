// The ranking view: the best contexts of a text, searched and saved.

import { $, alertUser, count, make, shown, signed, value } from "./dom.js";
import { ask } from "./service.js";
import { base64 } from "./text.js";

const SHOWN = 500; // rows drawn at a time
const NO_FILE = "Plain text, Parquet, JSON lines, CoNLL or DocBin. Without a file, the text of the Read view is ranked.";

export class Ranking {
  constructor(models, maxBytes, currentText, explain) {
    Object.assign(this, { models, maxBytes, currentText, explain, rows: [], found: [] });
    $("rank-model").replaceChildren(...models.map((model) => make("option", { value: model.name }, model.label)));
    $("rank-form").addEventListener("submit", (event) => { event.preventDefault(); this.run(); });
    $("rank-search").addEventListener("input", () => this.draw());
    $("download").addEventListener("click", () => this.download());
    $("rank-model").addEventListener("change", () => this.describe());
    $("file").addEventListener("change", () => this.describe());
    this.describe();
  }

  get chosen() {
    return this.models.find((model) => model.name === $("rank-model").value);
  }

  // Say what will be ranked, and by what.
  describe() {
    const { here, elsewhere } = this.chosen;
    $("rank-about").textContent = `The contexts that are likelier ${here} than ${elsewhere}, the strongest first.`;
    const file = $("file").files[0];
    $("rank-source").textContent = file ? `${file.name}, ${count(file.size)} bytes` : NO_FILE;
  }

  // Take files that were dropped on the page.
  take(files) {
    $("file").files = files;
    this.describe();
    this.run();
  }

  async source() {
    const file = $("file").files[0];
    if (!file) {
      const text = this.currentText();
      return { text: text.toWellFormed ? text.toWellFormed() : text };
    }
    const most = Math.floor(this.maxBytes * 0.74); // Base64 takes four bytes for three
    if (file.size > most) throw new Error(`${file.name} has ${count(file.size)} bytes, and this page takes ${count(most)}. For larger files there is the command raregram rank.`);
    return { file: await base64(file), file_name: file.name };
  }

  async run() {
    alertUser("");
    $("rank-count").textContent = "ranking …";
    try {
      const model = this.chosen;
      const request = { ...(await this.source()), model: model.name, top: Number($("rank-top").value), by: $("rank-by").value };
      const response = await ask("/api/rank", request);
      if (!response.contexts) throw new Error(`There is no context in it: the model reads ${model.n} ${model.kind} beside a gap.`);
      Object.assign(this, { model, rows: response.ranking, contexts: response.contexts, documents: response.documents });
      $("ranking").hidden = false;
      this.draw();
    } catch (error) {
      $("rank-count").textContent = "";
      alertUser(error.message);
    }
  }

  where(row) {
    return `${row.document === null ? "" : `${shown(row.document)}, `}gap ${count(row.position)}`;
  }

  text(row) {
    return row.items.filter((item) => item).map(shown).join(this.model.kind === "letters" ? "" : " ");
  }

  // What stands on the other side of the gap.
  beyond(row) {
    return this.model.side === "left" ? row.right : row.left;
  }

  around(row) {
    const parts = [make("button", { type: "button" }, make("bdi", {}, this.text(row))), make("b", {}, " ▮ "), make("bdi", { class: "note" }, this.beyond(row))];
    return this.model.side === "left" ? parts : parts.reverse();
  }

  draw() {
    const wanted = $("rank-search").value.toLowerCase();
    this.found = this.rows.filter((row) => `${this.text(row)} ${this.beyond(row)}`.toLowerCase().includes(wanted));
    $("rank-count").textContent = `${count(this.found.length)} of the best ${count(this.rows.length)}; ${this.documents === 1 ? "the text has" : `${count(this.documents)} documents have`} ${count(this.contexts)} contexts`;
    $("rank-rows").replaceChildren(...this.found.slice(0, SHOWN).map((row) => make("tr", { onclick: () => this.explain(row.items, this.model) },
      make("td", {}, `${row.rank}`),
      make("td", {}, signed(row.log_ratio)),
      make("td", { class: "note" }, row.lower === null ? "–" : `${signed(row.lower)} to ${signed(row.upper)}`),
      make("td", { class: "text" }, this.around(row)),
      make("td", { class: "text note" }, make("bdi", {}, this.where(row))))));
  }

  // What search has left, with all digits. A spreadsheet must not take a context for a formula.
  download() {
    const cell = (text) => `"${(/^[=+\-@\t\r]/.test(text) ? "'" : "") + text.replaceAll('"', '""')}"`;
    const number = (x) => (x === null ? "" : String(value(x)));
    const lines = this.found.map((row) => [row.rank, number(row.log_ratio), number(row.lower), number(row.upper), cell(this.text(row)), cell(row.document ?? ""), row.position].join(","));
    const file = new Blob([["rank,log_ratio,lower,upper,context,document,position", ...lines].join("\r\n") + "\r\n"], { type: "text/csv" });
    const link = make("a", { href: URL.createObjectURL(file), download: `ranking-${this.model.target}.csv`.replace(/[^\w.-]+/g, "-") });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }
}
