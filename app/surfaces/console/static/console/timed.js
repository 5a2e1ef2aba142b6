// A text whose words light up as they sound, where the server says when.

import { h } from "./dom.js";

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
    for (const { charStart: start, charEnd: end, startMs, endMs } of words) {
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
