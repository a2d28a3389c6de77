// The thread: copying, editing in place, details, colours. The server may redraw a thread's HTML at any time, so what the
// user opened and typed is kept here by message, and after a reload in this tab, except for private chats.
(() => {
  const COPIED_MS = 1500;
  const shown = new Set(); // "12 details"
  const drafts = new Map(); // message -> text
  const thoughts = new Map(); // message -> whether the user has opened its thought

  const idOf = (element) => element.closest(".message")?.dataset.message;
  const key = (message, what) => `${message} ${what}`;
  const rawText = (message) => message.querySelector(".raw").textContent;

  // Assigns only values that differ, because the observer below would take any assignment for a change.
  const set = (element, name, value) => element[name] !== value && (element[name] = value);

  const apply = (message) => {
    const id = message.dataset.message;
    message.classList.toggle("in-colour", shown.has(key(id, "colours")));
    for (const what of ["editor", "details"]) {
      const part = message.querySelector(`.${what}`);
      if (part) set(part, "hidden", !shown.has(key(id, what)));
    }
    const box = message.querySelector(".editor:not([hidden]) textarea");
    if (box) set(box, "value", drafts.get(id) ?? rawText(message));
    const thought = message.querySelector("details.thought");
    if (thought && thoughts.has(id)) set(thought, "open", thoughts.get(id));
    for (const button of message.querySelectorAll("[data-show][aria-expanded]")) {
      button.setAttribute("aria-expanded", shown.has(key(id, button.dataset.show)));
    }
  };

  window.foresight.kept.messages = {
    read: () => {
      const stays = (one) => !window.foresight.isPrivate(parseInt(one)) && !one.endsWith("colours"); // the server draws these
      return [[...shown], [...drafts], [...thoughts]].map((each) => each.filter((one) => stays([one].flat()[0])));
    },
    restore: ([were, ofDrafts, ofThoughts]) => {
      were.forEach((one) => shown.add(one));
      ofDrafts.forEach((one) => drafts.set(...one));
      ofThoughts.forEach((one) => thoughts.set(...one));
      document.querySelectorAll(".message[data-message]").forEach(apply);
    },
  };

  // If an edited question is sent, the thread gets a new version of it, and only then is its box closed. If it is
  // refused, the box stays.
  const settle = (message) => {
    const versions = message.dataset.versions?.split(" ") ?? [];
    for (const id of versions.filter((version) => version !== message.dataset.message)) {
      if (drafts.get(id)?.trim() !== rawText(message).trim()) continue;
      drafts.delete(id);
      shown.delete(key(id, "editor"));
    }
  };

  const toggle = (message, what) => {
    const name = key(message.dataset.message, what);
    if (!shown.delete(name)) shown.add(name);
    if (what === "editor") drafts.delete(message.dataset.message);
    apply(message);
    message.querySelector(`.${what}:not([hidden])`)?.scrollIntoView({ block: "nearest" }); // scroll down to it
    if (what !== "editor") return;
    const box = message.querySelector(".editor:not([hidden]) textarea");
    (box ?? message.querySelector("footer [data-show=editor]")).focus();
  };

  const copy = async (button) => {
    const code = button.closest(".code")?.querySelector("code");
    const isCode = button.dataset.copy === "code" && code;
    const text = isCode ? code.textContent : rawText(button.closest(".message"));
    button.textContent = await navigator.clipboard.writeText(text).then(() => "Copied", () => "Copy failed");
    setTimeout(() => (button.textContent = "Copy"), COPIED_MS);
  };

  // `foresight.listen` sends a button's action to the server. This does what the page has to do before.
  const accompany = (event, button) => {
    const message = button.closest(".message");
    if (button.dataset.do === "colours") {
      shown.add(key(idOf(button), "colours"));
    } else if (button.dataset.do.startsWith("edit")) {
      const text = message.querySelector(".editor textarea").value;
      if (!text.trim() || event.detail > 1) return event.stopImmediatePropagation(); // ignore the second click of a double click
      button.dataset.value = text;
      drafts.set(idOf(button), text);
    }
  };

  const clicked = (event) => {
    const thought = event.target.closest(".thought > summary")?.parentElement;
    if (thought) thoughts.set(idOf(thought), !thought.open);
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.copy) copy(button);
    else if (button.dataset.show) {
      window.foresight.closeMenu(button.closest("details.menu"));
      toggle(button.closest(".message"), button.dataset.show);
    }
    else if (button.dataset.do) accompany(event, button);
  };

  const typed = (event) => {
    const editor = event.target.closest(".editor");
    if (!editor) return;
    if (event.key === "Escape") {
      event.preventDefault();
      toggle(editor.closest(".message"), "editor");
    } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.repeat) {
      event.preventDefault();
      editor.querySelector("[data-do]").click();
    }
  };

  // Keeps the visible text in place while earlier messages are inserted above it.
  const staying = (element) => {
    const first = () => element.querySelector(".message")?.dataset.message;
    let before = null;
    element.addEventListener("click", ({ target }) => {
      const thread = target.closest("[data-do=earlier]") && document.getElementById("thread");
      if (thread) before = { first: first(), above: thread.scrollHeight - thread.scrollTop };
    });
    return () => {
      if (!before || first() === before.first) return;
      const thread = document.getElementById("thread");
      thread.scrollTop = thread.scrollHeight - before.above;
      before = null;
    };
  };

  // Call before `foresight.listen(element, trigger)`, for each element that has messages.
  window.foresight.thread = (element) => {
    const stay = staying(element);
    element.addEventListener("click", clicked, true);
    element.addEventListener("keydown", typed);
    element.addEventListener("input", (event) => {
      if (event.target.closest(".editor")) drafts.set(idOf(event.target), event.target.value);
    });
    const applyAll = () => {
      element.querySelectorAll(".message[data-versions]").forEach(settle);
      element.querySelectorAll(".message[data-message]").forEach(apply);
      stay();
    };
    const options = { childList: true, subtree: true, attributes: true, attributeFilter: ["hidden", "class", "open", "data-message", "data-versions"] };
    new MutationObserver(applyAll).observe(element, options);
    applyAll();
  };

  // Escape stops the reply, unless the focus is in a box other than the message box, because such a box handles Escape
  // itself. Ctrl+K searches.
  const mayStop = (target) =>
    document.getElementById("stop")?.offsetParent &&
    !document.querySelector(":is(#question, #chat-question) .question") &&
    (!target.closest("input, textarea, select") || target.closest("#composer"));

  document.addEventListener("keydown", (event) => {
    if (event.defaultPrevented) return;
    if (event.key === "Escape" && mayStop(event.target)) document.getElementById("stop").click();
    if (!window.foresight.isSearchKey(event)) return;
    const search = document.querySelector("#chat-search :is(input, textarea)");
    if (!search) return;
    event.preventDefault();
    search.focus();
    search.select();
  });
})();

// The collection picker above the message box. The server may redraw it at any time, so its state and its focused choice
// are kept here.
(() => {
  const isOpen = () => document.body.dataset.collections === "open";
  const button = () => document.querySelector(".collection-picker > .open");
  let focused = ""; // the choice that was pressed last

  const updateButton = () => {
    const state = String(isOpen());
    if (button() && button().getAttribute("aria-expanded") !== state) button().setAttribute("aria-expanded", state);
  };
  const show = (open) => {
    if (open) document.body.dataset.collections = "open";
    else delete document.body.dataset.collections;
    focused = "";
    updateButton();
  };

  // Call before `foresight.listen(element, trigger)`.
  window.foresight.collectionPicker = (element) => {
    element.addEventListener("click", ({ target }) => {
      if (target.closest(".collection-picker > .open")) show(!isOpen());
      focused = target.closest("[data-do^=choose-]")?.dataset.name ?? "";
    });
    const drawn = () => {
      if (!button()) show(false);
      updateButton();
      if (focused && document.activeElement === document.body) element.querySelector(`[data-name="${CSS.escape(focused)}"]`)?.focus();
    };
    const options = { childList: true, subtree: true, attributes: true, attributeFilter: ["aria-expanded"] };
    new MutationObserver(drawn).observe(element, options);
    drawn();
  };

  // The press may have redrawn the pressed element; then the element is no longer in the document.
  document.addEventListener("click", ({ target }) => {
    if (isOpen() && target.isConnected && !target.closest("#collection-picker")) show(false);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !isOpen()) return;
    event.stopPropagation();
    show(false);
    button()?.focus();
  }, true);
})();
