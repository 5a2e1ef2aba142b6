// What the server can do and who can speak: asked once, shared by the pages.

import { getJson } from "./api.js";
import { h } from "./dom.js";

let capabilities = null;
let speakers = null;
const listeners = new Set();

/** Call with (capabilities, speakers) now and after each change. */
export function onVoices(listener) {
  listeners.add(listener);
  if (speakers) listener(capabilities, speakers);
}

export async function loadVoices() {
  [capabilities, speakers] = await Promise.all([getJson("/v1/capabilities"), getJson("/speakers")]);
  speakers = speakers.speakers;
  for (const listener of listeners) listener(capabilities, speakers);
}

export const getCapabilities = () => capabilities;

/** Fill a select, and keep what is chosen where it is still there. */
export function fillSpeakers(select, given, defaultSpeaker) {
  const chosen = select.value;
  const usable = given.filter((speaker) => !speaker.damaged);
  select.replaceChildren(
    ...usable.map((speaker) =>
      h("option", { value: speaker.name }, speaker.name + (speaker.name === defaultSpeaker ? " (default)" : "")),
    ),
  );
  select.value = usable.some((speaker) => speaker.name === chosen) ? chosen : defaultSpeaker;
}
