// The page /asyncapi: the WebSocket's messages, drawn from /asyncapi.json.

import { load } from "./key.js";

function h(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children.filter((child) => child !== null));
  return element;
}

load("/asyncapi.json", (spec) => {
  const resolve = (node) => {
    while (node?.$ref) node = node.$ref.slice(2).split("/").reduce((at, key) => at[key], spec);
    return node;
  };
  const channel = spec.channels.stream;
  const list = (operation) => operation.messages.map((reference) => messageOf(resolve(reference)));

  function messageOf({ name, summary, payload, examples }) {
    const schema = resolve(payload);
    const fields = Object.entries(schema.properties ?? {}).filter(([field]) => field !== "type");
    const required = new Set(schema.required);
    const rows = fields.map(([field, given]) => {
      const { description = "", default: usual } = given;
      const isUsualShown = usual !== undefined && usual !== null;
      return h(
        "tr",
        {},
        h("td", {}, h("code", {}, field)),
        h("td", {}, typeOf(given)),
        h("td", {}, isUsualShown ? h("code", {}, JSON.stringify(usual)) : required.has(field) ? "required" : ""),
        h("td", {}, description),
      );
    });
    const head = h("tr", {}, ...["field", "type", "default", ""].map((text) => h(text ? "th" : "td", {}, text)));
    return h(
      "section",
      { className: "message", id: name },
      h("h3", {}, name === "frame" ? "binary message" : name),
      h("p", {}, summary),
      rows.length ? h("div", { className: "scroll" }, h("table", {}, h("thead", {}, head), h("tbody", {}, ...rows))) : null,
      ...(examples ?? []).map((example) => h("pre", { tabIndex: 0 }, JSON.stringify(example.payload))),
    );
  }

  function typeOf(given) {
    const schema = resolve(given);
    if (schema.anyOf) return schema.anyOf.map(typeOf).filter((type) => type !== "null").join(" or ");
    if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(", ");
    const bounds = [schema.minimum, schema.maximum];
    const range = bounds.some((bound) => bound !== undefined) ? ` ${bounds[0] ?? ""} to ${bounds[1] ?? ""}` : "";
    return (schema.type ?? "object") + range;
  }

  document.getElementById("description").replaceChildren(
    h("h1", {}, "Text that is still being written"),
    h("p", { className: "lead" }, `${spec.info.description} Connect to `, h("code", {}, channel.address), "; a browser adds ", h("code", {}, "?api_key=KEY"), " where a key is needed."),
    h("h2", {}, "You send"),
    ...list(spec.operations.receive),
    h("h2", {}, "You get"),
    ...list(spec.operations.send),
  );
});
