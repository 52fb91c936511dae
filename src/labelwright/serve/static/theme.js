// Loaded before the page is drawn, so that a chosen theme does not flash.
const theme = {
  names: ["automatic", "light", "dark"],
  get: () => { try { return localStorage.getItem("theme") ?? "automatic"; } catch { return "automatic"; } },
  set(name) {
    document.documentElement.dataset.theme = name;
    try { localStorage.setItem("theme", name); } catch { /* storage is switched off: this page only */ }
  },
};
document.documentElement.dataset.theme = theme.names.includes(theme.get()) ? theme.get() : "automatic";
addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme"), show = () => { button.textContent = `Theme: ${document.documentElement.dataset.theme}`; };
  button.addEventListener("click", () => {
    theme.set(theme.names[(theme.names.indexOf(document.documentElement.dataset.theme) + 1) % theme.names.length]);
    show();
  });
  show();
});
