// The page of a comparison. Words only ever become text: by `make` and `append`, or on the canvas.

const LIST = { // the columns: a title, what it means, and digits behind the point, or null for significant ones
  ngram: ["N-gram", "the words"],
  per_million_a: ["A per million", "frequency per million words", null],
  per_million_b: ["B per million", "frequency per million words", null],
  log2_ratio: ["log2 ratio", "how many doublings likelier in A than in B: the posterior mean", 2],
  interval: ["95 % interval", "of the log2 ratio"],
  conservative: ["conservative", "by its own sightings alone: the end of the interval that is nearer to 0, or 0; rows are ranked by it", 2],
  documents_a: ["A documents", "how many documents have it", 0],
  documents_b: ["B documents", "how many documents have it", 0],
  q: ["adjusted p", "false discovery rate of G2 over its design effect", null],
  f_a: ["A frequency", "how often it occurs", 0],
  f_b: ["B frequency", "how often it occurs", 0],
  beyond: ["beyond its parts", "what the log2 ratio says beyond that of the parts", 2],
  g2_design: ["G2 / design", "G2 over the design effect, since words clump in documents", null],
  p: ["p", "of G2 over its design effect, not adjusted", null],
  g2: ["G2", "log-likelihood over the two cells", null],
  clr: ["conservative log ratio", "the field's: exact limits, corrected for the number of rows", 2],
  log_ratio: ["log ratio", "the field's: log2 of the relative frequencies", 2],
  simple_maths: ["simple maths", "relative frequencies plus 1 per million, divided", null],
  odds_ratio: ["odds ratio", "", null],
  zeta: ["Zeta", "share of documents in A less that in B", 3],
  fightin_words: ["Fightin' Words", "z-score of the log odds with an informative prior", 2],
};
const ESSENTIAL = 6; // columns at the left; the one that is sorted by follows
const SIGNED = new Set(["log2_ratio", "interval", "conservative", "beyond", "clr", "log_ratio", "simple_maths", "odds_ratio", "zeta", "fightin_words"]);
const KINDS = { positive: "More in A", negative: "More in B", lockword: "Alike", all: "All" };
const LABELS = 90; // on the plot at most
const FULL = 4; // the log2 ratio with the full colour
const WIDE = matchMedia("(min-width: 75rem)"); // room for the chosen row beside the plot
const state = { kind: "positive", length: 0, repeats: false, wanted: "", key: "conservative", down: true, active: 0, chosen: null };
const table = {}; // columns by name: arrays of numbers, and of texts
let facts, order = [], matches = new Uint8Array();
const lines = new Map(); // of some rows: those of both corpora, and their frequencies by document
const documents = [[], []]; // their names

async function inflate(text) {
  const letters = atob(text), bytes = new Uint8Array(letters.length);
  for (let at = 0; at < bytes.length; at += 1) bytes[at] = letters.charCodeAt(at);
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
}

async function start() {
  setTheme(read("theme") ?? "auto");
  const [head, ...rows] = (await inflate($("data").textContent)).split("\n");
  facts = JSON.parse(head);
  for (const [name, values] of Object.entries(facts.columns)) table[name] = ["ngram", "kind", "repeats"].includes(name) ? values : Float64Array.from(values, (x) => (x === null ? NaN : value(x)));
  derive();
  for (const row of rows.filter(Boolean)) {
    const [index, names, ...sides] = JSON.parse(row);
    names.forEach((more, side) => documents[side].push(...more));
    lines.set(index, sides);
  }
  drawHead();
  bind();
  update();
  if (WIDE.matches && order.length) open(order[0]);
  document.body.dataset.ready = "true";
}

function derive() {
  table.lower = table.ngram.map((text) => ` ${text.toLowerCase()} `); // spaces find the ends of words
  for (const [side, name] of ["a", "b"].entries()) table[`per_million_${name}`] = table[`f_${name}`].map((f, row) => (f ? f * facts.per_sighting[side][table.length[row]] : 0));
  table.interval = table.high.map((high, row) => high - table.low[row]);
}

const named = (text) => text.replace(/\b[AB]\b/g, (letter) => shown(facts.names["AB".indexOf(letter)]));
const show = (name, number) => (Number.isNaN(number) ? "–" : LIST[name][2] === null ? brief(number) : SIGNED.has(name) ? signed(number, LIST[name][2]) : count(number));
function brief(x) {
  if (!Number.isFinite(x)) return "∞";
  if (x !== 0 && x < 0.001) return x.toExponential(0).replace("e-", "e−");
  return x.toLocaleString("en", x >= 100 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 });
}
const sentence = (row) => {
  const x = table.log2_ratio[row];
  const [more, less, sign] = x < 0 ? [facts.names[1], facts.names[0], -1] : [...facts.names, 1];
  const ends = [table.low[row], table.high[row]].map((end) => times(2 ** (sign * end))).sort((a, b) => Number(a.replaceAll(",", "")) - Number(b.replaceAll(",", "")));
  return `About ${times(2 ** Math.abs(x))} times as frequent in ${shown(more)} as in ${shown(less)}; 95 % interval: ${ends[0]} to ${ends[1]} times`;
};

function drawHead() {
  const { names, tokens, rows } = facts;
  $("names").append(...names.flatMap((name, side) => [...(side ? [" ", make("span", { class: "soft" }, "against"), " "] : []), make("span", { class: "ab"[side] }, make("i"), make("bdi", {}, shown(name)), " ",
    make("small", { class: "soft" }, `${count(tokens[side])} words${facts.documents[side] ? `, ${count(facts.documents[side])} documents` : ""}`))]));
  $("note").textContent = facts.caution && `Caution: ${facts.caution}. `;
  if (rows > table.ngram.length) $("note").textContent += `The table has ${count(rows)} rows; this page shows the ${count(table.ngram.length)} with the strongest evidence. All of them are in table.csv and table.parquet.`;
  $("kinds").append(...Object.entries(KINDS).map(([kind, text]) => make("button", { type: "button", "data-kind": kind, onclick: () => choose({ kind, ...direction(state.key, kind) }) }, named(text))));
  const longest = table.length.reduce((a, b) => Math.max(a, b), 0);
  $("lengths").append(...Array.from({ length: longest + 1 }, (_, length) => make("button", { type: "button", "data-length": length, onclick: () => choose({ length }) }, length ? `${length}` : "all")));
  $("sort").append(...Object.entries(LIST).map(([name, [title]]) => make("option", { value: name }, named(title))));
  $("repeats").closest("label").title = "Rows that say no more than a shorter or longer row of the table.";
  $("scale").append(make("bdi", {}, named("B")), "× 16", make("i"), make("bdi", {}, named("A")), "× 16");
}

// A high value comes first, but p-values and what is more in B begin with the lowest.
const direction = (key, kind) => ({ key, down: !["p", "q", "ngram"].includes(key) && !(SIGNED.has(key) && key !== "interval" && kind === "negative") });

function choose(change) {
  Object.assign(state, change, { active: 0 });
  $("grid").scrollTop = 0;
  update();
}

function update() {
  const { kind, length, repeats, wanted, key, down } = state;
  const words = wanted.toLowerCase();
  const found = [];
  matches = new Uint8Array(table.ngram.length);
  for (let row = 0; row < matches.length; row += 1) {
    if ((kind !== "all" && table.kind[row] !== kind) || (length && table.length[row] !== length) || (!repeats && table.repeats[row] !== null) || !table.lower[row].includes(words)) continue;
    matches[row] = 1;
    found.push(row);
  }
  const column = table[key], sign = down ? -1 : 1, last = (x) => (Number.isNaN(x) ? sign * -Infinity : x);
  if (key === "ngram") found.sort((a, b) => sign * (table.lower[a] < table.lower[b] ? -1 : table.lower[a] > table.lower[b] ? 1 : a - b));
  else found.sort((a, b) => { const x = last(column[a]), y = last(column[b]); return x === y ? (down ? a - b : b - a) : sign * (x < y ? -1 : 1); });
  order = found;
  for (const button of document.querySelectorAll("[data-kind], [data-length]")) button.setAttribute("aria-pressed", (button.dataset.kind ?? Number(button.dataset.length)) === (button.dataset.kind ? kind : length));
  $("sort").value = key;
  $("status").textContent = `${count(order.length)} of ${count(table.ngram.length)} rows`;
  drawColumns();
  drawRows();
  requestAnimationFrame(drawPlot);
}

// --- the table: only the rows in view are drawn ------------------------------------------------------------------
let shownColumns = [], drawn = -1;

function drawColumns() {
  const names = Object.keys(LIST), first = names.slice(0, ESSENTIAL);
  shownColumns = [...first, ...(first.includes(state.key) ? [] : [state.key]), ...names.slice(ESSENTIAL).filter((name) => name !== state.key)];
  const narrow = innerWidth < 500;
  const wide = { ngram: narrow ? 8 : 9.5, interval: 6, log2_ratio: 4.2, per_million_a: 4.8, per_million_b: 4.8 };
  const widths = shownColumns.map((name) => wide[name] ?? 6.4);
  document.querySelector("#grid colgroup").replaceChildren(...widths.map((width) => make("col", { style: { width: `${width}rem` } })));
  document.querySelector("#grid table").style.width = `${widths.reduce((a, b) => a + b)}rem`;
  document.querySelector("#grid thead").replaceChildren(make("tr", { role: "row", "aria-rowindex": null }, shownColumns.map((name) => {
    const [title, meaning] = LIST[name], side = /_([ab])$/.exec(name)?.[1];
    const sorted = name === state.key ? (state.down ? "descending" : "ascending") : null;
    const press = () => choose(name === state.key ? { down: !state.down } : direction(name, state.kind));
    return make("th", { role: "columnheader", "aria-sort": sorted, class: side, scope: "col" },
      make("button", { type: "button", tabindex: -1, title: named(meaning), onclick: press }, side ? [make("i"), make("bdi", {}, named(title[0])), make("br")] : null, side ? title.slice(2).replace("per ", "/ ") : title, sorted ? (state.down ? " ▾" : " ▴") : ""));
  })));
  $("grid").setAttribute("aria-rowcount", order.length + 1);
}

const reach = (row) => { // the interval on a scale of its own kind
  const [from, to] = { positive: [-1, 8], negative: [-8, 1] }[state.kind] ?? [-6, 6], at = (x) => Math.max(0, Math.min(100, (100 * (x - from)) / (to - from)));
  const [low, middle, high] = [table.low[row], table.log2_ratio[row], table.high[row]].map(at);
  return make("span", { class: `reachbar ${table.log2_ratio[row] < 0 ? "b" : "a"}`, "--zero": `${at(0)}%`, title: `${signed(table.low[row])} to ${signed(table.high[row])}` },
    make("i", { style: { left: `${low}%`, width: `${high - low}%` } }), make("b", { style: { left: `${middle}%` } }));
};

function cell(name, row) {
  if (name === "ngram") return make("td", { role: "rowheader", title: shown(table.ngram[row]) }, make("bdi", {}, shown(table.ngram[row])));
  return make("td", { role: "gridcell", class: name === "log2_ratio" ? "ratio" : null }, name === "interval" ? reach(row) : show(name, table[name][row]));
}

function drawRows(scrolled = false) {
  const grid = $("grid"), high = rowHeight(), body = grid.querySelector("tbody");
  const first = Math.max(0, 8 * Math.floor(grid.scrollTop / high / 8) - 8), last = Math.min(order.length, first + Math.ceil(grid.clientHeight / high) + 24);
  if (scrolled && first === drawn) return;
  drawn = first;
  const space = (size) => make("tr", { class: "space", "aria-hidden": "true" }, make("td", { colspan: shownColumns.length, style: { height: `${size * high}px` } }));
  const rows = order.slice(first, last).map((row, offset) => make("tr", {
    role: "row", id: `r${first + offset}`, "data-row": row, "aria-rowindex": first + offset + 2,
    class: table.repeats[row] === null ? null : "repeat", onclick: () => { state.active = first + offset; open(row); },
  }, shownColumns.map((name) => cell(name, row))));
  body.replaceChildren(...(order.length ? [space(first), ...rows, space(order.length - last)] : [make("tr", { class: "none" }, make("td", { colspan: 5 }, "No row fits. Change the search, or what is shown."))]));
  mark();
}

// Show which row is the active one, and which is open.
function mark() {
  for (const tr of document.querySelectorAll("#grid tr[data-row]")) {
    tr.setAttribute("aria-selected", Number(tr.dataset.row) === state.chosen);
    tr.classList.toggle("active", tr.id === `r${state.active}`);
  }
  if (order.length) $("grid").setAttribute("aria-activedescendant", `r${state.active}`);
  else $("grid").removeAttribute("aria-activedescendant");
}

const rowHeight = () => parseFloat(getComputedStyle(document.documentElement).fontSize) * parseFloat(getComputedStyle($("grid")).getPropertyValue("--row"));

function move(to) {
  const grid = $("grid"), high = rowHeight(), head = grid.querySelector("thead").offsetHeight;
  state.active = Math.max(0, Math.min(order.length - 1, to));
  const top = state.active * high, page = grid.clientHeight - head;
  if (top < grid.scrollTop) grid.scrollTop = top;
  else if (top + high > grid.scrollTop + page) grid.scrollTop = top + high - page;
  if (state.chosen !== null && order.length) open(order[state.active]);
  drawRows(true);
  mark();
}

// --- the plot ----------------------------------------------------------------------------------------------------
const plot = { points: new Float32Array(), labels: [], row: null };

// Per million on a log scale; zero has an edge of its own. Points of equal frequencies are spread a little.
function axis(name, from, to) {
  const seen = table[name].filter((x) => x > 0);
  const low = Math.floor(Math.log10(seen.reduce((a, b) => Math.min(a, b), Infinity)) * 4) / 4, high = Math.log10(seen.reduce((a, b) => Math.max(a, b), 0)) + 0.08;
  const zero = from + Math.sign(to - from) * 14, begin = from + Math.sign(to - from) * 34;
  const at = (x) => (x > 0 ? begin + ((Math.log10(x) - low) / (high - low || 1)) * (to - begin) : zero);
  const ticks = Array.from({ length: Math.max(0, Math.floor(high) - Math.ceil(low) + 1) }, (_, step) => 10 ** (Math.ceil(low) + step));
  return { at, zero, begin, ticks, low, high };
}

function drawPlot() {
  const canvas = document.querySelector("#plot canvas"), pen = canvas.getContext("2d"), ratio = devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (!width || !height || !facts || !table.ngram.length) return;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  pen.scale(ratio, ratio);
  const style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const box = { left: 68, right: width - 12, top: 10, bottom: height - 40 };
  const x = axis("per_million_b", box.left, box.right), y = axis("per_million_a", box.bottom, box.top);
  drawAxes(pen, box, x, y, colour);
  const size = table.ngram.length, points = (plot.points = new Float32Array(2 * size));
  for (let row = 0; row < size; row += 1) {
    const angle = 2.399963 * row, far = Math.sqrt((0.7548777 * row) % 1), spread = (f) => (f < 12 ? far * (f ? 6 : 9) : 0);
    points[2 * row] = x.at(table.per_million_b[row]) + spread(table.f_b[row]) * Math.cos(angle);
    points[2 * row + 1] = y.at(table.per_million_a[row]) + spread(table.f_a[row]) * Math.sin(angle);
  }
  const dot = (row, radius) => { pen.moveTo(points[2 * row] + radius, points[2 * row + 1]); pen.arc(points[2 * row], points[2 * row + 1], radius, 0, 7); };
  const buckets = new Map();
  for (let row = 0; row < size; row += 1) {
    const step = matches[row] ? Math.round(10 * Math.max(-1, Math.min(1, table.log2_ratio[row] / FULL))) : NaN;
    if (!buckets.has(step)) buckets.set(step, []);
    buckets.get(step).push(row);
  }
  for (const step of [...buckets.keys()].sort((a, b) => (Number.isNaN(a) ? -1 : Number.isNaN(b) ? 1 : Math.abs(a) - Math.abs(b)))) {
    const other = Number.isNaN(step);
    pen.globalAlpha = other ? 0.35 : 0.8;
    pen.fillStyle = other ? colour("line") : `color-mix(in oklab, ${colour(step < 0 ? "b" : "a")} ${20 + 8 * Math.abs(step)}%, #a3acb5)`;
    pen.beginPath();
    for (const row of buckets.get(step)) other ? pen.rect(points[2 * row] - 1, points[2 * row + 1] - 1, 2.2, 2.2) : dot(row, 2.3);
    pen.fill();
  }
  pen.globalAlpha = 1;
  drawLabels(pen, box, colour);
  drawRings();
  canvas.labels = plot.labels;
  canvas.setAttribute("aria-label", named(`${count(order.length)} rows by their frequency per million in A (upwards) and in B (to the right). The table has the same rows.`));
}

// Around the point under the pointer, and that of the chosen row.
function drawRings() {
  const canvas = document.querySelector("#plot canvas");
  for (const [place, ring] of document.querySelectorAll(".ring").entries()) {
    const row = [plot.row, state.chosen][place];
    ring.hidden = row === null;
    ring.dataset.text = place && row !== null ? shown(table.ngram[row]).slice(0, 40) : "";
    if (row !== null) Object.assign(ring.style, { left: `${canvas.offsetLeft + plot.points[2 * row]}px`, top: `${canvas.offsetTop + plot.points[2 * row + 1]}px` });
  }
}

function drawAxes(pen, box, x, y, colour) {
  pen.font = "12px system-ui, sans-serif";
  pen.strokeStyle = colour("line");
  pen.fillStyle = colour("soft");
  pen.lineWidth = 1;
  pen.beginPath();
  for (const tick of x.ticks) { pen.moveTo(x.at(tick), box.top); pen.lineTo(x.at(tick), box.bottom); }
  for (const tick of y.ticks) { pen.moveTo(box.left, y.at(tick)); pen.lineTo(box.right, y.at(tick)); }
  pen.moveTo((x.zero + x.begin) / 2 + 2, box.top); pen.lineTo((x.zero + x.begin) / 2 + 2, box.bottom);
  pen.moveTo(box.left, (y.zero + y.begin) / 2 - 2); pen.lineTo(box.right, (y.zero + y.begin) / 2 - 2);
  pen.stroke();
  pen.setLineDash([5, 5]); // where both are equal
  pen.strokeStyle = colour("soft");
  pen.beginPath();
  const [low, high] = [Math.max(x.low, y.low), Math.min(x.high, y.high)].map((power) => 10 ** power);
  pen.moveTo(x.at(low), y.at(low)); pen.lineTo(x.at(high), y.at(high));
  pen.stroke();
  pen.setLineDash([]);
  const number = (tick) => tick.toLocaleString("en", { maximumSignificantDigits: 1 });
  pen.textAlign = "center";
  for (const [at, text] of [[x.zero, "0"], ...x.ticks.map((tick) => [x.at(tick), number(tick)])]) pen.fillText(text, at, box.bottom + 15);
  pen.textAlign = "right";
  for (const [at, text] of [[y.zero, "0"], ...y.ticks.map((tick) => [y.at(tick), number(tick)])]) pen.fillText(text, box.left - 5, at + 4);
  pen.textAlign = "center";
  pen.font = "600 12px system-ui, sans-serif";
  const [a, b] = facts.names.map((name) => `${shown(name).slice(0, 40)}, per million`);
  pen.fillStyle = colour("b");
  pen.fillText(b, (box.left + box.right) / 2, box.bottom + 33);
  pen.save();
  pen.translate(14, (box.top + box.bottom) / 2);
  pen.rotate(-Math.PI / 2);
  pen.fillStyle = colour("a");
  pen.fillText(a, 0, 0);
  pen.restore();
}

// The strongest rows first, each at the first side of its point where there is room.
function drawLabels(pen, box, colour) {
  const strength = (row) => Math.abs(table.conservative[row]) + (table.kind[row] === "lockword" ? 0.02 * Math.log(1 + table.f_a[row] + table.f_b[row]) : 0);
  const ranked = order.length > 3000 ? order.filter((row) => table.kind[row]) : order;
  const wanted = ranked.map((row) => [strength(row), row]).sort((p, q) => q[0] - p[0] || p[1] - q[1]).slice(0, 600).map(([, row]) => row);
  pen.font = "12px system-ui, sans-serif";
  pen.textAlign = "left";
  pen.lineJoin = "round";
  plot.labels = [];
  const most = Math.min(LABELS, ((box.right - box.left) * (box.bottom - box.top)) / 4500);
  for (const row of wanted) {
    if (plot.labels.length >= most) break;
    const text = shown(table.ngram[row]).slice(0, 40), wide = pen.measureText(text).width + 4, px = plot.points[2 * row], py = plot.points[2 * row + 1];
    for (const [left, top] of [[px + 5, py - 8], [px - 5 - wide, py - 8], [px - wide / 2, py - 20], [px - wide / 2, py + 4]]) {
      const label = { row, text, left, top, right: left + wide, bottom: top + 16 };
      if (left < box.left || label.right > box.right + 8 || top < box.top - 6 || label.bottom > box.bottom) continue;
      if (plot.labels.some((other) => label.left < other.right && other.left < label.right && label.top < other.bottom && other.top < label.bottom)) continue;
      plot.labels.push(label);
      break;
    }
  }
  for (const { text, left, top } of plot.labels) {
    pen.strokeStyle = colour("card");
    pen.lineWidth = 3;
    pen.strokeText(text, left + 2, top + 12);
    pen.fillStyle = colour("ink");
    pen.fillText(text, left + 2, top + 12);
  }
}

// The row whose label is there, or else the nearest point.
function rowAt(px, py) {
  const label = plot.labels.find(({ left, right, top, bottom }) => px >= left && px <= right && py >= top && py <= bottom);
  if (label) return label.row;
  let best = null, nearest = 14 ** 2;
  for (const row of order) {
    const distance = (plot.points[2 * row] - px) ** 2 + (plot.points[2 * row + 1] - py) ** 2;
    if (distance < nearest) [best, nearest] = [row, distance];
  }
  return best;
}

function point(event) {
  const row = rowAt(event.offsetX, event.offsetY), tip = $("tip");
  plot.row = row;
  drawRings();
  tip.hidden = row === null;
  if (row === null) return;
  tip.replaceChildren(make("bdi", {}, shown(table.ngram[row])), ...facts.names.flatMap((name, side) => [`${shown(name)} ${brief(table[`per_million_${"ab"[side]}`][row])}`, side ? "" : " · "]), make("br"), `log2 ratio ${signed(table.log2_ratio[row])}`);
  const { offsetWidth: wide } = tip, all = $("plot").clientWidth;
  Object.assign(tip.style, { left: `${Math.max(4, Math.min(all - wide - 4, event.offsetX + 16))}px`, top: `${event.offsetY + 22}px` });
}

// --- the chosen row ----------------------------------------------------------------------------------------------
function open(row) {
  state.chosen = row;
  const panel = $("row"), [low, middle, high] = [table.low[row], table.log2_ratio[row], table.high[row]];
  const repeats = table.repeats[row];
  panel.hidden = false;
  panel.replaceChildren(...[
    make("button", { type: "button", class: "close small", "aria-label": "Close", onclick: close }, "✕"),
    make("h2", {}, make("bdi", {}, shown(table.ngram[row]))),
    make("p", { role: "status" }, sentence(row)),
    repeats === null ? null : make("p", { class: "soft" }, "It says no more than ", make("button", { type: "button", class: "small", onclick: () => find(repeats) }, make("bdi", {}, shown(repeats))), "."),
    whisker(low, middle, high),
    ...["a", "b"].flatMap((name, side) => drawSide(row, name, side)),
    make("h3", {}, "Measures"),
    make("dl", {}, Object.entries(LIST).slice(5).filter(([name]) => !/_[ab]$/.test(name)).map(([name, [title, meaning]]) => make("div", { title: named(meaning) }, make("dt", {}, title), make("dd", {}, show(name, table[name][row]))))),
  ].filter(Boolean));
  panel.scrollTop = 0;
  mark();
  drawRings();
}

function whisker(low, middle, high) {
  const [from, to] = [Math.min(low, 0), Math.max(high, 0)], at = (x) => 12 + (76 * (x - from)) / (to - from || 1);
  return make("div", { class: `whisker ${middle < 0 ? "b" : "a"}`, "aria-hidden": "true" },
    make("span", { class: "zero", style: { left: `${at(0)}%` } }, make("span", {}, "0 (equal)")),
    make("span", { class: "reach", style: { left: `${at(low)}%`, width: `${at(high) - at(low)}%` } }), make("span", { class: "point", style: { left: `${at(middle)}%` } }),
    make("span", { class: "lower", style: { right: `${100 - at(low)}%` } }, signed(low)), make("span", { class: "upper", style: { left: `${at(high)}%` } }, signed(high)));
}

function drawSide(row, name, side) {
  const f = table[`f_${name}`][row], has = table[`documents_${name}`][row], all = facts.documents[side];
  const summary = `${count(f)} (${brief(table[`per_million_${name}`][row])} per million)${all ? ` in ${count(has)} of ${count(all)} documents (${brief((100 * has) / all)} %)` : ""}`;
  const head = make("h3", { class: name }, make("i"), make("bdi", {}, shown(facts.names[side])), " ", make("span", { class: "soft" }, summary));
  const kept = lines.get(row)?.[side];
  if (!f) return [head];
  if (!kept) return [head, make("p", { class: "soft" }, "This page keeps no lines for this row. The command raregram kwic prints them.")];
  const [some, frequencies] = kept;
  const drawn = some.map(([document, position, left, match, right]) => make("div", { role: "listitem" },
    make("span", { class: "document", title: `${shown(documents[side][document])}, position ${count(position)}` }, make("bdi", {}, shown(documents[side][document]))),
    make("span", { class: "left" }, make("bdi", {}, left)), " ", make("b", {}, make("bdi", {}, match)), " ", make("span", { class: "right" }, make("bdi", {}, right))));
  return [head, spread(side, name, frequencies, has), make("div", { class: `lines ${name}`, role: "list", "aria-label": `Lines of ${shown(facts.names[side])}` }, drawn)];
}

// A bar for each document in the order of the names; those that this page does not know by name have none.
function spread(side, name, frequencies, has) {
  const order = places(side), all = Math.max(facts.documents[side], order.size), most = Math.max(...frequencies.map(([, f]) => f));
  const node = (tag, properties, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, text] of Object.entries(properties)) made.setAttribute(key, text);
    made.append(...children);
    return made;
  };
  const wide = Math.max(1, 600 / all);
  const bars = frequencies.map(([document, f]) => node("rect", { x: ((order.get(document) * 600) / all).toFixed(2), width: Math.max(1.2, wide * 0.85).toFixed(2), y: (46 - 44 * f / most).toFixed(1), height: (44 * f / most).toFixed(1) },
    node("title", {}, `${shown(documents[side][document])}: ${count(f)}`)));
  const some = frequencies.length < has ? `; the ${count(frequencies.length)} with most of them are shown` : "";
  return make("div", {}, node("svg", { class: `spread ${name}`, viewBox: "0 0 600 48", preserveAspectRatio: "none", role: "img", "aria-label": `Spread over ${count(has)} documents` }, ...bars),
    make("div", { class: "soft" }, `all ${count(all)} documents by name; at most ${count(most)} in one of them${some}`));
}

const placed = [null, null];
function places(side) {
  const { compare } = new Intl.Collator("en", { numeric: true }), names = documents[side];
  return (placed[side] ??= new Map(names.map((_, index) => index).sort((i, j) => compare(names[i], names[j])).map((index, place) => [index, place])));
}

function find(text) {
  const row = table.ngram.indexOf(text);
  if (row >= 0) open(row);
}

function close() {
  state.chosen = null;
  $("row").hidden = true;
  mark();
  drawRings();
  $("grid").focus({ preventScroll: true });
}

// --- keys, pointer and theme -------------------------------------------------------------------------------------
function keys(event) {
  const page = Math.max(1, Math.floor($("grid").clientHeight / rowHeight()) - 2);
  const to = { ArrowDown: state.active + 1, ArrowUp: state.active - 1, PageDown: state.active + page, PageUp: state.active - page, Home: 0, End: order.length - 1 }[event.key];
  if (to !== undefined) move(to);
  else if (event.key === "Enter" && order.length && event.target === $("grid")) open(order[state.active]);
  else return;
  event.preventDefault();
}

function bind() {
  const canvas = document.querySelector("#plot canvas");
  $("filters").addEventListener("submit", (event) => event.preventDefault());
  $("search").addEventListener("input", (event) => choose({ wanted: event.target.value }));
  $("search").addEventListener("keydown", (event) => { if (["ArrowDown", "Enter"].includes(event.key)) { event.preventDefault(); $("grid").focus(); } });
  $("sort").addEventListener("change", (event) => choose(direction(event.target.value, state.kind)));
  $("repeats").addEventListener("change", (event) => choose({ repeats: event.target.checked }));
  $("grid").addEventListener("scroll", () => requestAnimationFrame(() => drawRows(true)), { passive: true });
  $("grid").addEventListener("keydown", keys);
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerleave", () => { $("tip").hidden = true; plot.row = null; drawRings(); });
  canvas.addEventListener("click", (event) => { const row = rowAt(event.offsetX, event.offsetY); if (row !== null) { const place = order.indexOf(row); state.chosen = row; move(place); } });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !$("row").hidden) { event.preventDefault(); close(); }
    if (event.key === "/" && !event.target.closest("input, select")) { event.preventDefault(); $("search").select(); }
  });
  $("theme").addEventListener("click", () => {
    const next = { auto: "dark", dark: "light", light: "auto" }[document.documentElement.dataset.choice];
    setTheme(next);
    try { localStorage.setItem("theme", next); } catch { /* it lasts as long as the page */ }
  });
  system.addEventListener("change", () => setTheme(document.documentElement.dataset.choice));
  new ResizeObserver(() => { drawRows(); drawPlot(); }).observe($("plot"));
  document.fonts?.ready.then(drawPlot);
}

function read(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

const system = matchMedia("(prefers-color-scheme: dark)");
function setTheme(choice) {
  const root = document.documentElement;
  root.dataset.choice = choice;
  root.dataset.theme = choice === "auto" ? (system.matches ? "dark" : "light") : choice;
  $("theme").title = `Theme: ${choice}`;
  drawPlot();
}

start().catch((error) => alertUser(`This page cannot be shown: ${error.message}`));
