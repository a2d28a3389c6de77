// Light or dark: the choice made in this browser, else the app's setting at its start; "system" follows the system.
(() => {
  const KEY = "foresight-theme";
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem(KEY) ?? document.documentElement.dataset.theme ?? "system";
  const isDark = () => (chosen() === "system" ? system.matches : chosen() === "dark");
  const show = () => document.body?.classList.toggle("dark", isDark());
  const mark = () => {
    const choices = document.querySelector("#theme [data-theme]");
    if (!choices) return;
    choices.dataset.theme = chosen();
    choices.querySelector(`input[value=${chosen()}]`).checked = true;
  };
  const choose = (theme) => {
    localStorage.setItem(KEY, theme);
    show();
    mark();
  };

  system.addEventListener("change", show);
  let chosenAt = -Infinity;
  document.addEventListener("change", (event) => {
    if (!event.target.matches?.("#theme input")) return;
    chosenAt = performance.now();
    choose(event.target.value);
  });

  // Follows the app's setting when restored defaults or another page change it. What was on its way when the person
  // chose here is older than that choice.
  const SAVING_MS = 1000;
  let saved = "";
  const follow = () => {
    const left = chosenAt + SAVING_MS - performance.now();
    if (left > 0) setTimeout(follow, left);
    else if (saved !== chosen()) choose(saved);
  };
  document.addEventListener("foresight-drawn", ({ detail }) => {
    if (!detail.appearance) return;
    saved = detail.appearance;
    follow();
  });

  // Gradio sets a theme of its own while it builds the page, so the choice is applied again afterwards.
  const whenBuilt = new MutationObserver(() => {
    if (document.body && !document.body.dataset.themed) {
      document.body.dataset.themed = "early";
      show();
    }
    if (!document.getElementById("theme")) return;
    whenBuilt.disconnect();
    show();
    mark();
  });
  whenBuilt.observe(document, { childList: true, subtree: true });

  // The sections: links lead to #/settings/data and so on, and address.js comes back here.
  const links = () => [...document.querySelectorAll("#settings-nav a")];
  const markSection = () => {
    for (const link of links()) {
      if (link.dataset.section === document.body.dataset.section) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  };
  window.foresight.showSection = (section) => {
    const isKnown = (name) => !links().length || links().some((link) => link.dataset.section === name);
    document.body.dataset.section = [section, document.body.dataset.section].find((name) => name && isKnown(name)) ?? "general";
    document.getElementById("choices")?.scrollTo(0, 0);
    markSection();
  };
  window.foresight.settingsNav = (element) => {
    new MutationObserver(markSection).observe(element, { childList: true, subtree: true });
    window.foresight.showSection(document.body.dataset.section);
  };

  // What can be copied stands in the button.
  const COPIED_MS = 1500;
  document.addEventListener("click", async ({ target }) => {
    const button = target.closest("[data-copy-text]");
    if (!button || button.dataset.label) return;
    button.dataset.label = button.textContent;
    button.textContent = await navigator.clipboard.writeText(button.dataset.copyText).then(() => "Copied", () => "Copy failed");
    setTimeout(() => {
      button.textContent = button.dataset.label;
      delete button.dataset.label;
    }, COPIED_MS);
  });

  // Quit. Gradio would tell of its broken connections: assets/ui/foresight.css hides that.
  const goodbye = Object.assign(document.createElement("p"), { id: "goodbye", textContent: "Foresight has ended. You can close this page." });
  goodbye.setAttribute("role", "alert");
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#quit")) return;
    document.body.dataset.left = "yes";
    document.body.append(goodbye);
    window.foresight.leave();
  });
})();
