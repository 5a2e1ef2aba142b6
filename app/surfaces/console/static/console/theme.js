// Runs before the page is drawn, so that the chosen theme shows from the first frame on.
try {
  const theme = localStorage.getItem("firstword-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // Storage is blocked: the system's theme stays.
}
