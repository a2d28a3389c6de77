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

  // Gradio builds the page some time after this script has run.
  const whenBuilt = new MutationObserver(() => {
    const thread = document.getElementById("thread");
    if (!thread) return;
    whenBuilt.disconnect();
    if (remembered()) show(remembered() === "dark");
    keepAtEnd(thread);
  });
  whenBuilt.observe(document, { childList: true, subtree: true });
})();
