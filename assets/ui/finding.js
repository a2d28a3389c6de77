// Opens a found chat at the message that has the words of the search, and highlights the words. All messages are drawn
// before the browser searches the page or prints it.
(() => {
  const WAIT_MS = 5000;
  const view = () => document.body.dataset.view;
  const earlier = () => document.querySelector("#messages [data-do=earlier]");
  const drawAll = () => {
    const button = earlier();
    if (button) button.dataset.value = "all";
    button?.click();
    return Boolean(button);
  };
  // Calls `then` once `isSo` holds after something was drawn. Gives up after WAIT_MS.
  const whenDrawn = (isSo, then) => {
    const until = performance.now() + WAIT_MS;
    const look = () => {
      const isDone = isSo();
      if (isDone || performance.now() > until) document.removeEventListener("foresight-drawn", look);
      if (isDone) then();
    };
    document.addEventListener("foresight-drawn", look);
  };

  // Compares as the search does: without case and accents, character for character, at the beginning of words.
  const folded = (text) => text.replace(/./gsu, (one) => {
    const low = one.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();
    return low.length === one.length ? low : one;
  });
  const rangesIn = (element, words) => {
    const ranges = [];
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let node = texts.nextNode(); node; node = texts.nextNode()) {
      const text = folded(node.data);
      for (const word of words) {
        for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
          const begins = !/[\p{L}\p{N}]$/u.test(text.slice(0, at)) || /^[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Thai}]/u.test(word);
          if (begins) ranges.push(new StaticRange({ startContainer: node, startOffset: at, endContainer: node, endOffset: at + word.length }));
        }
      }
    }
    return ranges;
  };
  const showFound = (message, words) => {
    const ranges = rangesIn(message.querySelector(".said"), folded(words).split(/[^\p{L}\p{N}]+/u).filter(Boolean));
    CSS.highlights?.set("found", new Highlight(...ranges));
    const first = ranges[0]?.startContainer.parentElement;
    first?.closest("details")?.setAttribute("open", "");
    (first ?? message).scrollIntoView({ block: "center" });
  };
  document.addEventListener("click", ({ target }) => {
    const hit = target.closest("#chats .open, #begin button");
    if (hit) CSS.highlights?.delete("found");
    if (!hit?.dataset.value) return;
    const words = document.querySelector("#chats nav").dataset.search;
    const { name: chat, value } = hit.dataset;
    const message = () => location.hash.endsWith(`/${chat}`) && document.querySelector(`#messages [data-message="${value}"]`);
    // Waits a moment, because the thread first scrolls to its end.
    whenDrawn(message, () => setTimeout(() => message() && showFound(message(), words), 50));
  });

  const print = () => setTimeout(() => window.print(), 50);
  document.addEventListener("click", ({ target }) => {
    const chat = target.closest("[data-do=print]")?.dataset.name;
    if (chat) whenDrawn(() => location.hash.endsWith(`/${chat}`) && document.querySelector("#messages .message") && !earlier(), print);
  });
  document.addEventListener("keydown", (event) => {
    const isPlain = (event.ctrlKey || event.metaKey) && !event.shiftKey && !event.altKey && view() === "chat";
    const key = isPlain ? event.key.toLowerCase() : "";
    if (key === "f") drawAll(); // then the browser searches
    if (key !== "p" || !earlier()) return;
    event.preventDefault();
    whenDrawn(() => !earlier(), print);
    drawAll();
  });
  let wasDark = false;
  addEventListener("beforeprint", () => {
    wasDark = document.body.classList.contains("dark");
    document.body.classList.remove("dark");
  });
  addEventListener("afterprint", () => document.body.classList.toggle("dark", wasDark));
})();
