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

  // The server redraws the lists; open details stay open, in this tab also after a reload.
  const open = new Set();
  const show = (button) => {
    const isOpen = open.has(button.dataset.more);
    button.setAttribute("aria-expanded", isOpen);
    button.closest("li").querySelector(".model-detail").hidden = !isOpen;
  };

  const showAll = () => open.size && document.querySelectorAll("[data-more]").forEach(show);
  window.foresight.kept.models = {
    read: () => [...open],
    restore: (names) => {
      names.forEach((name) => open.add(name));
      showAll();
    },
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
  document.addEventListener("foresight-drawn", showAll);
})();
