// What is typed outside the chat and not yet sent, chosen in a list, or opened stays in this tab when the page is
// reloaded. Boxes for keys and for servers, whose addresses may be secret, are left out. Other scripts add their part to
// `foresight.kept`: `read` returns what stays, `restore` gets it after the reload.
(() => {
  // {texts: {id: text}, choices: {id: label}, parts: {title: whether it is open}, details: [name], collection: id,
  // others: {part: what its script has read}}
  const KEPT = "foresight-boxes";
  const BOXES = "#chat-search, #document-search-text, #search-text, #paste, #paste-title, #path, #folder, #api-origins, #race-text, #race-lanes .block[id]";
  const LISTS = "#race-lanes .block, #filters .block";
  const [LOOK_MS, WAIT_MS] = [50, 5000];
  const typed = new Map();
  let isRestored = false;
  const boxOf = (id) => document.querySelector(`#${id} :is(textarea, input)`);
  const lists = () => [...document.querySelectorAll(LISTS)].filter((list) => list.id && list.querySelector("[role=combobox]"));
  const titles = () => [...document.querySelectorAll(".label-wrap")];
  const titleOf = (title) => title.textContent.trim();
  const isOpen = (title) => title.classList.contains("open");
  const details = () => [...document.querySelectorAll("details[data-name]:not(.menu)")];
  const collectionButton = (line) => document.querySelector(`#collections li${line} .open`);

  document.addEventListener("input", ({ target }) => {
    const id = target.closest(BOXES)?.id;
    if (id && !target.matches("[role=combobox]")) typed.set(id, target.value);
  });
  // A text that the page has replaced since, for example by the next example, was not typed.
  addEventListener("pagehide", () => {
    if (!isRestored) return;
    const kept = {
      texts: [...typed].filter(([id, text]) => boxOf(id)?.value === text),
      choices: lists().map(({ id }) => [id, boxOf(id).value]),
      parts: titles().map((title) => [titleOf(title), isOpen(title)]),
    };
    const named = Object.entries(kept).map(([what, pairs]) => [what, Object.fromEntries(pairs)]);
    const open = details().filter((each) => each.open).map(({ dataset }) => dataset.name);
    const collection = collectionButton("[aria-current]")?.dataset.name;
    const others = Object.fromEntries(Object.entries(window.foresight.kept).map(([part, { read }]) => [part, read()]));
    sessionStorage.setItem(KEPT, JSON.stringify({ ...Object.fromEntries(named), details: open, collection, others }));
  });

  // Gradio's list of choices is in the page only while it is open, and is pressed there as a user would press it.
  const choose = async (id, label) => {
    const box = boxOf(id);
    if (!box || box.value === label) return;
    box.dispatchEvent(new FocusEvent("focus"));
    await new Promise(requestAnimationFrame);
    [...document.querySelectorAll(`#${id} [role=option]`)].find((option) => option.ariaLabel === label)?.dispatchEvent(new MouseEvent("mousedown", { bubbles: true }));
    box.dispatchEvent(new FocusEvent("blur"));
  };
  // A box may be in the page only after the server knows what was chosen in a list.
  const fill = async (id, text) => {
    for (let waited = 0; !boxOf(id) && waited < WAIT_MS; waited += LOOK_MS) await new Promise((done) => setTimeout(done, LOOK_MS));
    const box = boxOf(id);
    if (!box || box.value === text || typed.has(id)) return;
    box.value = text;
    box.dispatchEvent(new Event("input", { bubbles: true }));
  };
  // The first part is drawn when the server knows the page, so that it can handle the events of the boxes.
  document.addEventListener("foresight-drawn", async () => {
    const { texts = {}, choices = {}, parts = {}, details: open = [], collection, others = {} } = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}");
    for (const title of titles()) if (parts[titleOf(title)] === !isOpen(title)) title.click();
    for (const each of details()) each.open ||= open.includes(each.dataset.name);
    if (collection && collectionButton("[aria-current]")?.dataset.name !== collection) collectionButton(`:has([data-name="${collection}"])`)?.click();
    for (const [part, value] of Object.entries(others)) window.foresight.kept[part]?.restore(value);
    for (const [id, label] of Object.entries(choices)) await choose(id, label);
    await Promise.all(Object.entries(texts).map(([id, text]) => fill(id, text)));
    isRestored = true;
  }, { once: true });
})();
