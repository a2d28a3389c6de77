// The sidebar. Beside the chat, it is resized at its edge and hidden by a button or Ctrl+B, which the browser remembers.
// If there is no room beside the chat, it lies over the chat: a button opens it; Escape, a press beside it, or opening a
// chat closes it.
(() => {
  const HIDDEN = "foresight-sidebar"; // "hidden"
  const WIDTH = "foresight-sidebar-width";
  const [LEAST, MOST, STEP] = [180, 520, 16];
  const WAIT_MS = 3000;
  const root = document.documentElement;
  const beside = window.matchMedia("(min-width: 1121px)");

  const isShown = () => (beside.matches ? root.dataset.sidebar !== "hidden" : document.body.dataset.over === "sidebar");
  const show = (shown) => {
    if (shown === isShown()) return;
    if (beside.matches) {
      root.dataset.sidebar = shown ? "shown" : "hidden";
      localStorage.setItem(HIDDEN, root.dataset.sidebar);
    } else window.foresight.cover(shown ? "sidebar" : "");
    updateButton();
    document.querySelector(shown ? "#new-chat" : "#open-chats")?.focus();
  };
  const updateButton = () => document.getElementById("open-chats")?.setAttribute("aria-expanded", isShown());
  const isOver = () => !beside.matches && isShown();

  // The width. If the user has not chosen one, the stylesheet's applies.
  const edge = () => document.querySelector("#sidebar-edge [role=separator]");
  const currentWidth = () => document.getElementById("sidebar").getBoundingClientRect().width;
  const resize = (width) => {
    const kept = Math.round(Math.min(MOST, Math.max(LEAST, width)));
    root.style.setProperty("--list", `${kept}px`);
    edge()?.setAttribute("aria-valuenow", kept);
    localStorage.setItem(WIDTH, kept);
  };
  const reset = () => {
    root.style.removeProperty("--list");
    localStorage.removeItem(WIDTH);
    edge().setAttribute("aria-valuenow", Math.round(currentWidth()));
  };
  const listenToEdge = (handle) => {
    Object.entries({ valuemin: LEAST, valuemax: MOST, valuenow: Math.round(currentWidth()) }).forEach(([name, value]) =>
      handle.setAttribute(`aria-${name}`, value));
    handle.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      handle.focus();
      handle.setPointerCapture(event.pointerId);
    });
    handle.addEventListener("pointermove", (event) => handle.hasPointerCapture(event.pointerId) && resize(event.clientX));
    handle.addEventListener("dblclick", reset);
    handle.addEventListener("keydown", ({ key }) => {
      const step = { ArrowLeft: -STEP, ArrowRight: STEP }[key];
      if (step) resize(currentWidth() + step);
      else if (key === "Home") resize(LEAST);
      else if (key === "End") resize(MOST);
      else if (key === "Enter") reset();
    });
  };

  const whenBuilt = new MutationObserver(() => {
    const button = document.getElementById("hide-sidebar");
    if (!edge() || !button || !document.getElementById("open-chats")) return;
    whenBuilt.disconnect();
    root.dataset.sidebar = localStorage.getItem(HIDDEN) ?? "shown";
    const kept = Number(localStorage.getItem(WIDTH));
    if (kept) resize(kept);
    button.setAttribute("aria-label", "Hide the sidebar");
    button.title = "Hide the sidebar (Ctrl+B)";
    listenToEdge(edge());
    updateButton();
  });
  whenBuilt.observe(document, { childList: true, subtree: true });
  beside.addEventListener("change", () => window.foresight.cover(""));
  document.addEventListener("foresight-covered", updateButton);

  document.addEventListener("click", (event) => {
    if (event.target.closest("#open-chats")) show(true);
    else if (event.target.closest("#hide-sidebar")) show(false);
    else if (isOver() && (!event.target.closest("#sidebar, #undo") || event.target.closest("[data-do=open], #begin button"))) show(false);
    if (event.target.closest("#undo .hide-undo")) event.target.closest(".undo").hidden = true;
  });

  // The list by the keyboard: arrow keys lead from the search to the chats and between them; Enter in the search opens
  // the first found chat, Escape clears the search.
  const search = () => document.querySelector("#chat-search :is(input, textarea)");
  const chats = () => [...document.querySelectorAll("#chats button.open")];
  const clearSearch = () => {
    const box = search();
    box.value = "";
    box.dispatchEvent(new Event("input", { bubbles: true }));
    box.focus();
  };
  const move = (from, step) => {
    const all = chats();
    const at = all.indexOf(from) + step;
    if (at < 0) search().focus();
    else all[Math.min(at, all.length - 1)]?.focus();
  };
  // The list may not show the newest search yet; then Enter waits for it.
  const isListed = () => document.querySelector("#chats nav")?.dataset.search === search().value.trim();
  const openFirst = () => {
    if (isListed()) return chats()[0]?.click();
    const drawn = new MutationObserver(() => {
      if (!isListed()) return;
      drawn.disconnect();
      chats()[0]?.click();
    });
    drawn.observe(document.getElementById("chats"), { childList: true, subtree: true });
    setTimeout(() => drawn.disconnect(), WAIT_MS);
  };
  const inList = (event) => {
    const isSearch = event.target === search();
    const isChat = event.target.matches?.("#chats button.open");
    if (!(isSearch || isChat)) return false;
    if (event.key === "Escape" && search().value) clearSearch();
    else if (event.key === "ArrowDown") move(event.target, 1);
    else if (event.key === "ArrowUp" && isChat) move(event.target, -1);
    else if (event.key === "Enter" && isSearch && search().value.trim()) openFirst();
    else return false;
    return true;
  };

  // Ctrl+Z restores what was deleted last, unless the focused box has typed text to undo.
  const undo = ({ key, ctrlKey, metaKey, shiftKey, altKey, target }) => {
    const isUndo = key.toLowerCase() === "z" && (ctrlKey || metaKey) && !shiftKey && !altKey;
    const hasText = target.matches?.("textarea, input:not([type=range], [type=checkbox])") && target.value;
    const button = isUndo && !hasText && document.querySelector("#undo [data-do=undo]");
    button && button.click();
    return Boolean(button);
  };
  const toggle = ({ key, ctrlKey, metaKey, shiftKey, altKey }) => {
    const isToggle = key.toLowerCase() === "b" && (ctrlKey || metaKey) && !shiftKey && !altKey && document.body.dataset.view === "chat";
    if (isToggle) show(!isShown());
    return isToggle;
  };
  document.addEventListener("keydown", (event) => {
    if (window.foresight.isSearchKey(event)) return show(true);
    const isDone = inList(event) || undo(event) || toggle(event);
    const isClosed = !isDone && event.key === "Escape" && isOver() && !event.target.closest(".in-place");
    if (isClosed) show(false);
    if (isDone || isClosed) event.stopPropagation();
    if (isDone) event.preventDefault();
  }, true);
})();
// Drags a chat into a folder, or out of its folder. The chat's menu does the same by the keyboard.
(() => {
  let dragged = ""; // the chat's id
  const place = (target) => target.closest?.("#chats nav") && (target.closest(".folder, .folder + ul") ?? target.closest("#chats nav"));
  const nameOf = (where) => (where.matches("ul") ? where.previousElementSibling : where).querySelector(":scope .fold")?.dataset.name ?? "";
  const mark = (where) => {
    for (const one of document.querySelectorAll("#chats .drop-here")) if (one !== where) one.classList.remove("drop-here");
    where?.classList.add("drop-here");
  };
  document.addEventListener("dragstart", ({ target, dataTransfer }) => {
    dragged = target.closest?.(".chat-line")?.querySelector(".open").dataset.name ?? "";
    if (dragged) dataTransfer.setData("text/plain", target.closest(".chat-line").querySelector(".open").title);
  });
  document.addEventListener("dragover", (event) => {
    const where = dragged && place(event.target);
    if (where) event.preventDefault();
    if (dragged) mark(where);
  });
  document.addEventListener("drop", (event) => {
    const where = dragged && place(event.target);
    if (!where) return;
    event.preventDefault();
    const folder = where.matches("nav") ? "" : nameOf(where);
    const button = Object.assign(document.createElement("button"), { hidden: true });
    Object.assign(button.dataset, { do: "move", name: dragged, value: folder });
    where.append(button);
    button.click();
    button.remove();
  });
  document.addEventListener("dragend", () => {
    dragged = "";
    mark(null);
  });
})();
