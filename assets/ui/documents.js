// The document panel: opens when the server sends a document, scrolled to the highlighted passage. It closes by its button, by
// Escape, when a document or a collection is deleted, and when another chat or view is shown.
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
  // The panel closes with the chat or view that opened it. A new chat that gets its number stays the same chat.
  let chat = null;
  document.addEventListener("foresight-drawn", ({ detail }) => {
    const drawn = detail["chat-id"];
    if (drawn === undefined) return;
    if (chat !== null && chat !== "0" && drawn !== chat) close();
    chat = drawn;
  });
  document.addEventListener("foresight-view", close);
  // Capture phase: Escape closes the panel, unless a question, a menu or the X-ray is open above it.
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !isOpen() || document.body.dataset.xray === "open") return;
    if (document.body.dataset.collections === "open" || document.querySelector(".question, .in-place, details.menu[open]")) return;
    event.stopPropagation();
    close();
  }, true);
})();
