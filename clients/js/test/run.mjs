// What the client does against a server whose address is the first argument; one line of JSON a story.

import assert from "node:assert/strict";
import { Client, encodeWav, FirstwordError, PcmReader } from "../src/index.js";

const [url, story] = process.argv.slice(2);
const client = new Client(url);
const HELLO = "Hello, you.";
const SAMPLES_PER_CHARACTER = 1200;

async function heard(speech) {
  const words = [];
  let numSamples = 0;
  for await (const audio of speech) {
    numSamples += audio.samples.length;
    words.push(...audio.words.map((word) => word.text));
  }
  return { numSamples, words };
}

async function* written(...pieces) {
  yield* pieces;
}

const STORIES = {
  async speaks() {
    for (const text of [HELLO, ["Hello, ", null, "you."], written("Hello, ", undefined, "you.")]) {
      const speech = client.speak(text, { timestamps: "word" });
      assert.deepEqual(await heard(speech), { numSamples: HELLO.length * SAMPLES_PER_CHARACTER, words: ["Hello,", "you."] });
      assert.equal(speech.sampleRate, 24_000);
      assert.equal(speech.stats.characters, HELLO.length);
    }
    const spoken = await client.stream(HELLO, { speaker: "anna" });
    assert.deepEqual(await heard(spoken.audio), { numSamples: HELLO.length * SAMPLES_PER_CHARACTER, words: ["Hello,", "you."] });
    assert.equal((await client.render(HELLO)).size, 44 + 2 * HELLO.length * SAMPLES_PER_CHARACTER);
    assert.deepEqual((await client.speakers()).map(({ name }) => name).sort(), ["anna", "hum"]);
    const emoji = client.speak("\u{1f600} you.", { timestamps: "word" });
    let last;
    for await (const { words } of emoji) last = words.at(-1) ?? last;
    assert.equal(emoji.text.slice(last.charStart, last.charEnd), "you.");
  },

  async refuses() {
    await assert.rejects(new Client("http://127.0.0.1:1").render(HELLO), { code: "unreachable", status: 0 });
    await assert.rejects(heard(new Client("http://127.0.0.1:1").speak(HELLO)), { code: "unreachable" });
    for (const text of [null, 42, undefined]) assert.throws(() => client.speak(text), TypeError);
    await assert.rejects(heard(client.speak(["Hello.", 42])), /a piece of text has to be a string, not number/);
    await assert.rejects(heard(client.speak(HELLO, { speaker: "nobody" })), { code: "speaker_not_found" });
    await assert.rejects(client.render(HELLO, { spede: 2 }), (error) => error instanceof FirstwordError && error.status === 400 && error.param === "spede");
    assert.equal((await heard(client.speak(HELLO))).numSamples, HELLO.length * SAMPLES_PER_CHARACTER);
  },

  async interrupts() {
    const speech = client.speak("One two three. ".repeat(20));
    let said = null;
    for await (const { startMs } of speech) if (startMs > 1000) said ??= speech.interrupt(600);
    assert.equal((await said).spokenText, "One two");
    const all = client.speak("One two three.");
    await heard(all);
    assert.equal((await all.interrupt(350)).spokenText, "One two"); // all had been sent
    assert.equal(await all.interrupt(350), await all.interrupt(600));
    for await (const _ of client.speak("One two three. ".repeat(20))) break; // leaving stops the server
  },

  async "is refused a connection"() {
    const stranger = new Client(url, { apiKey: "wrong" });
    await assert.rejects(heard(stranger.speak(HELLO)), { code: "invalid_api_key", status: 401 });
    const known = new Client(url, { apiKey: () => "sesame" });
    assert.equal((await heard(known.speak(HELLO))).numSamples, HELLO.length * SAMPLES_PER_CHARACTER);
    known.close();
  },

  async "begins again"() {
    let numOpened = 0;
    let opened = () => {};
    const isOpen = new Promise((resolve) => (opened = resolve));
    class Counted extends WebSocket {
      constructor(...given) {
        super(...given);
        this.addEventListener("open", () => opened(++numOpened));
      }
    }
    const broken = new Client(url, { WebSocket: Counted });
    const speech = broken.open();
    await isOpen;
    broken.close(); // as a network would
    speech.write(HELLO);
    speech.end();
    assert.equal((await heard(speech)).numSamples, HELLO.length * SAMPLES_PER_CHARACTER);
    assert.equal(numOpened, 2);
    broken.close();
  },

  async "reads pcm"() {
    const wav = new Uint8Array(await encodeWav(Float32Array.of(0, 0.5, -1), 24_000).arrayBuffer());
    const reader = new PcmReader();
    const samples = [wav.subarray(44, 47), wav.subarray(47)].flatMap((bytes) => [...reader.read(bytes)]);
    assert.deepEqual(samples.map((sample) => sample.toFixed(2)), ["0.00", "0.50", "-1.00"]);
  },
};

await STORIES[story]();
client.close();
