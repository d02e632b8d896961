// Requests to the service this page came from, and nobody else.

import { $ } from "./dom.js";

let token = takeToken();

// A token comes behind the # of the address, is kept as long as the tab is open, and leaves the address at once.
function takeToken() {
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) {
    history.replaceState(null, "", location.pathname);
    remember(given);
    return given;
  }
  try { return sessionStorage.getItem("token"); } catch { return null; }
}

function remember(given) {
  try { sessionStorage.setItem("token", given); } catch { /* then it is asked for again next time */ }
}

async function askForToken() {
  const dialog = $("token-dialog");
  if (!dialog.open) dialog.showModal();
  await new Promise((done) => dialog.addEventListener("close", done, { once: true }));
  token = $("token").value;
  remember(token);
}

export async function ask(path, request, signal) {
  const options = { method: request ? "POST" : "GET", headers: {}, signal };
  if (request) {
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(request);
  }
  if (token) options.headers.Authorization = `Bearer ${token}`;
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The service does not answer. Is `raregram serve` still running?");
  }
  if (response.status === 401) {
    await askForToken();
    return ask(path, request, signal);
  }
  const content = await response.json().catch(() => null);
  if (response.ok && content) return content;
  throw new Error(content?.error?.message ?? `The service answered with status ${response.status}.`);
}
