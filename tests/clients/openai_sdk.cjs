// What OpenAI's SDK for Node does against a server whose address is the first argument, as docs/from-openai.md has it.

const assert = require("node:assert/strict");
const OpenAI = require("openai");

const HELLO = "Hello, you.";
const NUM_BYTES = 2 * 1200 * HELLO.length; // of PCM
const asked = { model: "tts-1", voice: "nova", input: HELLO };

(async () => {
  const client = new OpenAI({ baseURL: `${process.argv[2]}/v1`, apiKey: "sesame", maxRetries: 0 });
  const speech = await client.audio.speech.create(asked);
  assert.equal(speech.headers.get("content-type"), "audio/mpeg");
  assert.ok((await speech.arrayBuffer()).byteLength > 500);

  const wav = Buffer.from(await (await client.audio.speech.create({ ...asked, voice: "Nova", response_format: "wav" })).arrayBuffer());
  assert.equal(wav.subarray(0, 4).toString(), "RIFF");

  const streamed = await client.audio.speech.create({ ...asked, model: "gpt-4o-mini-tts", response_format: "pcm" });
  const pieces = [];
  for await (const piece of streamed.body) pieces.push(piece.length);
  assert.ok(pieces.length > 1);
  assert.equal(pieces.reduce((sum, length) => sum + length, 0), NUM_BYTES);

  const events = await client.audio.speech.create({ ...asked, response_format: "pcm", stream_format: "sse" });
  const parsed = (await events.text()).trim().split("\n\n").map((event) => JSON.parse(event.replace("data: ", "")));
  assert.equal(parsed.at(-1).type, "speech.audio.done");
  const deltas = parsed.slice(0, -1).map(({ audio }) => Buffer.from(audio, "base64").length);
  assert.equal(deltas.reduce((sum, length) => sum + length, 0), NUM_BYTES);

  const models = await client.models.list();
  assert.ok(models.data.some(({ id }) => id === "tts-1"));
  await assert.rejects(client.audio.speech.create({ ...asked, voice: "nobody" }), (error) => {
    assert.ok(error instanceof OpenAI.NotFoundError);
    assert.match(error.message, /nobody/);
    return true;
  });
  await assert.rejects(client.audio.speech.create({ ...asked, input: "a".repeat(4097) }), OpenAI.BadRequestError);
  await assert.rejects(client.withOptions({ apiKey: "wrong" }).models.list(), OpenAI.AuthenticationError);
  console.log("done");
})();
