// What the client does against a server whose address is the first argument; one line of JSON a story.

import assert from "node:assert/strict";
import { createServer } from "node:http";
import { mock } from "node:test";
import { Client, encodeWav, FirstwordError, PcmReader, Player } from "../src/index.js";

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

/** A client, and the connections that it asked for: the story is their server. */
function wired() {
  const wires = [];
  class Wire {
    OPEN = 1;
    readyState = 0;
    bufferedAmount = 0;
    sent = [];
    constructor(address) {
      this.address = address;
      wires.push(this);
    }
    async accept() {
      this.readyState = this.OPEN;
      this.onopen();
      await settled();
    }
    send(text) {
      this.sent.push(JSON.parse(text));
    }
    give(message) {
      this.onmessage({ data: JSON.stringify({ context: this.sent.at(0).context, ...message }) });
    }
    giveAudio() {
      this.give({ type: "audio", bytes: 4, start_ms: 0, duration_ms: 0 });
      this.onmessage({ data: new ArrayBuffer(4) });
    }
    close() {
      this.readyState = 3;
      this.onclose({ reason: "" });
    }
  }
  return { wires, wiredClient: new Client("http://127.0.0.1:1", { WebSocket: Wire }) };
}

/** Audio without a sound card: the story tells the time, and says when a source has ended. */
function fakeAudio() {
  const context = {
    currentTime: 0,
    outputLatency: 0.2,
    state: "running",
    createBuffer: (_, length, rate) => ({ duration: length / rate, copyToChannel() {} }),
    resume() {},
  };
  const sources = [];
  globalThis.AudioContext = class {
    constructor() {
      return context;
    }
  };
  globalThis.AudioBufferSourceNode = class {
    constructor() {
      sources.push(this);
    }
    connect() {}
    start() {}
    stop() {}
  };
  return { context, sources };
}

const settled = () => new Promise((resolve) => setTimeout(resolve, 0));
const typesOf = (wire) => wire.sent.map(({ type }) => type);
const NOTHING = { spokenText: "", remainingText: "", audioMsSent: 0 };

async function within(ms, promise) {
  let timer;
  const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error(`not within ${ms} ms`)), ms)));
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
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
    const late = client.open();
    late.write(HELLO);
    late.end();
    late.flush(); // has no effect
    assert.equal((await heard(late)).numSamples, HELLO.length * SAMPLES_PER_CHARACTER);
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

  async "stops writing where it is interrupted"() {
    const { wires, wiredClient } = wired();
    let next = () => {};
    let isClosed = false;
    async function* endless() {
      try {
        for (;;) yield await new Promise((resolve) => (next = () => resolve("word ")));
      } finally {
        isClosed = true;
      }
    }
    const speech = wiredClient.speak(endless());
    await wires[0].accept();
    next();
    await settled();
    const interrupted = speech.interrupt(0);
    wires[0].give({ type: "cancelled", spoken_text: "", remaining_text: "word ", audio_ms_sent: 0 });
    assert.equal((await interrupted).remainingText, "word ");
    next();
    await settled();
    speech.flush();
    assert.deepEqual(typesOf(wires[0]), ["start", "text", "cancel"]); // more would begin a context with the default speaker
    assert.ok(isClosed);
  },

  async "leaves the next connection alone"() {
    const { wires, wiredClient } = wired();
    const [broken, spoken] = [wiredClient.open(), wiredClient.speak(HELLO)];
    await wires[0].accept();
    wires[0].giveAudio();
    wires[0].give({ type: "done", context: "speech-2", stats: {} });
    wires[0].close();
    await assert.rejects(heard(broken), { code: "connection_lost" });
    wiredClient.open();
    await wires[1].accept();
    broken.write("more");
    broken.end();
    assert.deepEqual(await within(1000, spoken.interrupt(0)), NOTHING);
    assert.deepEqual(typesOf(wires[1]), ["start"]);
  },

  async "is interrupted while it fails"() {
    const { wires, wiredClient } = wired();
    const speech = wiredClient.speak(HELLO);
    await wires[0].accept();
    const interrupted = speech.interrupt(0);
    wires[0].give({ type: "error", fatal: true, error: { message: "the engine is gone", code: "internal" } });
    assert.deepEqual(await within(1000, interrupted), NOTHING);
  },

  async "joins halves of a character"() {
    const speech = client.speak(["Hi \ud83d", "\ude00 you.", "\ud83d"]);
    assert.equal((await heard(speech)).numSamples, "Hi * you.".length * SAMPLES_PER_CHARACTER);
    const alone = client.speak("Hi \ud83d you.");
    assert.equal((await heard(alone)).numSamples, "Hi * you.".length * SAMPLES_PER_CHARACTER);
  },

  async "keeps one connection where another failed"() {
    const { wires, wiredClient } = wired();
    const failed = wiredClient.speak(HELLO);
    wires[0].close(); // why, is asked over HTTP
    wiredClient.speak(HELLO);
    await wires[1].accept();
    await assert.rejects(heard(failed), { code: "unreachable" });
    wiredClient.speak(HELLO);
    await settled();
    assert.equal(wires.length, 2);
  },

  async "stops a speech that it gives up"() {
    const { wires, wiredClient } = wired();
    const speech = wiredClient.open();
    await wires[0].accept();
    wires[0].give({ type: "error", fatal: false, error: { message: "no", code: "invalid_request" } });
    await assert.rejects(heard(speech), { code: "invalid_request" });
    assert.deepEqual(typesOf(wires[0]), ["start", "cancel"]);
  },

  async "notices a network that is gone"() {
    mock.timers.enable({ apis: ["setInterval"] });
    const { wires, wiredClient } = wired();
    const speech = wiredClient.open();
    await wires[0].accept();
    wires[0].giveAudio();
    wires[0].close = () => {}; // nothing comes of it
    for (let i = 0; i < 10; i++) {
      mock.timers.tick(5000);
      wires[0].give({ type: "pong" }); // a writer may think for long
    }
    assert.equal(speech.hasEnded, false);
    mock.timers.tick(25_000);
    await assert.rejects(within(1000, heard(speech)), /while the speech was coming: the server was silent for 20 s/);
    assert.deepEqual(new Set(typesOf(wires[0]).slice(1)), new Set(["ping"]));
    const next = wiredClient.speak(HELLO);
    await wires[1].accept();
    wires[1].give({ type: "done", stats: {} });
    await heard(next);
    mock.timers.tick(100_000);
    assert.deepEqual(typesOf(wires[1]), ["start", "text", "end"]); // a server may close what nobody uses
  },

  async "waits for a recording that goes out slowly"() {
    mock.timers.enable({ apis: ["setInterval"] });
    const { wires, wiredClient } = wired();
    const speech = wiredClient.open();
    await wires[0].accept();
    wires[0].giveAudio();
    wiredClient.open({ reference_audio: "AAAA" });
    for (let left = 10; left > 0; left--) {
      wires[0].bufferedAmount = left * 1e6;
      mock.timers.tick(5000);
    }
    assert.equal(speech.hasEnded, false);
    wires[0].close = () => {}; // nothing comes of it
    mock.timers.tick(25_000); // in which the rest has not moved
    await assert.rejects(within(1000, heard(speech)), /the server was silent for 20 s/);
  },

  async "loses a connection over http"() {
    const server = createServer((_, response) => {
      response.write('{"audio": "AAAA"}\n', () => setTimeout(() => response.destroy(), 50));
    });
    await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
    const broken = new Client(`http://127.0.0.1:${server.address().port}`);
    await assert.rejects(heard((await broken.stream(HELLO)).audio), { code: "connection_lost" });
    await assert.rejects(broken.render(HELLO), { code: "connection_lost" });
    server.close();
  },

  async "goes through the path of a proxy"() {
    const asked = [];
    const settings = {
      fetch: async (address) => asked.push(String(address)) && Response.json({ speakers: [] }),
      WebSocket: class {
        constructor(address) {
          asked.push(String(address));
        }
      },
    };
    const proxied = new Client("https://example.org/voice/", settings);
    await proxied.speakers();
    proxied.open();
    assert.deepEqual(asked, ["https://example.org/voice/speakers", "wss://example.org/voice/tts/stream"]);
  },

  async "tells proxies who speaks"() {
    const told = [];
    const proxied = new Client("https://example.org", {
      fetch: async (_, { headers }) => told.push(headers.get("X-Speaker")) && new Response("sound"),
      WebSocket: class {
        constructor(address) {
          told.push(address.searchParams.get("speaker"));
        }
      },
    });
    await proxied.render(HELLO, { speaker: "Jürgen" });
    proxied.open({ speaker: "Jürgen" });
    assert.deepEqual(told, ["J%C3%BCrgen", "Jürgen"]);
  },

  async "opens a lost connection for the speaker who begins again"() {
    const { wires, wiredClient } = wired();
    wiredClient.open({ speaker: "anna" });
    wiredClient.open({ speaker: "hum" });
    await wires[0].accept();
    mock.timers.enable({ apis: ["setTimeout"] });
    wires[0].close();
    mock.timers.tick(1000);
    assert.deepEqual(wires.map(({ address }) => address.searchParams.get("speaker")), ["anna", "anna"]);
  },

  async "counts what was heard behind a slow output"() {
    const { context, sources } = fakeAudio();
    let hasEnded = () => {};
    const end = new Promise((resolve) => (hasEnded = resolve));
    const player = new Player(24_000, () => player.isPlaying || hasEnded());
    for (let i = 0; i < 3; i++) player.push(new Float32Array(2400));
    const heardAt = (time) => {
      context.currentTime = time;
      sources.shift().onended(); // it has left the context, and is not heard yet
      return Math.round(player.playedMs);
    };
    assert.deepEqual([0.1, 0.2, 0.3].map(heardAt), [0, 0, 100]);
    await end;
    assert.equal(Math.round(player.playedMs), 300);
  },

  async "plays at the rate of the speech"() {
    fakeAudio();
    const audio = Object.assign(written({ samples: new Float32Array(1600) }), { sampleRate: 16_000 });
    const player = new Player();
    await player.play(audio);
    assert.equal(player.duration, 0.1);
    const broken = new Player();
    await assert.rejects(broken.play((async function* () { throw new Error("lost"); })()), /lost/);
    assert.ok(broken.isComplete);
  },

  async "reads pcm"() {
    const wav = new Uint8Array(await encodeWav(Float32Array.of(0, 0.5, -1), 24_000).arrayBuffer());
    const reader = new PcmReader();
    const samples = [wav.subarray(44, 47), wav.subarray(47)].flatMap((bytes) => [...reader.read(bytes)]);
    assert.deepEqual(samples.map((sample) => sample.toFixed(2)), ["0.00", "0.50", "-1.00"]);
  },
};

await STORIES[story]();
process.exit(); // wires of a story are never closed
