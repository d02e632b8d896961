// The page of the interface: what /openapi.json says, readable, and each request ready to be tried.

import { $, alertUser, make } from "./dom.js";
import { ask } from "./service.js";

document.documentElement.dataset.theme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";

async function start() {
  const described = await ask("/openapi.json");
  const cards = [make("div", { class: "card" }, make("h2", {}, `${described.info.title} ${described.info.version}`), make("p", { class: "soft" }, described.info.description))];
  for (const [path, methods] of Object.entries(described.paths)) {
    for (const [method, operation] of Object.entries(methods)) cards.push(draw(path, method, operation, described));
  }
  $("operations").replaceChildren(...cards.flatMap((card) => [card, make("p")]));
}

function draw(path, method, operation, described) {
  const schema = resolve(operation.requestBody?.content["application/json"].schema, described);
  const response = resolve(operation.responses["200"]?.content?.["application/json"]?.schema, described);
  const result = make("pre", { hidden: true, "aria-live": "polite" });
  const body = schema ? make("textarea", { rows: 4, spellcheck: "false", "aria-label": "The request" }) : null;
  if (body) body.value = JSON.stringify(schema.examples?.[0] ?? {}, null, 2);
  const target = make("input", { value: path, "aria-label": "Path", size: 40 });
  const go = async () => {
    result.hidden = false;
    try {
      result.textContent = JSON.stringify(await ask(target.value, body ? JSON.parse(body.value) : null), null, 1).slice(0, 20000);
    } catch (error) {
      result.textContent = error.message;
    }
  };
  const problems = Object.entries(operation.responses).filter(([status]) => status !== "200");
  return make("div", { class: "card" },
    make("h2", {}, make("span", { class: "method" }, method.toUpperCase()), path),
    make("p", {}, operation.summary === operation.description || !operation.description ? operation.summary : operation.description),
    schema ? make("details", {}, make("summary", { class: "soft" }, "request"), make("pre", {}, JSON.stringify(schema, null, 1))) : "",
    response ? make("details", {}, make("summary", { class: "soft" }, "response"), make("pre", {}, JSON.stringify(response, null, 1))) : "",
    problems.length ? make("details", {}, make("summary", { class: "soft" }, "errors"), make("ul", {}, problems.map(([status, said]) => make("li", {}, `${status}: ${said.description}`)))) : "",
    body ?? (path.includes("{") ? target : ""),
    make("p", {}, make("button", { type: "button", class: "small", onclick: go }, "Try")), result);
}

// The schema that a reference names, one level deep.
function resolve(schema, described) {
  const name = schema?.$ref?.split("/").at(-1);
  return name ? described.components.schemas[name] : schema;
}

start().catch((error) => alertUser(error.message));
