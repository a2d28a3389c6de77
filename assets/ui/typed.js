// What is typed outside the chat and not yet sent, chosen in a list, or opened stays in this tab when the page is
// reloaded. Boxes for keys and for servers, whose addresses may be secret, are left out.
(() => {
  const KEPT = "foresight-boxes"; // {texts: {id: text}, choices: {id: label}, parts: {title: whether it is open}}
  const BOXES = "#race-text, #race-tokens, #paste, #paste-title, #path";
  const LISTS = "#race-lanes .block, #filters .block";
  const typed = new Map();
  const boxOf = (id) => document.querySelector(`#${id} :is(textarea, input)`);
  const lists = () => [...document.querySelectorAll(LISTS)].filter((list) => list.id && list.querySelector("[role=combobox]"));
  const titles = () => [...document.querySelectorAll(".label-wrap")];
  const titleOf = (title) => title.textContent.trim();
  const isOpen = (title) => title.classList.contains("open");

  document.addEventListener("input", ({ target }) => {
    const id = target.closest(BOXES)?.id;
    if (id) typed.set(id, target.value);
  });
  // A text that the page has replaced since, for example by the next example, was not typed.
  addEventListener("pagehide", () => {
    const texts = [...typed].filter(([id, text]) => boxOf(id)?.value === text);
    const choices = lists().map(({ id }) => [id, boxOf(id).value]);
    const parts = titles().map((title) => [titleOf(title), isOpen(title)]);
    const [ofTexts, ofChoices, ofParts] = [texts, choices, parts].map(Object.fromEntries);
    sessionStorage.setItem(KEPT, JSON.stringify({ texts: ofTexts, choices: ofChoices, parts: ofParts }));
  });

  // Gradio's list of choices is in the page only while it is open, and is pressed there as a user would press it.
  const choose = async (id, label) => {
    const box = boxOf(id);
    if (!box || box.value === label) return;
    box.dispatchEvent(new FocusEvent("focus"));
    await new Promise(requestAnimationFrame);
    [...document.querySelectorAll("[role=option]")].find((option) => option.ariaLabel === label)?.dispatchEvent(new MouseEvent("mousedown", { bubbles: true }));
    box.dispatchEvent(new FocusEvent("blur"));
  };
  // The first part is drawn when the server knows the page, so that it can handle the events of the boxes.
  document.addEventListener("foresight-drawn", async () => {
    const { texts = {}, choices = {}, parts = {} } = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
    sessionStorage.removeItem(KEPT);
    for (const title of titles()) if (parts[titleOf(title)] === !isOpen(title)) title.click();
    for (const [id, text] of Object.entries(texts)) {
      boxOf(id).value = text;
      boxOf(id).dispatchEvent(new Event("input", { bubbles: true }));
    }
    for (const [id, label] of Object.entries(choices)) await choose(id, label);
  }, { once: true });
})();
