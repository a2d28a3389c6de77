// The theme (light, dark, or that of the system) and the size of the text. Both are as chosen in this browser, or else as
// the settings were when the app was started.
(() => {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;
  const SHOW = {
    "theme": (theme) => document.body?.classList.toggle("dark", theme === "system" ? system.matches : theme === "dark"),
    "text-size": (size) => root.style.setProperty("--text-size", size),
  };
  const LOOKS = Object.keys(SHOW);
  const atStart = JSON.parse(root.dataset.appearance ?? "{}");
  const chosen = (look) => localStorage.getItem(`foresight-${look}`) ?? atStart[look] ?? { theme: "system" }[look] ?? 100;
  const show = () => LOOKS.forEach((look) => SHOW[look](chosen(look)));
  const mark = () => {
    for (const choices of document.querySelectorAll("[data-look]")) {
      choices.dataset.chosen = chosen(choices.dataset.look);
      choices.querySelector(`input[value="${choices.dataset.chosen}"]`).checked = true;
    }
  };
  const choose = (look, value) => {
    localStorage.setItem(`foresight-${look}`, value);
    show();
    mark();
  };

  show();
  system.addEventListener("change", show);
  let chosenAt = -Infinity;
  document.addEventListener("change", (event) => {
    const look = event.target.closest?.("[data-look]")?.dataset.look;
    if (!look) return;
    chosenAt = performance.now();
    choose(look, event.target.value);
  });

  // Follows the app's settings when restored defaults or another page change them. A value that was sent before the user
  // chose here is outdated.
  const SAVING_MS = 1000;
  let saved = {};
  const follow = () => {
    const left = chosenAt + SAVING_MS - performance.now();
    if (left > 0) setTimeout(follow, left);
    else for (const look of LOOKS) if (saved[look] !== chosen(look)) choose(look, saved[look]);
  };
  document.addEventListener("foresight-drawn", ({ detail }) => {
    if (!detail.appearance) return;
    saved = JSON.parse(detail.appearance);
    follow();
  });

  // Gradio sets a theme of its own while it builds the page, so the choice is applied again afterwards.
  const whenBuilt = new MutationObserver(() => {
    if (document.body && !document.body.dataset.themed) {
      document.body.dataset.themed = "early";
      show();
    }
    if (!document.querySelector("[data-look]")) return;
    whenBuilt.disconnect();
    show();
    mark();
  });
  whenBuilt.observe(document, { childList: true, subtree: true });

  // The sections: links lead to #/settings/data and so on; address.js then calls this.
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

  // A button copies the text of its data-copy-text.
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

  // What the file choosers show first. Any other file can be chosen, too, and the app says what is wrong with it.
  const ENDINGS = { "import-chats": ".json", "restore-backup": ".sqlite", "import-tools": ".json" };
  document.addEventListener("click", ({ target }) => {
    const { id, previousElementSibling } = target.closest("button") ?? {};
    if (ENDINGS[id]) previousElementSibling.accept = ENDINGS[id];
  }, true);

  // Quit. assets/ui/foresight.css hides Gradio's message about the broken connection.
  const goodbye = Object.assign(document.createElement("p"), { id: "goodbye", textContent: "Foresight has ended. You can close this page." });
  goodbye.setAttribute("role", "alert");
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#quit")) return;
    document.body.dataset.left = "yes";
    document.body.append(goodbye);
    window.foresight.leave();
  });
})();
