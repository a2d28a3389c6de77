// The reader: opens when the server sends a document, scrolled to the highlighted passage. It closes by its button, by
// Escape, and when a document or a collection is deleted.
(() => {
  const isOpen = () => document.body.dataset.reading === "open";
  let opener = null; // gets the focus back

  const close = () => {
    if (!isOpen()) return;
    delete document.body.dataset.reading;
    if (opener?.isConnected) opener.focus();
    opener = null;
  };

  window.foresight.reading = (element, trigger) => {
    const panel = document.getElementById("reading");
    const text = () => element.querySelector(".text");
    let shown = {};
    let scrolled = null; // the distance from the end or the beginning of the text before more of it is shown

    const open = () => {
      if (!isOpen()) opener = document.activeElement;
      document.body.style.setProperty("--reading-top", `${document.getElementById("top").getBoundingClientRect().bottom}px`);
      document.body.dataset.reading = "open";
      const mark = element.querySelector("mark");
      if (text()) text().scrollTop = mark ? mark.offsetTop - text().offsetTop - text().clientHeight / 4 : 0;
      (text() ?? panel.querySelector("[data-close]")).focus({ preventScroll: true });
    };

    const update = () => {
      const now = { ...element.querySelector(".reading")?.dataset };
      if (now.opened && now.opened !== shown.opened) open();
      else if (scrolled && text() && (now.first !== shown.first || now.last !== shown.last)) {
        text().scrollTop = scrolled.above ? text().scrollHeight - scrolled.above : scrolled.below;
        scrolled = null;
      }
      shown = now;
    };

    element.addEventListener("click", ({ target }) => {
      if (target.closest("[data-do=above]")) scrolled = { above: text().scrollHeight - text().scrollTop };
      if (target.closest("[data-do=below]")) scrolled = { below: text().scrollTop };
    });
    panel.setAttribute("role", "dialog");
    panel.setAttribute("aria-labelledby", "reading-title");
    new MutationObserver(update).observe(element, { childList: true, subtree: true, attributes: true, attributeFilter: ["data-opened", "data-first", "data-last"] });
    window.foresight.listen(element, trigger);
    update();
  };

  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-close=reading], #documents [data-do=remove], #documents [data-do=delete]")) close();
  });
  // Capture phase: Escape closes the reader, unless a question, a menu or the X-ray is open above it.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !isOpen() || document.body.dataset.xray === "open") return;
    if (document.body.dataset.chip === "open" || document.querySelector(".question, .in-place, details.menu[open]")) return;
    event.stopPropagation();
    close();
  }, true);
})();

// The choice of collections above the message box. The server may render it again at any time, so the page keeps
// whether it is open, and gives the focus back to the choice that had it.
(() => {
  const isOpen = () => document.body.dataset.chip === "open";
  const button = () => document.querySelector(".chip > .open");
  let focused = ""; // the choice that was clicked last

  const updateState = () => {
    const state = String(isOpen());
    if (button() && button().getAttribute("aria-expanded") !== state) button().setAttribute("aria-expanded", state);
  };
  const show = (open) => {
    if (open) document.body.dataset.chip = "open";
    else delete document.body.dataset.chip;
    focused = "";
    updateState();
  };

  // Call before `foresight.listen(element, trigger)`.
  window.foresight.chip = (element) => {
    element.addEventListener("click", ({ target }) => {
      if (target.closest(".chip > .open")) show(!isOpen());
      focused = target.closest("[data-do=consult]")?.dataset.name ?? "";
    });
    const update = () => {
      if (!button()) show(false);
      updateState();
      if (focused && document.activeElement === document.body) element.querySelector(`[data-name="${focused}"]`)?.focus();
    };
    const options = { childList: true, subtree: true, attributes: true, attributeFilter: ["aria-expanded"] };
    new MutationObserver(update).observe(element, options);
    update();
  };

  // The click may have caused a new rendering; its target is then no longer in the document.
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
