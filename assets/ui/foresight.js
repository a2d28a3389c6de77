(() => {
  // The views: the button #to-models shows #models. All views stay built, so that changing the view loses nothing.
  const goTo = (view) => {
    document.body.dataset.view = view;
    for (const button of document.querySelectorAll("button[id^=to-]")) {
      button.setAttribute("aria-current", button.id === `to-${view}` ? "page" : "false");
    }
    document.getElementById("view-name").textContent = document.getElementById(`to-${view}`).textContent.trim();
    document.dispatchEvent(new CustomEvent("foresight-view"));
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[id^=to-], #new-chat");
    if (button) goTo(button.id === "new-chat" ? "chat" : button.id.slice("to-".length));
    const other = event.target.closest("button[data-view]");
    if (other) document.getElementById(`to-${other.dataset.view}`).click();
  });

  const closeMenu = (menu) => {
    menu?.removeAttribute("open");
    menu?.querySelector("summary").focus();
  };

  // Redrawing a list removes the focused button; then the button in the same position gets the focus. After a mouse press
  // this is not needed. A message is not a row of a list: only the arrows between its versions stay in their position.
  const keepFocus = (list) => {
    let at = -1;
    const stops = () => [...list.querySelectorAll("button:enabled, summary, a[href]")].filter((each) => each.checkVisibility());
    const stays = (button) => !button.closest(".message") || button.dataset.do === "version";
    list.addEventListener("focusin", ({ target }) => (at = target.matches(":focus-visible") && stays(target) ? stops().indexOf(target) : -1));
    list.addEventListener("focusout", ({ relatedTarget }) => relatedTarget && (at = -1));
    document.addEventListener("pointerdown", () => (at = -1), true); // the focus may have come from the keyboard
    new MutationObserver(() => {
      if (at >= 0 && document.activeElement === document.body) stops().at(Math.min(at, stops().length - 1))?.focus();
    }).observe(list, { childList: true, subtree: true });
  };

  // Buttons inside a list. Rows may move while the mouse button is down, so a click counts only if it ends on the button
  // on which it began. A button with data-ask first asks for words in a box in its row. data-list is the id of a
  // list of suggestions for the box.
  window.foresight = {
    kept: {}, // what stays in this tab when the page is reloaded: see typed.js
    closeMenu,
    isSearchKey({ key, ctrlKey, metaKey, shiftKey, altKey }) {
      return key.toLowerCase() === "k" && (ctrlKey || metaKey) && !shiftKey && !altKey;
    },
    listen(element, trigger) {
      let pressed = null;
      const dataOf = (event) => event.target.closest("[data-do]")?.dataset;
      const send = ({ do: action, name, value }) => trigger("click", { do: action, name, value });
      const valuesOf = (form) => JSON.stringify(Object.fromEntries(new FormData(form)));
      element.addEventListener("pointerdown", (event) => (pressed = { ...dataOf(event) }));
      element.addEventListener("click", (event) => {
        const now = dataOf(event);
        const isSame = event.detail === 0 || (pressed?.do === now?.do && pressed?.name === now?.name);
        if (!now || !isSame) return;
        closeMenu(event.target.closest("details.menu"));
        if ("ask" in now) askInPlace(element, event.target.closest("[data-do]"), send);
        else if ("submit" in now) {
          event.preventDefault();
          send({ ...now, value: valuesOf(event.target.closest("form")) });
        } else send(now);
      });
      // A form with data-form reports each change; Enter presses its button with data-submit.
      element.addEventListener("change", ({ target }) => {
        const form = target.closest("[data-form]");
        if (form) send({ do: form.dataset.form, name: target.name, value: valuesOf(form) });
      });
      element.addEventListener("submit", (event) => event.preventDefault());
      keepFocus(element);
    },
    // Shows a part of the chat's view over the rest, which cannot be pressed or focused meanwhile. "" ends that.
    cover(id) {
      document.body.dataset.over = id;
      for (const one of document.querySelectorAll("#top button, #main > *")) one.inert = id && one.id !== id;
      document.dispatchEvent(new CustomEvent("foresight-covered"));
    },
    // Tabs: #models-tab-discover shows #models-discover. The caller chooses which page is shown.
    labelTabPages(prefix, tabs) {
      for (const tab of tabs) {
        const page = document.getElementById(`${prefix}-${tab}`);
        page.setAttribute("role", "tabpanel");
        page.setAttribute("aria-labelledby", `${prefix}-tab-${tab}`);
      }
    },
    markTab(prefix, chosen) {
      for (const tab of document.querySelectorAll(`[id^=${prefix}-tab-]`)) {
        const isChosen = tab.id === `${prefix}-tab-${chosen}`;
        tab.setAttribute("aria-selected", isChosen);
        tab.tabIndex = isChosen ? 0 : -1;
      }
    },
  };

  // Arrow keys go between tabs.
  document.addEventListener("keydown", (event) => {
    const tabs = [...(event.target.closest?.("[role=tablist]")?.querySelectorAll("[role=tab]") ?? [])];
    const at = tabs.indexOf(event.target);
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: -1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const next = tabs[(to + tabs.length) % tabs.length];
    next.click();
    next.focus();
  });

  // If the list is redrawn while the user types, the box is removed or is in another row. Then the box is put back into
  // the row of its button, if that row still exists.
  const askInPlace = (list, button, send) => {
    const asked = { ...button.dataset };
    const row = () => {
      const buttons = [...list.querySelectorAll("[data-ask]")];
      const now = buttons.find(({ dataset }) => dataset.do === asked.do && dataset.name === asked.name);
      return now && (now.closest("li, .folder-row") ?? now.parentElement);
    };
    const input = Object.assign(document.createElement("input"), { value: asked.value, placeholder: asked.ask, className: "in-place", dir: "auto" });
    input.setAttribute("aria-label", asked.ask);
    if (asked.list) input.setAttribute("list", asked.list);
    const put = () => {
      if (!row() || (row() === input.parentElement && document.activeElement === input)) return;
      const { selectionStart, selectionEnd } = input;
      if (row() !== input.parentElement) {
        list.querySelectorAll(".asking").forEach((other) => other.classList.remove("asking"));
        row().append(input);
      }
      row().classList.add("asking");
      input.focus();
      input.setSelectionRange(selectionStart, selectionEnd);
    };
    const drawn = new MutationObserver(put);
    let isOver = false; // removing a focused box blurs the box, which calls `end` a second time
    const end = (isMeant, isByKey) => {
      if (isOver) return;
      isOver = true;
      drawn.disconnect();
      input.parentElement?.classList.remove("asking");
      input.remove();
      if (isByKey) row()?.querySelector("summary, [data-ask]")?.focus(); // the element from which the box was opened
      if (isMeant) send({ ...asked, value: input.value.trim() });
    };
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.preventDefault(); // else the element that gets the focus is pressed, too
      event.stopPropagation();
      end(event.key === "Enter", true);
    });
    // Waits a moment, because redrawing the list may give the focus back to the box.
    input.addEventListener("blur", () => setTimeout(() => document.activeElement !== input && end(false)));
    put();
    input.select();
    drawn.observe(list, { childList: true, subtree: true });
  };

  // In every box, text runs in its own direction; Gradio sets the page's direction on its boxes.
  document.addEventListener("focusin", ({ target }) => {
    if (target.matches("textarea, input[type=text]") && !target.closest("#json-schema")) target.dir = "auto";
  });

  // Keys of an input method only compose text: no handler gets the Enter that ends a word, or the Escape that cancels it.
  for (const kind of ["keydown", "keypress", "keyup"]) {
    addEventListener(kind, (event) => (event.isComposing || event.keyCode === 229) && event.stopImmediatePropagation(), true);
  }

  // Gradio's text boxes report only typed characters. Deleting, pasting, cutting and composing are reported here, as the
  // press of a key without a name.
  document.addEventListener("input", ({ target }) => {
    if (!target.matches("[data-testid=textbox]")) return;
    target.dispatchEvent(new KeyboardEvent("keypress", { key: "Unidentified", bubbles: true }));
  });

  // Gradio's lists of choices stay open if they see the Tab that leaves them.
  document.addEventListener("keydown", (event) => event.key === "Tab" && event.target.matches("[role=combobox]") && event.stopPropagation(), true);

  // Shows the chat's view before other scripts focus the search there.
  document.addEventListener("keydown", (event) => {
    if (window.foresight.isSearchKey(event)) goTo("chat");
  }, true);

  // An open menu handles Escape before everything around it.
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && document.querySelector("details.menu[open]");
    if (!menu) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    closeMenu(menu);
  }, true);

  // A message's menu opens above its button, or below it if there is no room above, and is scrolled into view.
  document.addEventListener("toggle", ({ target: menu }) => {
    if (!menu.matches("#main .message details.menu")) return;
    const room = menu.getBoundingClientRect().top - document.querySelector("#main").getBoundingClientRect().top;
    menu.classList.toggle("below", menu.lastElementChild.offsetHeight > room);
    if (menu.open) menu.lastElementChild.scrollIntoView({ block: "nearest" });
  }, true);

  // A menu closes when the user clicks outside of it.
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.removeAttribute("open");
    }
  });

  // An element that had the focus may be gone or hidden. Then a button beside it gets the focus, such as Stop after Start,
  // or else the beginning of the view; in a chat, the message box.
  const isGone = (element) => element === document.body || !element.checkVisibility();
  const giveFocus = (element) => {
    const { view } = document.body.dataset;
    const beside = () => [...(element.parentElement?.children ?? [])].find((each) => each.matches("button") && !isGone(each));
    const instead = () => (view === "chat" ? document.querySelector("#message textarea") : beside() ?? document.getElementById(`to-${view}`));
    (isGone(element) ? instead() : element)?.focus();
  };

  // Waits a moment, because a redrawn list may give the focus to the button that is now in the same position.
  let held = null; // the control that has the focus, or that disappeared with it
  document.addEventListener("focusin", ({ target }) => (held = target.matches("button, summary, input, textarea, select, a[href]") ? target : null));
  document.addEventListener("focusout", ({ target }) => queueMicrotask(() => held === target && !isGone(target) && (held = null)));
  document.addEventListener("foresight-drawn", () =>
    setTimeout(() => held && isGone(held) && [document.body, held].includes(document.activeElement) && giveFocus(held)),
  );

  // A question gives the focus to its element with data-focus, or else to its last button, which changes nothing. When the
  // question ends, the focus returns. A redrawn question takes the focus again only if no element has the focus, because a
  // list in the question may change all the time.
  const focusQuestions = (place) => {
    let before = null;
    const stopsOf = () => [...place.querySelectorAll(".question :is(button, select, input:checked, input[type=checkbox])")].filter((each) => !each.matches(":disabled"));
    new MutationObserver(() => {
      const buttons = stopsOf();
      const isLost = !before || document.activeElement === document.body;
      if (buttons.length && isLost && !buttons.includes(document.activeElement)) {
        before ??= document.activeElement;
        (place.querySelector("[data-focus]") ?? buttons.at(-1)).focus();
      } else if (!buttons.length && before) {
        giveFocus(before);
        before = null;
      }
    }).observe(place, { childList: true, subtree: true });
    place.addEventListener("keydown", (event) => {
      const buttons = stopsOf();
      if (event.key === "Escape") buttons.at(-1)?.click();
      if (event.key !== "Tab" || !buttons.length) return;
      event.preventDefault();
      const step = event.shiftKey ? buttons.length - 1 : 1;
      buttons[(buttons.indexOf(document.activeElement) + step) % buttons.length].focus();
    });
  };

  // Gradio's loading screen leaves a timer that requests every frame, 60 times a second, and draws nothing. Requests
  // are numbered: if each of 60 frames has exactly one other request, it comes from that timer, whose next frame is
  // then cancelled.
  const endLoadingTimer = (before = 0, alone = 0, timed = 0) => {
    if (alone === 60) return;
    const next = requestAnimationFrame(() => endLoadingTimer(next, next - before === 1 ? alone + 1 : 0, next - before === 2 ? timed + 1 : 0));
    if (timed === 60) [next - 1, next].forEach((frame) => cancelAnimationFrame(frame));
  };

  // Gradio makes the header of a toast a button around the button that closes the toast.
  const unmakeHeaders = (toasts) =>
    new MutationObserver(() => {
      for (const header of toasts.querySelectorAll(".toast-header")) ["role", "tabindex"].forEach((name) => header.removeAttribute(name));
    }).observe(toasts, { childList: true });

  const QUESTIONS = 4; // two of the models, one of the chat, and one of the settings
  const VIEWS = 5;

  // Gradio builds the page after this script has run.
  const whenBuilt = new MutationObserver(() => {
    const thread = document.getElementById("thread");
    const questions = document.querySelectorAll("#question, .block.asks");
    const buttons = document.querySelectorAll("button[id^=to-]");
    if (!thread || questions.length < QUESTIONS || buttons.length < VIEWS) return;
    whenBuilt.disconnect();
    window.foresight.keepAtEnd(thread);
    questions.forEach(focusQuestions);
    unmakeHeaders(document.querySelector(".toast-wrap"));
    goTo(window.foresight.firstView());
    endLoadingTimer();
  });
  whenBuilt.observe(document, { childList: true, subtree: true });
})();
