// Light or dark: what was chosen in this browser, else what was chosen when the app started; or as the system has it.
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

  // The page's own choice is the settings': it follows what the defaults, or another tab, brought.
  const heed = (place) => {
    const follow = () => {
      const theme = place.querySelector("[data-theme]")?.dataset.theme;
      if (theme && theme !== chosen()) choose(theme);
    };
    new MutationObserver(follow).observe(place, { childList: true, subtree: true });
  };

  // Gradio decides for itself while it builds the page: what was chosen comes behind it.
  const whenBuilt = new MutationObserver(() => {
    if (document.body && !document.body.dataset.themed) {
      document.body.dataset.themed = "early";
      show();
    }
    const place = document.getElementById("theme");
    if (!place) return;
    whenBuilt.disconnect();
    show();
    heed(place);
  });
  whenBuilt.observe(document, { childList: true, subtree: true });

  document.addEventListener("click", (event) => {
    if (event.target.closest("#quit")) document.body.dataset.left = "yes";
  });
})();
