// The panel that a document is read in: it opens when the server has drawn a document into it, on the passage that is
// lit up, and closes by its button, by Escape, and when what it shows is removed.
(() => {
  const isOpen = () => document.body.dataset.reading === "open";
  let before = null; // what opened it, which gets the focus back

  const close = () => {
    if (!isOpen()) return;
    delete document.body.dataset.reading;
    if (before?.isConnected) before.focus();
    before = null;
  };

  window.foresight.reading = (element, trigger) => {
    const panel = document.getElementById("reading");
    const text = () => element.querySelector(".text");
    let shown = {};
    let kept = null; // where the person was when more was asked for: from the text's end, or from its beginning

    const open = () => {
      if (!isOpen()) before = document.activeElement;
      document.body.style.setProperty("--reading-top", `${document.getElementById("top").getBoundingClientRect().bottom}px`);
      document.body.dataset.reading = "open";
      const mark = element.querySelector("mark");
      if (text()) text().scrollTop = mark ? mark.offsetTop - text().offsetTop - text().clientHeight / 4 : 0;
      (text() ?? panel.querySelector("[data-close]")).focus({ preventScroll: true });
    };

    const drawn = () => {
      const now = { ...element.querySelector(".reading")?.dataset };
      if (now.opened && now.opened !== shown.opened) open();
      else if (kept && text() && (now.first !== shown.first || now.last !== shown.last)) {
        text().scrollTop = kept.above ? text().scrollHeight - kept.above : kept.below;
        kept = null;
      }
      shown = now;
    };

    element.addEventListener("click", ({ target }) => {
      if (target.closest("[data-do=above]")) kept = { above: text().scrollHeight - text().scrollTop };
      if (target.closest("[data-do=below]")) kept = { below: text().scrollTop };
    });
    panel.setAttribute("role", "dialog");
    panel.setAttribute("aria-labelledby", "reading-title");
    new MutationObserver(drawn).observe(element, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-opened", "data-first", "data-last"] });
    window.foresight.listen(element, trigger);
    drawn();
  };

  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-close=reading], #documents [data-do=remove], #documents [data-do=delete]")) close();
  });
  // Before others: Escape means the panel, unless something is asked that lies over it.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !isOpen() || document.body.dataset.xray === "open") return;
    if (document.body.dataset.collections === "open" || document.querySelector(".question, .in-place, details.menu[open]")) return;
    event.stopPropagation();
    close();
  }, true);
})();
