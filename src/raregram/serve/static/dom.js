// Small pieces of the page. Text only ever becomes text: nothing here, or anywhere else, parses a string as HTML.

export const $ = (id) => document.getElementById(id);

export function make(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else if (name === "style") Object.assign(node.style, value);
    else node.setAttribute(name, value === true ? "" : value);
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
  return (x < 0 ? "−" : "+") + Math.abs(x).toFixed(digits);
}

export function times(number) {
  const x = value(number);
  if (Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return "∞";
  return x >= 1000 || (x > 0 && x < 0.001) ? x.toExponential(1) : String(Number(x.toPrecision(3)));
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
