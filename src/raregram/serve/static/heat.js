// The heat map: a stripe for each model in every gap. A long text becomes coloured where it is looked at.

import { isSpace, make, shown, signed, value } from "./dom.js";

const FULL = 5; // the log ratio of a full stripe: 150 times likelier
const COLD = 0.04; // less than this is shown as a dot
const PART = 120; // items that are coloured together, or up to three times as many
const NO_CONTEXT = "no context here";
export const NARROW = matchMedia("(max-width: 62rem)");
const RIGHT_TO_LEFT = /^[^A-Za-z\u00c0-\u02b8]*[\u0591-\u07ff\u0860-\u08ff\ufb1d-\ufdfd\ufe70-\ufefc]/;

export class HeatMap {
  constructor(container, choose) {
    this.container = container;
    this.choose = choose;
    this.current = null;
    this.seen = new IntersectionObserver((entries) => {
      for (const entry of entries) if (entry.isIntersecting) this.colour(entry.target);
    }, { rootMargin: "800px" });
    container.addEventListener("click", (event) => {
      const gap = event.target.closest(".gap");
      if (gap) this.go(Number(gap.dataset.boundary));
    });
    container.addEventListener("keydown", (event) => this.key(event));
  }

  show(items, spaces, scores, models) {
    Object.assign(this, { items, spaces, scores, models });
    this.seen.disconnect();
    this.container.classList.toggle("letters", spaces === null);
    const parts = [];
    for (let first = 0, last = 0; first <= items.length; first = last) {
      last = this.end(first);
      const text = items.slice(first, last).join(spaces === null ? "" : " ");
      const part = make("p", { "data-first": first, "data-last": last, dir: RIGHT_TO_LEFT.test(text) ? "rtl" : "ltr" }, text);
      parts.push(part);
      this.seen.observe(part);
    }
    this.container.replaceChildren(...(items.length ? parts : []));
    parts.slice(0, 3).forEach((part) => items.length && this.colour(part));
    if (this.current > items.length) this.current = null;
    this.mark();
  }

  // Where a part ends: with its line, its sentence or, for letters, its word, as its last line does.
  end(first) {
    const { items, spaces } = this;
    const ends = (place) => /[.!?]$/.test(items[place]);
    const stops = spaces ? (place) => spaces[place].includes("\n") || ends(place - 1)
      : (place) => items[place - 1] === "\n" || (isSpace(items[place - 1]) && (ends(place - 2) || place > first + 2 * PART));
    let last = first + PART;
    while (last < Math.min(first + 3 * PART, items.length) && !stops(last)) last += 1;
    return last < items.length ? last : items.length + 1;
  }

  colour(part) {
    this.seen.unobserve(part);
    const [first, last] = [Number(part.dataset.first), Number(part.dataset.last)];
    const nodes = [];
    for (let boundary = first; boundary < last; boundary += 1) {
      const lines = (this.spaces?.[boundary] ?? "").replace(/[^\n]/g, "");
      nodes.push(lines.slice(boundary === first ? 1 : 0, 2), this.gap(boundary)); // a part begins a line anyway
      if (boundary < this.items.length) nodes.push(make("bdi", {}, this.spaces ? this.items[boundary] : shown(this.items[boundary])));
    }
    part.replaceChildren(...(this.spaces ? nodes : this.words(nodes, first)));
    this.mark(part);
  }

  // Letters with their gaps, as words within which no line ends.
  words(nodes, first) {
    const words = [make("span", { class: "word" })];
    for (let place = 0; place < nodes.length; place += 3) {
      const letter = this.items[first + place / 3];
      words.at(-1).append(...nodes.slice(place, place + 3));
      if (letter !== undefined && isSpace(letter)) words.push(letter === "\n" ? "\n" : "", make("span", { class: "word" }));
    }
    return words;
  }

  gap(boundary) {
    const found = this.models.map((model) => this.scores[model.name][boundary]);
    const where = `gap ${boundary}${boundary < this.items.length ? ` before ${shown(this.items[boundary])}` : ", the end"}`;
    if (found.every((score) => score === null)) return make("span", { class: "none", role: "img", title: NO_CONTEXT, "aria-label": `${where}: ${NO_CONTEXT}` });
    const shares = found.map(strength);
    const heat = Math.max(...shares);
    const hottest = this.models[shares.indexOf(heat)].colour;
    const told = this.models.map((model, place) => `${model.label} ${found[place] === null ? NO_CONTEXT : signed(found[place])}`);
    return make("span", {
      class: `gap ${hottest}${heat < COLD ? " cold" : ""}`, "--h": heat.toFixed(3), role: "button", tabindex: -1, "data-boundary": boundary, title: told.join(", "),
      "aria-label": `${where}: ${told.join(", ")}`,
    }, this.models.map((model, place) => make("i", { class: model.colour, "--s": shares[place].toFixed(3) })));
  }

  key(event) {
    const boundary = Number(event.target.dataset.boundary ?? this.current ?? 0);
    const rtl = event.target.closest?.("p")?.dir === "rtl" ? -1 : 1;
    const step = { ArrowRight: rtl, ArrowLeft: -rtl, ArrowDown: 10, ArrowUp: -10 }[event.key];
    if (step) this.go(this.next(boundary, step), true);
    else if (event.key === "Home") this.go(this.next(-1, 1), true);
    else if (event.key === "End") this.go(this.next(this.items.length + 1, -1), true);
    else if (event.key === "Enter" || event.key === " ") this.go(boundary, true);
    else return;
    event.preventDefault();
  }

  // The first boundary that has a context; null if there is none.
  first() {
    const found = this.next(-1, 1);
    return found < 0 ? null : found;
  }

  // The next boundary that has a context, or this one if there is none.
  next(boundary, step) {
    const unit = Math.sign(step);
    let next = Math.max(-1, Math.min(boundary + step, this.items.length + 1));
    if (next < 0 || next > this.items.length) next = unit > 0 ? this.items.length : 0;
    const has = (place) => this.models.some((model) => (this.scores[model.name][place] ?? null) !== null);
    for (let place = next; place >= 0 && place <= this.items.length; place += unit) if (has(place)) return place;
    for (let place = next; place >= 0 && place <= this.items.length; place -= unit) if (has(place)) return place;
    return boundary;
  }

  go(boundary, focus = false) {
    this.current = boundary;
    const gap = this.find(boundary);
    this.mark();
    if (gap && focus) gap.focus({ preventScroll: true });
    if (gap && NARROW.matches) scrollBy(0, gap.getBoundingClientRect().top - innerHeight * 0.25); // clear of the sheet
    else if (gap && focus) gap.scrollIntoView({ block: "nearest" });
    if (gap) this.choose(boundary);
  }

  find(boundary) {
    const part = [...this.container.children].find((other) => boundary < Number(other.dataset.last));
    if (part && !part.querySelector(".gap")) this.colour(part);
    return part?.querySelector(`[data-boundary="${boundary}"]`);
  }

  mark(inside = this.container) {
    for (const gap of inside.querySelectorAll("[aria-current], .gap[tabindex='0']")) {
      gap.removeAttribute("aria-current");
      gap.tabIndex = -1;
    }
    const gap = this.current === null ? null : inside.querySelector(`[data-boundary="${this.current}"]`);
    gap?.setAttribute("aria-current", "true");
    const reached = gap ?? (this.current === null ? this.container.querySelector(".gap") : null);
    if (reached) reached.tabIndex = 0;
  }
}

// What the marks in the gaps mean.
export function drawScale() {
  const stripe = (ratio) => {
    const share = strength(Math.log(ratio)).toFixed(3);
    return make("span", { class: "mark", "--h": share }, make("i", { "--s": share }));
  };
  const marks = [[make("span", { class: "mark cold" }), "1 or less"], [stripe(3), "3"], [stripe(12), "12"], [stripe(150), "150 or more"]];
  const none = [make("span", { class: "none" }), NO_CONTEXT];
  return [make("li", {}, "Ratio:"), ...[...marks, none].map(([mark, meaning]) => make("li", {}, mark, ` ${meaning}`))];
}

// How strongly a gap is coloured, from 0 to 1; no context and no evidence are no colour.
function strength(score) {
  const x = score === null ? NaN : value(score);
  return Number.isNaN(x) ? 0 : Math.max(0, Math.min(x / FULL, 1));
}
