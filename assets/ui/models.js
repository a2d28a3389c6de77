// The Models view: its tabs, and the details below a line of a list.
(() => {
  const KEY = "foresight-models-tab";
  const TABS = ["installed", "discover"];
  const choose = (tab) => {
    const chosen = TABS.includes(tab) ? tab : TABS[0];
    localStorage.setItem(KEY, chosen);
    document.body.dataset.modelsTab = chosen;
    window.foresight.markTab("models", chosen);
  };

  // Call this once the tabs exist.
  window.foresight.modelTabs = () => {
    window.foresight.labelTabPages("models", TABS);
    choose(localStorage.getItem(KEY));
  };

  // The server redraws the lists; open details stay open.
  const open = new Set();
  const show = (button) => {
    const isOpen = open.has(button.dataset.more);
    button.setAttribute("aria-expanded", isOpen);
    button.closest("li").querySelector(".model-detail").hidden = !isOpen;
  };

  document.addEventListener("click", ({ target }) => {
    const tab = target.closest("#models-tabs [data-tab]");
    if (tab) choose(tab.dataset.tab);
    const button = target.closest("[data-more]");
    if (!button) return;
    const { more } = button.dataset;
    if (!open.delete(more)) open.add(more);
    document.querySelectorAll("[data-more]").forEach(show);
  });
  document.addEventListener("foresight-drawn", () => open.size && document.querySelectorAll("[data-more]").forEach(show));
})();
