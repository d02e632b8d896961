// The page: what is typed goes to the heat map, a gap to its explanation, and the tabs to the other views.

import { $, alertUser, count, make, makeTabs, select } from "./dom.js";
import { HeatMap, NARROW, drawScale } from "./heat.js";
import { ModelView } from "./models.js";
import { Ranking } from "./rank.js";
import { ask } from "./service.js";
import { APART, Scores, readText, setRules, spaces } from "./text.js";
import { Why } from "./why.js";

const EXAMPLE = `Finance ministers of the seven largest industrial nations will hold two days of talks next month in Paris, a spokesman for the Treasury said. The meeting was called after Prime Minister Nakasone told reporters in Tokyo that the dollar had fallen far enough. Officials from West Germany and Japan are expected to be there, but a source close to the talks said that Treasury Secretary James Baker may stay in Washington.`;
const PAUSE = 120; // milliseconds without a key before the service is asked
const state = { models: [], kind: "words", hidden: new Set(), scores: null, timer: 0, running: null };
const why = new Why($("why"), (error) => alertUser(error.message), () => { heat.current = null; heat.mark(); });
const heat = new HeatMap($("heat"), (boundary) => explain(boundary));

async function start() {
  setTheme(read("theme") ?? "auto");
  $("theme").addEventListener("click", nextTheme);
  const found = await ask("/api/models");
  if (found.words) setRules(found.words);
  state.models = found.models.map((model, place) => ({ ...model, kind: model.tokenize === "words" ? APART : model.kind, label: model.name, colour: `k${place % 6}` }));
  state.kind = state.models[0].kind;
  state.ranking = new Ranking(state.models, found.max_bytes, () => $("text").value, (items, model) => { open("read"); why.explain(items, model); });
  state.modelView = new ModelView(state.models);
  makeTabs($("views"), (tab) => open(tab.getAttribute("aria-controls")));
  $("text").addEventListener("input", () => soon(PAUSE));
  $("sample").addEventListener("click", () => fill(EXAMPLE));
  $("clear").addEventListener("click", () => { fill(""); $("text").focus(); });
  document.addEventListener("dragover", (event) => { if (event.dataTransfer.types.includes("Files")) event.preventDefault(); });
  document.addEventListener("drop", drop);
  $("scale").replaceChildren(...drawScale());
  drawKinds();
  newScores();
  if (!$("text").value) $("text").value = EXAMPLE; // so that there is something to see
  soon(0);
}

// A file is ranked or, in the other views, read.
async function drop(event) {
  const files = event.dataTransfer.files;
  if (!files.length) return;
  event.preventDefault();
  if (!$("rank").hidden) return state.ranking.take(files);
  open("read");
  await readText(files[0]).then(fill, (error) => alertUser(error.message));
}

function fill(text) {
  $("text").value = text;
  heat.current = null;
  why.clear();
  soon(0);
}

function soon(milliseconds) {
  clearTimeout(state.timer);
  state.timer = setTimeout(update, milliseconds);
}

async function update() {
  state.running?.abort();
  const running = (state.running = new AbortController());
  const text = $("text").value;
  const scores = state.scores;
  try {
    $("status").textContent = "…";
    await scores.update(text, running.signal);
    if (scores !== state.scores || running.signal.aborted) return;
    alertUser("");
    draw(text);
    if (heat.current === null && !NARROW.matches) heat.current = heat.first();
    heat.mark();
    if (heat.current !== null) explain(heat.current);
    else why.clear(text.trim() && heat.first() === null ? "No gap of this text has a context yet. Write more." : undefined);
  } catch (error) {
    if (error.name === "AbortError") return;
    $("status").textContent = "";
    alertUser(error.message);
  }
}

function draw(text = $("text").value) {
  const { items, scores } = state.scores;
  $("status").textContent = items.length ? `${count(items.length)} ${state.kind}` : "";
  if (scores) heat.show(items, spaces(text.toWellFormed ? text.toWellFormed() : text, state.kind), scores, shownModels());
}

const ofKind = () => state.models.filter((model) => model.kind === state.kind);
const shownModels = () => ofKind().filter((model) => !state.hidden.has(model.name));

function explain(boundary) {
  const { items, scores } = state.scores;
  why.show(items, boundary, shownModels().filter((model) => scores[model.name][boundary] !== null), why.chosen);
}

// Say what a high stripe means, for the models that are shown.
function drawHint() {
  const compared = new Map(); // what is elsewhere for some models, with what is here for each of them
  for (const { here, elsewhere } of shownModels()) compared.set(elsewhere, (compared.get(elsewhere) ?? new Set()).add(here));
  const likelier = [...compared].map(([elsewhere, here]) => `${[...here].join(" or ")} than ${elsewhere}`).join(", or ");
  $("hint").textContent = `A stripe is high where the context is likelier ${likelier}. Click a gap, or use the arrow keys, to see why.`;
}

function newScores() {
  state.scores = new Scores(state.models, state.kind);
  $("legend").replaceChildren(...ofKind().map((model) => make("button", {
    type: "button", class: `chip ${model.colour}`, "aria-pressed": !state.hidden.has(model.name),
    title: `${model.settings}; contexts of ${model.n} ${model.kind} on the ${model.side}`, onclick: (event) => toggle(model, event.currentTarget),
  }, make("i"), model.label)));
  drawHint();
}

function toggle(model, chip) {
  const hide = !state.hidden.has(model.name);
  if (hide && shownModels().length === 1) return; // one stays
  if (hide) state.hidden.add(model.name);
  else state.hidden.delete(model.name);
  chip.setAttribute("aria-pressed", !hide);
  drawHint();
  draw();
}

function drawKinds() {
  const kinds = [...new Set(state.models.map((model) => model.kind))];
  $("kinds").hidden = kinds.length < 2;
  $("kinds").replaceChildren(...kinds.map((kind) => make("button", { type: "button", "aria-pressed": kind === state.kind, onclick: () => {
    state.kind = kind;
    heat.current = null;
    why.clear();
    drawKinds();
    newScores();
    soon(0);
  } }, kind)));
}

function open(view) {
  for (const panel of document.querySelectorAll("main > section")) panel.hidden = panel.id !== view;
  select($("views"), $(`tab-${view}`));
  alertUser("");
  if (view === "models") state.modelView.show();
}

function nextTheme() {
  const next = { auto: "dark", dark: "light", light: "auto" }[document.documentElement.dataset.choice];
  setTheme(next);
  try { localStorage.setItem("theme", next); } catch { /* it lasts as long as the page */ }
}

function read(name) {
  try { return localStorage.getItem(name); } catch { return null; }
}

const system = matchMedia("(prefers-color-scheme: dark)");
system.addEventListener("change", () => setTheme(document.documentElement.dataset.choice));

function setTheme(choice) {
  const root = document.documentElement;
  root.dataset.choice = choice;
  root.dataset.theme = choice === "auto" ? (system.matches ? "dark" : "light") : choice;
  $("theme").title = `Theme: ${choice}`;
}

start().then(() => { document.body.dataset.ready = "true"; }, (error) => alertUser(error.message));
