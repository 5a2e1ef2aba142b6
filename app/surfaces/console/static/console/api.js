// Calls to the server: with the key, and with its errors as words.

import { Client, FirstwordError } from "/assets/client/index.js";

import { $ } from "./dom.js";

const KEY = "firstword-key";
let memoryKey = ""; // where storage is blocked
let asking = null; // the promise of the open dialog; one for all calls that wait for it

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

/** Its speeches, and all calls, go with the key of the tab. */
export const client = new Client(location.origin, { apiKey: getKey });

/** Call the server. The response is a success; else FirstwordError. A 401 asks for a key and calls again. */
export const call = (path, options = {}) => withKey(() => client.request(path, { cache: "no-store", ...options }));

/** Do what calls the server, and again with a key where it wants one. */
export async function withKey(action) {
  for (;;) {
    const key = getKey();
    let error;
    try {
      return await action();
    } catch (caught) {
      error = caught;
    }
    if (error instanceof FirstwordError) error.message = sentence(error.message);
    if (!(error instanceof FirstwordError) || error.status !== 401) throw error;
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

/** The server's messages begin in lower case. */
export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1) + (/[.?!]$/.test(text) ? "" : ".");

/** What may help where the server is full; "" where it says all itself. */
export function hintFor(error, capabilities) {
  if (error?.status !== 503) return "";
  const num = capabilities?.limits.max_streams;
  const wait = error.retryAfterS ? `Try again in ${error.retryAfterS} s. ` : "";
  const many = num ? `This machine speaks ${num} text${num === 1 ? "" : "s"} at once; the page Server shows how busy it is. ` : "";
  return `${wait}${many}"stream": false waits in a longer queue.`;
}
