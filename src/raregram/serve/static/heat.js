// The heat map: a stripe for each model in every gap. A long text becomes coloured where it is looked at.

import { make, shown, signed, value } from "./dom.js";

const FULL = 5; // the log ratio of a full stripe: 150 times likelier
const COLD = 0.04; // less than this is shown as a dot
const PART = 120; // items that are coloured together
const NARROW = matchMedia("(max-width: 62rem)");
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
    for (let first = 0; first <= items.length; first += PART) {
      const last = Math.min(first + PART, items.length + 1);
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

  colour(part) {
    this.seen.unobserve(part);
    const nodes = [];
    for (let boundary = Number(part.dataset.first); boundary < Number(part.dataset.last); boundary += 1) {
      const space = this.spaces?.[boundary] ?? "";
      if (space.includes("\n")) nodes.push(space.replace(/[^\n]/g, "").slice(0, 2));
      nodes.push(this.gap(boundary));
      if (boundary < this.items.length) nodes.push(this.item(boundary));
    }
    part.replaceChildren(...nodes.filter((node) => node !== null));
    this.mark(part);
  }

  item(boundary) {
    const text = this.items[boundary];
    const breaks = this.spaces === null && text === "\n";
    return make("bdi", {}, this.spaces === null && text !== " " ? shown(text) + (breaks ? "\n" : "") : text);
  }

  gap(boundary) {
    const found = this.models.map((model) => this.scores[model.name][boundary]);
    if (found.every((score) => score === null)) return this.spaces === null || boundary === 0 ? null : " ";
    const shares = found.map(strength);
    const heat = Math.max(...shares);
    const hottest = this.models[shares.indexOf(heat)].colour;
    const told = this.models.map((model, place) => `${model.label} ${found[place] === null ? "no context" : signed(found[place])}`);
    return make("span", {
      class: `gap ${hottest}${heat < COLD ? " cold" : ""}`, "--h": heat.toFixed(3), role: "button", tabindex: -1, "data-boundary": boundary, title: told.join(", "),
      "aria-label": `gap ${boundary}${boundary < this.items.length ? ` before ${this.items[boundary]}` : ", the end"}: ${told.join(", ")}`,
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
    const part = this.container.children[Math.floor(boundary / PART)];
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

// How strongly a gap is coloured, from 0 to 1; no context and no evidence are no colour.
function strength(score) {
  const x = score === null ? NaN : value(score);
  return Number.isNaN(x) ? 0 : Math.max(0, Math.min(x / FULL, 1));
}
