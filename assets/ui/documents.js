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
    if (document.body.dataset.chip === "open" || document.querySelector(".question, .in-place, details.menu[open]")) return;
    event.stopPropagation();
    close();
  }, true);
})();

// The chip above the message box: its choices are drawn anew by the server at any time, so whether they are open is
// kept here, and the choice that had the focus gets it back.
(() => {
  const isOpen = () => document.body.dataset.chip === "open";
  const button = () => document.querySelector(".chip > .open");
  let focused = ""; // the choice that was pressed last

  const tell = () => {
    const state = String(isOpen());
    if (button() && button().getAttribute("aria-expanded") !== state) button().setAttribute("aria-expanded", state);
  };
  const show = (open) => {
    if (open) document.body.dataset.chip = "open";
    else delete document.body.dataset.chip;
    focused = "";
    tell();
  };

  // Call before `foresight.listen(element, trigger)`.
  window.foresight.chip = (element) => {
    element.addEventListener("click", ({ target }) => {
      if (target.closest(".chip > .open")) show(!isOpen());
      focused = target.closest("[data-do=consult]")?.dataset.name ?? "";
    });
    const drawn = () => {
      if (!button()) show(false);
      tell();
      if (focused && document.activeElement === document.body) element.querySelector(`[data-name="${focused}"]`)?.focus();
    };
    const options = { childList: true, subtree: true, attributes: true, attributeFilter: ["aria-expanded"] };
    new MutationObserver(drawn).observe(element, options);
    drawn();
  };

  // It may be drawn anew by the press that is being told of, and is then in no document any more.
  document.addEventListener("click", ({ target }) => {
    if (isOpen() && target.isConnected && !target.closest("#chip")) show(false);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !isOpen()) return;
    event.stopPropagation();
    show(false);
    button()?.focus();
  }, true);
})();
