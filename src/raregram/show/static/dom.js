// Small pieces of the page. Text only ever becomes text: nothing here, or anywhere else, parses a string as HTML.

export const $ = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || (value === false && !name.startsWith("aria-"))) continue;
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name, value === true && !name.startsWith("aria-") ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null));
  return node;
}

// JSON has no infinity, so the service writes it as a string; "nan" is no evidence.
export const value = (number) => (typeof number === "string" ? { inf: Infinity, "-inf": -Infinity, nan: NaN }[number] : number);

export function signed(number, digits = 2) {
  const x = value(number);
  if (Number.isNaN(x)) return "no evidence";
  if (!Number.isFinite(x)) return x > 0 ? "+∞" : "−∞";
  const text = Math.abs(x).toFixed(digits);
  return Number(text) === 0 ? text : (x < 0 ? "−" : "+") + text;
}

// A ratio with two digits: more of them would say nothing.
export function times(number) {
  const x = value(number);
  if (Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return "∞";
  if (x >= 1e7 || (x > 0 && x < 1e-4)) return x.toExponential(1).replace("e+", "e");
  return x.toLocaleString("en", { maximumSignificantDigits: 2 });
}

export const count = (number) => (number === null || number === undefined ? "–" : number.toLocaleString("en"));

// An item as it can be seen: a pad, a space and a control character have a sign. Joiners, which emoji and some
// scripts need inside a word, stay.
export function shown(item) {
  if (item === "") return "∅";
  const visible = item.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (sign) =>
    /[\u200c\u200d]/.test(sign) ? sign : sign === "\n" ? "↵" : sign === "\t" ? "⇥" : "\\u" + sign.codePointAt(0).toString(16).padStart(4, "0"));
  return visible.trim() === "" ? "␣".repeat(visible.length) : visible;
}

export const item = (text) => make("bdi", {}, shown(text));

export const isSpace = (text) => text !== "" && text.trim() === "";

// The items of an N-gram: words with a space between them; letters next to each other, and no line ends within a word.
export function ngram(items, kind) {
  if (kind !== "letters") return items.flatMap((word) => [item(word), " "]);
  const words = [[]];
  for (const letter of items) {
    words.at(-1).push(item(letter));
    if (isSpace(letter)) words.push([]);
  }
  return words.map((letters) => make("span", { class: "word" }, letters));
}

// A bar to the right for what speaks for the target, to the left for what speaks against it.
export function bar(number, scale) {
  const x = value(number);
  const length = Number.isNaN(x) ? 0 : 50 * Math.min(Math.abs(x) / scale, 1);
  const part = make("i", { class: x < 0 ? "against" : "", style: { left: `${x < 0 ? 50 - length : 50}%`, width: `${length}%` } });
  return make("td", { class: "bar" }, make("div", { "aria-hidden": "true" }, part));
}

export function alertUser(message) {
  $("alert").textContent = message;
  $("alert").hidden = !message;
}

// Tabs, by the usual keys: the arrows choose, and only the chosen one is reached by Tab.
export function makeTabs(list, choose) {
  list.addEventListener("click", (event) => {
    const tab = event.target.closest("[role=tab]");
    if (tab) choose(tab);
  });
  list.addEventListener("keydown", (event) => {
    const tabs = [...list.querySelectorAll("[role=tab]")];
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = tabs[(tabs.indexOf(document.activeElement) + step + tabs.length) % tabs.length];
    choose(next);
    next.focus();
    event.preventDefault();
  });
}

export function select(list, tab) {
  for (const other of list.querySelectorAll("[role=tab]")) {
    other.setAttribute("aria-selected", other === tab);
    other.tabIndex = other === tab ? 0 : -1;
  }
}
