// A client of Firstword: text in as it is written, audio out before it is finished. Browsers and Node, no build step.

export { Client } from "./client.js";
export { ConnectionLost, FirstwordError } from "./errors.js";
export { encodeWav, PcmReader } from "./pcm.js";
export { Player } from "./player.js";
export { Speech } from "./speech.js";
