// The console: its pages by the address's fragment, the theme, the key, the server's state.

import { askForKey } from "./api.js";
import * as converse from "./converse.js";
import { $, showTrouble, svg } from "./dom.js";
import * as listen from "./listen.js";
import * as server from "./server.js";
import * as speak from "./speak.js";
import * as speakers from "./speakers.js";
import { loadVoices } from "./voices.js";

const PAGES = { speak: "Speak", converse: "Converse", speakers: "Speakers", server: "Server", listen: "Listen" };
const STATE_EVERY_MS = 5000;

function showPage() {
  const page = location.hash.slice(1);
  for (const name of Object.keys(PAGES)) $(`page-${name}`).hidden = name !== page;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.page === page) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${PAGES[page]} · Firstword`;
  showTrouble(null);
  if (page === "server") server.show();
  else server.hide();
}

const ICONS = {
  key: ["M12.5 11.5a4 4 0 1 0-4-4c0 .5.1 1 .25 1.4L3 14.7V17h2.5l.5-.5V15h1.5l.5-.5V13h1.5l.6-.6a4 4 0 0 0 2.4-.9z", "M13.4 6.6h.01"],
  system: ["M3 4h14v9H3z", "M8 16.5h4"],
  light: ["M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7z", "M10 1.8v1.7M10 16.5v1.7M1.8 10h1.7M16.5 10h1.7M4.2 4.2l1.2 1.2M14.6 14.6l1.2 1.2M4.2 15.8l1.2-1.2M14.6 5.4l1.2-1.2"],
  dark: ["M16.5 12.2A7 7 0 0 1 7.8 3.5a7 7 0 1 0 8.7 8.7z"],
};
const outline = (name) => svg("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, ...ICONS[name].map((d) => svg("path", { d })));

function startTheme() {
  const order = ["system", "light", "dark"];
  let theme = document.documentElement.dataset.theme ?? "system";
  const show = () => {
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    $("theme").replaceChildren(outline(theme));
    $("theme").setAttribute("aria-label", `Theme: ${theme}`);
    $("theme").title = `Theme: ${theme}`;
    document.dispatchEvent(new CustomEvent("theme-changed"));
  };
  $("theme").onclick = () => {
    theme = order[(order.indexOf(theme) + 1) % order.length];
    try {
      localStorage.setItem("firstword-theme", theme);
    } catch {
      // For this page alone, where storage is blocked.
    }
    show();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}

async function watchState() {
  const state = $("state");
  const set = (name, text) => {
    if (state.dataset.state === name) return; // a screen reader speaks each change
    state.dataset.state = name;
    state.lastElementChild.textContent = text;
  };
  try {
    const response = await fetch("/readyz", { cache: "no-store" });
    if (response.ok) set("ready", "Ready");
    else set("busy", "Not ready");
  } catch {
    set("down", "Not reachable");
  }
  setTimeout(watchState, STATE_EVERY_MS);
}

async function load() {
  try {
    await loadVoices();
  } catch (error) {
    if (error.status === 401) showTrouble("Without a key this server answers nothing. Set one above.");
    else showTrouble(error);
  }
}

startTheme();
for (const page of [speak, converse, speakers, server, listen]) page.start();
addEventListener("hashchange", () => {
  if (!(location.hash.slice(1) in PAGES)) return; // the link past the navigation
  showPage();
  $("main").focus({ preventScroll: true });
  scrollTo(0, 0);
});
if (!(location.hash.slice(1) in PAGES)) history.replaceState(null, "", "#speak");
showPage();
$("key").replaceChildren(outline("key"));
$("key").onclick = async () => {
  if (await askForKey("Sent with every request of this tab, and kept in it until you close it. Empty: no key.")) await load();
};
watchState();
await load();
document.documentElement.dataset.loaded = ""; // for whoever waits until the page can be used
