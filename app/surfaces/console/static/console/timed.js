// A text whose words light up as they sound, where the server says when.

import { h } from "./dom.js";

/** The server counts characters as Unicode code points, JavaScript in UTF-16 units. */
export function inUnits(text, words) {
  const isPlain = !/[\ud800-\udfff]/.test(text);
  const units = (position) => (isPlain ? position : [...text].slice(0, position).join("").length);
  return words.map((word) => ({ ...word, char_start: units(word.char_start), char_end: units(word.char_end) }));
}

/** The bytes of a base64 text. */
export const fromBase64 = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

export class TimedText {
  constructor(box, text) {
    this.box = box;
    this.text = text;
    this.words = []; // {element, startMs, endMs}
    this.end = 0; // of what has a time
    this.rest = document.createTextNode(text);
    box.replaceChildren(this.rest);
  }

  add(words) {
    for (const { char_start: start, char_end: end, start_ms: startMs, end_ms: endMs } of inUnits(this.text, words)) {
      const element = h("span", { className: "word" }, this.text.slice(start, end));
      this.rest.before(this.text.slice(this.end, start), element);
      this.words.push({ element, startMs, endMs });
      this.end = end;
    }
    this.rest.data = this.text.slice(this.end);
  }

  /** position: of the playback, in seconds. */
  show(position, isPlaying) {
    const ms = 1000 * position;
    for (const { element, startMs, endMs } of this.words) {
      element.classList.toggle("now", isPlaying && startMs <= ms && ms < endMs);
    }
  }
}
