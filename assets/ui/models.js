// The Models view: its tabs, and what lies below a line of a list.
(() => {
  const KEY = "foresight-models-tab";
  const TABS = ["installed", "discover"];
  const choose = (tab) => {
    const chosen = TABS.includes(tab) ? tab : TABS[0];
    localStorage.setItem(KEY, chosen);
    document.body.dataset.modelsTab = chosen;
    for (const each of document.querySelectorAll("#models-tabs [role=tab]")) {
      const isChosen = each.dataset.modelsTab === chosen;
      each.setAttribute("aria-selected", isChosen);
      each.tabIndex = isChosen ? 0 : -1;
    }
  };

  // Call once the tabs are there.
  window.foresight.modelTabs = () => {
    for (const tab of TABS) {
      const page = document.getElementById(`models-${tab}`);
      page.setAttribute("role", "tabpanel");
      page.setAttribute("aria-labelledby", `models-tab-${tab}`);
    }
    choose(localStorage.getItem(KEY));
  };

  // The server draws the lists anew: what was open stays open.
  const open = new Set();
  const show = (button) => {
    const isOpen = open.has(button.dataset.more);
    button.setAttribute("aria-expanded", isOpen);
    button.closest("li").querySelector(".model-detail").hidden = !isOpen;
  };

  document.addEventListener("click", ({ target }) => {
    const tab = target.closest("[data-models-tab]:not(body)");
    if (tab) choose(tab.dataset.modelsTab);
    const button = target.closest("[data-more]");
    if (!button) return;
    const { more } = button.dataset;
    if (!open.delete(more)) open.add(more);
    document.querySelectorAll("[data-more]").forEach(show);
  });
  document.addEventListener("foresight-drawn", () => open.size && document.querySelectorAll("[data-more]").forEach(show));
  document.addEventListener("keydown", (event) => {
    const tabs = [...document.querySelectorAll("#models-tabs [role=tab]")];
    const step = { ArrowLeft: tabs.length - 1, ArrowRight: 1 }[event.key];
    const at = tabs.indexOf(event.target);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = tabs[(at + step) % tabs.length];
    next.click();
    next.focus();
  });
})();
