// Light or dark: the choice made in this browser, else the app's setting at its start; "system" follows the system.
(() => {
  const KEY = "foresight-theme";
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const chosen = () => localStorage.getItem(KEY) ?? document.documentElement.dataset.theme ?? "system";
  const isDark = () => (chosen() === "system" ? system.matches : chosen() === "dark");
  const show = () => document.body?.classList.toggle("dark", isDark());
  const choose = (theme) => {
    localStorage.setItem(KEY, theme);
    show();
  };

  system.addEventListener("change", show);
  document.addEventListener("change", (event) => {
    if (event.target.matches?.("#theme input")) choose(event.target.value);
  });

  // Follows the app's setting when restored defaults or another tab change it.
  const followSetting = (place) => {
    const follow = () => {
      const theme = place.querySelector("[data-theme]")?.dataset.theme;
      if (theme && theme !== chosen()) choose(theme);
    };
    new MutationObserver(follow).observe(place, { childList: true, subtree: true });
  };

  // Gradio sets a theme of its own while it builds the page, so the choice is applied again afterwards.
  const whenBuilt = new MutationObserver(() => {
    if (document.body && !document.body.dataset.themed) {
      document.body.dataset.themed = "early";
      show();
    }
    const place = document.getElementById("theme");
    if (!place) return;
    whenBuilt.disconnect();
    show();
    followSetting(place);
  });
  whenBuilt.observe(document, { childList: true, subtree: true });

  document.addEventListener("click", (event) => {
    if (event.target.closest("#quit")) document.body.dataset.left = "yes";
  });
})();
