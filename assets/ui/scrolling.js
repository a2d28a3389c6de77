// Keeps the thread at its end while text arrives, unless the user has scrolled up to read. Sending a message, opening a
// chat, and a button that is shown meanwhile lead back to the end.
(() => {
  const NEAR = 48;
  const SENDS = "#begin button, [data-do]:is([data-do=starter], [data-do=regenerate], [data-do=continue], [data-do=edit], [data-do=open])";
  const box = () => document.querySelector("#message textarea");

  window.foresight.focusMessage = () => box()?.focus();

  window.foresight.keepAtEnd = (thread) => {
    let atEnd = true;
    const show = (isAtEnd) => {
      atEnd = isAtEnd;
      document.body.toggleAttribute("data-is-away", !atEnd);
    };
    const isEmpty = () => document.body.hasAttribute("data-is-empty"); // an empty chat begins at its top
    const stay = () => atEnd && !isEmpty() && (thread.scrollTop = thread.scrollHeight);
    const toEnd = () => {
      show(true);
      stay();
    };
    thread.addEventListener("scroll", () =>
      show(isEmpty() || thread.scrollHeight - thread.scrollTop - thread.clientHeight < NEAR),
    );
    new MutationObserver(stay).observe(thread, { childList: true, subtree: true, characterData: true });
    // An empty chat is shown from its top, even if the previous chat was scrolled down.
    new MutationObserver(() => isEmpty() && (thread.scrollTop = 0)).observe(document.body, { attributeFilter: ["data-is-empty", "data-is-private"] });
    new ResizeObserver(stay).observe(thread); // the message box below it may grow, or the panel beside it close
    document.addEventListener("click", ({ target }) => {
      if (target.closest(SENDS)) toEnd();
      if (target.closest("#jump-to-latest")) {
        toEnd();
        window.foresight.focusMessage();
      }
      // Waits a moment, because the list of chats gives the focus back when it closes.
      if (target.closest("#begin button, #skip-to-message")) setTimeout(window.foresight.focusMessage);
    });
    document.addEventListener("foresight-sent", toEnd);
    // Gradio rebuilds some elements until the server has drawn the page.
    document.addEventListener("foresight-drawn", () => {
      if (document.activeElement === document.body && document.body.dataset.view === "chat") window.foresight.focusMessage();
    }, { once: true });
  };
})();
