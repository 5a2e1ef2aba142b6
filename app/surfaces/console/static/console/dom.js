// Finding, making and formatting elements.

export const $ = (id) => document.getElementById(id);

/** Make an element. properties: DOM properties; `data` for data-*, `aria-…` and `role` as attributes. */
export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name === "data") Object.assign(element.dataset, value);
    else if (name.includes("-") || name === "role") element.setAttribute(name, value);
    else element[name] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const trouble = $("trouble"); // held, as a list that is drawn anew drops what stands between its rows
const LONG_MESSAGE = 160; // characters; what is behind its first clause is shown smaller

const PATHS = {
  play: "M6 4l10 6-10 6z",
  pause: "M6 4h3v12H6zM11 4h3v12h-3z",
  stop: "M5 5h10v10H5z",
};

/** A filled icon of a button. */
export function icon(name) {
  return svg("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d: PATHS[name] }));
}

export const formatMs = (ms) => (ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(2)} s`);

export function formatS(s) {
  if (s < 59.95) return `${s.toFixed(1)} s`;
  const whole = Math.round(s);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

export function formatBytes(bytes) {
  if (bytes >= 2 ** 30) return `${(bytes / 2 ** 30).toFixed(2)} GiB`;
  return bytes >= 2 ** 20 ? `${+(bytes / 2 ** 20).toFixed(1)} MiB` : `${+(bytes / 2 ** 10).toFixed(1)} KiB`;
}

/** Let the browser save data as a file. */
export function save(blob, name) {
  const link = h("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/**
 * Show in words what went wrong, or with `isWarning` what was done otherwise than asked; null clears it.
 * at: the field at fault, which it then stands behind; left out: above the page. hint: what may help.
 */
export function showTrouble(error, { at = null, isWarning = false, hint = "" } = {}) {
  for (const field of document.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  trouble.hidden = error === null;
  trouble.classList.toggle("warning", isWarning);
  if (error === null) return trouble.replaceChildren();
  if (at) {
    (at.closest(".field") ?? at).after(trouble);
    if (at.matches("input, textarea, select")) {
      at.setAttribute("aria-invalid", "true");
      at.focus({ preventScroll: true });
    }
  } else $("main").prepend(trouble);
  const message = typeof error === "string" ? error : error.message;
  const cut = message.length > LONG_MESSAGE ? message.indexOf("; ") : -1;
  const [said, rest] = cut < 0 ? [message, ""] : [`${message.slice(0, cut)}.`, message.charAt(cut + 2).toUpperCase() + message.slice(cut + 3)];
  const text = h("span", {}, said);
  const close = h("button", { type: "button", className: "link", onclick: () => showTrouble(null) }, "Dismiss");
  trouble.replaceChildren(h("div", {}, text, ...[rest, hint].filter(Boolean).map((more) => h("small", {}, more))), close);
  trouble.scrollIntoView({ block: "nearest" });
}

/** Ask in a dialog; the answer, or null where it was cancelled. initial null: only a question, no text. */
export function ask({ title, text = "", label = "", initial = null, ok = "Save", isDangerous = false }) {
  const dialog = $("ask-dialog");
  const input = $("ask-input");
  $("ask-title").textContent = title;
  $("ask-text").textContent = text;
  $("ask-label").textContent = label;
  $("ask-ok").textContent = ok;
  $("ask-ok").classList.toggle("danger", isDangerous);
  $("ask-ok").classList.toggle("primary", !isDangerous);
  $("ask-field").hidden = initial === null;
  input.value = initial ?? "";
  dialog.returnValue = "";
  $("ask-cancel").onclick = () => dialog.close("");
  dialog.showModal();
  if (initial !== null) input.focus();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok" ? input.value : null), { once: true });
  });
}
