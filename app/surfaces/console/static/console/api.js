// Calls to the server: with the key, and with its errors as words.

import { $ } from "./dom.js";

const KEY = "firstword-key";
let memoryKey = ""; // where storage is blocked
let asking = null; // the promise of the open dialog; one for all calls that wait for it

export class ApiError extends Error {
  /** status 0: the server was not reached. */
  constructor(message, status, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

export function getKey() {
  try {
    return sessionStorage.getItem(KEY) ?? memoryKey;
  } catch {
    return memoryKey;
  }
}

export function setKey(key) {
  memoryKey = key;
  try {
    if (key) sessionStorage.setItem(KEY, key);
    else sessionStorage.removeItem(KEY);
  } catch {
    // Kept in memory alone.
  }
  document.dispatchEvent(new CustomEvent("key-changed"));
}

/** Open the dialog; whether a key was given. */
export function askForKey(reason) {
  asking ??= new Promise((resolve) => {
    const dialog = $("key-dialog");
    $("key-reason").textContent = reason;
    $("key-input").value = getKey();
    dialog.returnValue = "";
    $("key-cancel").onclick = () => dialog.close("");
    dialog.addEventListener(
      "close",
      () => {
        asking = null;
        const isGiven = dialog.returnValue === "ok";
        if (isGiven) setKey($("key-input").value.trim());
        resolve(isGiven);
      },
      { once: true },
    );
    dialog.showModal();
    $("key-input").focus();
  });
  return asking;
}

/** Call the server. The response is a success; else ApiError. A 401 asks for a key and calls again. */
export async function call(path, options = {}) {
  for (;;) {
    const key = getKey();
    const headers = new Headers(options.headers);
    if (key) headers.set("Authorization", `Bearer ${key}`);
    let response;
    try {
      response = await fetch(path, { cache: "no-store", ...options, headers });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The server does not answer. Is it running, and is this computer online?", 0, "unreachable");
    }
    if (response.ok) return response;
    const error = await errorOf(response);
    if (response.status !== 401) throw error;
    if (key !== getKey()) continue; // another call was given a new key meanwhile
    const reason = key
      ? "The server does not know this key. Check it, or ask for a new one."
      : "This server asks for a key. It is kept in this tab until you close it.";
    if (!(await askForKey(reason))) throw error;
  }
}

export async function getJson(path, options) {
  return (await call(path, options)).json();
}

export function postJson(path, body, options = {}) {
  return call(path, {
    method: "POST",
    ...options,
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(body),
  });
}

async function errorOf(response) {
  let error;
  try {
    error = (await response.json()).error;
  } catch {
    error = undefined; // a proxy's page, no answer of this server
  }
  if (!error?.message) return new ApiError(`The server answers with status ${response.status}.`, response.status, "");
  return new ApiError(sentence(error.message), response.status, error.code);
}

/** The server's messages begin in lower case. */
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");

export function socketUrl() {
  const url = new URL("/tts/stream", location.href);
  url.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  if (getKey()) url.searchParams.set("api_key", getKey());
  return url;
}
