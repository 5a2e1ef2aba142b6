// One request as curl, Python and JavaScript. Keys are never shown: a placeholder stands for them.

const shell = (text) => `'${text.replaceAll("'", `'\\''`)}'`;
const python = (body) => {
  const literal = (value) => (value === true ? "True" : value === false ? "False" : JSON.stringify(value));
  const lines = Object.entries(body).map(([name, value]) => `    ${JSON.stringify(name)}: ${literal(value)},`);
  return `{\n${lines.join("\n")}\n}`;
};

export function sampleOf(kind, body, origin, hasKey) {
  const file = `speech.${body.format}`;
  const headers = hasKey ? { Authorization: "Bearer YOUR_KEY" } : {};
  if (kind === "curl") {
    const key = hasKey ? " -H 'Authorization: Bearer YOUR_KEY'" : "";
    return `curl -sN${key} ${origin}/tts -o ${file} \\\n  --json ${shell(JSON.stringify(body))}`;
  }
  if (kind === "python") {
    const given = hasKey ? `,\n    headers=${JSON.stringify(headers)}` : "";
    return [
      "import httpx",
      "",
      `body = ${python(body)}`,
      `with httpx.stream("POST", "${origin}/tts", json=body${given}) as response:`,
      "    response.raise_for_status()",
      `    with open("${file}", "wb") as file:`,
      "        for chunk in response.iter_bytes():  # arrives while it is made",
      "            file.write(chunk)",
    ].join("\n");
  }
  const given = JSON.stringify({ "Content-Type": "application/json", ...headers });
  return [
    `const response = await fetch("${origin}/tts", {`,
    '  method: "POST",',
    `  headers: ${given},`,
    `  body: JSON.stringify(${JSON.stringify(body, null, 2).replaceAll("\n", "\n  ")}),`,
    "});",
    "if (!response.ok) throw new Error((await response.json()).error.message);",
    "for await (const chunk of response.body) console.log(chunk.length); // bytes, while it is made",
  ].join("\n");
}
