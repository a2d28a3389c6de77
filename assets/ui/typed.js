// Texts that are typed outside the chat and not yet sent stay in this tab when the page is reloaded. Boxes for keys and
// for servers, whose addresses may be secret, are left out.
(() => {
  const KEPT = "foresight-boxes"; // {id: text}
  const BOXES = ["race-text", "race-tokens", "paste", "paste-title"];
  const typed = new Map();
  const boxOf = (id) => document.querySelector(`#${id} :is(textarea, input)`);

  document.addEventListener("input", ({ target }) => {
    const id = target.closest(BOXES.map((each) => `#${each}`).join())?.id;
    if (id) typed.set(id, target.value);
  });
  // A text that the page has replaced since, for example by the next example, was not typed.
  addEventListener("pagehide", () => {
    const kept = [...typed].filter(([id, text]) => boxOf(id)?.value === text);
    sessionStorage.setItem(KEPT, JSON.stringify(Object.fromEntries(kept)));
  });
  // The first part is drawn when the server knows the page, so that it can handle the events of the boxes.
  document.addEventListener("foresight-drawn", () => {
    for (const [id, text] of Object.entries(JSON.parse(sessionStorage.getItem(KEPT) ?? "{}"))) {
      boxOf(id).value = text;
      boxOf(id).dispatchEvent(new Event("input", { bubbles: true }));
    }
    sessionStorage.removeItem(KEPT);
  }, { once: true });
})();
