// Light or dark: the system's choice until the person makes one, which this browser remembers.
(() => {
  const KEY = "foresight-theme";
  const isDark = () => document.body.classList.contains("dark");
  const show = (dark) => document.body.classList.toggle("dark", dark);
  const remembered = () => localStorage.getItem(KEY);

  const system = window.matchMedia("(prefers-color-scheme: dark)");
  system.addEventListener("change", (change) => remembered() || show(change.matches));

  document.addEventListener("click", (event) => {
    if (!event.target.closest("#theme-toggle")) return;
    show(!isDark());
    localStorage.setItem(KEY, isDark() ? "dark" : "light");
  });

  // The thread stays at its end while text arrives, unless the person scrolled up to read.
  const keepAtEnd = (thread) => {
    let atEnd = true;
    const scrollToEnd = () => atEnd && (thread.scrollTop = thread.scrollHeight);
    thread.addEventListener("scroll", () => {
      atEnd = thread.scrollHeight - thread.scrollTop - thread.clientHeight < 48;
    });
    new MutationObserver(scrollToEnd).observe(thread, {
      childList: true, subtree: true, characterData: true,
    });
  };

  // Two views, of which the chat opens first. Both stay built, so that going between them loses nothing.
  const VIEWS = { "to-chat": "chat", "new-chat": "chat", "to-models": "models" };
  const goTo = (view) => {
    document.body.dataset.view = view;
    for (const [id, leadsTo] of Object.entries(VIEWS)) {
      const button = document.getElementById(id);
      if (id !== "new-chat") button?.setAttribute("aria-current", leadsTo === view ? "page" : "false");
    }
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest(Object.keys(VIEWS).map((id) => `#${id}`).join());
    if (button) goTo(VIEWS[button.id]);
  });

  // Buttons inside a list. Rows move up while others go: what counts is the button that was pressed down on.
  window.foresight = {
    listen(element, trigger) {
      let pressed = null;
      const said = (event) => event.target.closest("[data-do]")?.dataset;
      element.addEventListener("pointerdown", (event) => (pressed = { ...said(event) }));
      element.addEventListener("click", (event) => {
        const now = said(event);
        const isSame = event.detail === 0 || (pressed?.do === now?.do && pressed?.name === now?.name);
        if (now && isSame) trigger("click", { do: now.do, name: now.name, value: now.value });
      });
    },
  };

  // A question takes the focus, on the answer that changes nothing, and gives it back.
  const heedQuestions = (place) => {
    let before = null;
    new MutationObserver(() => {
      const buttons = place.querySelectorAll(".question button");
      if (buttons.length && !place.contains(document.activeElement)) {
        before = document.activeElement;
        buttons[buttons.length - 1].focus();
      } else if (!buttons.length && before) {
        before.focus();
        before = null;
      }
    }).observe(place, { childList: true, subtree: true });
    place.addEventListener("keydown", (event) => {
      const buttons = [...place.querySelectorAll(".question button")];
      if (event.key === "Escape") buttons.at(-1)?.click();
      if (event.key !== "Tab" || !buttons.length) return;
      event.preventDefault();
      const step = event.shiftKey ? buttons.length - 1 : 1;
      buttons[(buttons.indexOf(document.activeElement) + step) % buttons.length].focus();
    });
  };

  // Gradio builds the page some time after this script has run.
  const whenBuilt = new MutationObserver(() => {
    const thread = document.getElementById("thread");
    if (!thread || !document.getElementById("question")) return;
    whenBuilt.disconnect();
    if (remembered()) show(remembered() === "dark");
    keepAtEnd(thread);
    heedQuestions(document.getElementById("question"));
    goTo("chat");
  });
  whenBuilt.observe(document, { childList: true, subtree: true });
})();
