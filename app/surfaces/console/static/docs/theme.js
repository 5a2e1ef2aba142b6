// The console's theme, or the system's; Swagger UI goes by a class.

const system = matchMedia("(prefers-color-scheme: dark)");
const chosen = () => document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light");
const show = () => document.documentElement.classList.toggle("dark-mode", chosen() === "dark");
system.addEventListener("change", show);
show();
