// What was spoken on the page Speak: to play again, to compare voices and seeds, to save, to go on from.

import { encodeWav } from "/assets/client/index.js";

import { formatS, h, icon, save, showTrouble } from "./dom.js";
import { hearSamples } from "./voices.js";

const KEPT_S = 600; // of audio; it is in this tab alone

let list;
let onChosen;
let kept = []; // {item, seconds}, the newest first

/** box: the card, hidden while there is nothing. setBody: puts a request into the page's fields. */
export function startHistory(box, setBody) {
  list = box.querySelector("ol");
  onChosen = setBody;
}

/** Keep a speech that was heard: its request and its audio. */
export function keep(body, player) {
  const { sampleRate } = player;
  const samples = player.samples();
  const hear = h("button", { type: "button", className: "play", "aria-label": `Play ${body.speaker}, seed ${body.seed}` }, icon("play"));
  hear.onclick = () => hearSamples(hear, samples, sampleRate).catch((error) => showTrouble(error, { at: list }));
  const about = [`seed ${body.seed}`, body.language, body.speed && `${body.speed}×`, formatS(samples.length / sampleRate)];
  const button = (text, onclick) => h("button", { type: "button", className: "link", onclick }, text);
  const item = h(
    "li",
    {},
    hear,
    h("div", {}, h("b", {}, body.speaker), h("span", { className: "hint" }, ` · ${about.filter(Boolean).join(" · ")}`), h("p", { className: "line" }, body.text)),
    h(
      "div",
      { className: "row-actions" },
      button("Use again", () => onChosen(body)),
      button("Save", () => save(encodeWav(samples, sampleRate), `${body.speaker}-${body.seed}.wav`)),
    ),
  );
  kept.unshift({ item, seconds: samples.length / sampleRate });
  list.prepend(item);
  let seconds = 0;
  kept = kept.filter((entry, i) => {
    seconds += entry.seconds;
    const stays = i === 0 || seconds <= KEPT_S;
    if (!stays) entry.item.remove();
    return stays;
  });
  list.closest(".card").hidden = false;
}
