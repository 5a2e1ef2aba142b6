// Fetching a description that may need a key; the key is shared with the console.

const KEY = "firstword-key";

export function getKey() {
  try {
    return sessionStorage.getItem(KEY) ?? "";
  } catch {
    return ""; // storage is blocked: each page asks anew
  }
}

/** Show the description at a path, and ask for a key first where the server wants one. */
export function load(path, show) {
  const gate = document.getElementById("gate");
  const raw = document.getElementById("raw");
  let document_ = null;
  const attempt = async (key) => {
    const response = await fetch(path, { headers: key ? { Authorization: `Bearer ${key}` } : {} });
    if (response.status === 401) {
      if (key) document.getElementById("reason").textContent = "The server does not know this key. Check it, or ask for a new one.";
      gate.hidden = false;
      document.getElementById("key").focus();
      return;
    }
    gate.hidden = true;
    document_ = await response.json();
    show(document_, key);
  };
  raw.onclick = (event) => {
    if (!document_) return; // without a key the server says so itself
    event.preventDefault(); // a link could not carry the key
    const blob = new Blob([JSON.stringify(document_, null, 2)], { type: "application/json" });
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: path.slice(1) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  };
  gate.onsubmit = (event) => {
    event.preventDefault();
    const key = document.getElementById("key").value.trim();
    try {
      sessionStorage.setItem(KEY, key);
    } catch {
      // Used for this page alone.
    }
    attempt(key);
  };
  return attempt(getKey());
}
