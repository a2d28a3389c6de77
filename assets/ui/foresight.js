(() => {
  // The thread stays at its end while text arrives, unless the person scrolled up to read.
  const keepAtEnd = (thread) => {
    let atEnd = true;
    const scrollToEnd = () => atEnd && (thread.scrollTop = thread.scrollHeight);
    thread.addEventListener("scroll", () => {
      atEnd = thread.scrollHeight - thread.scrollTop - thread.clientHeight < 48;
    });
    new MutationObserver(scrollToEnd).observe(thread, {
      childList: true, subtree: true, characterData: true,
    });
  };

  // Views, of which the chat opens first: #to-models leads to #models. All stay built, so that going between
  // them loses nothing.
  const goTo = (view) => {
    document.body.dataset.view = view;
    for (const button of document.querySelectorAll("button[id^=to-]")) {
      button.setAttribute("aria-current", button.id === `to-${view}` ? "page" : "false");
    }
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[id^=to-], #new-chat");
    if (button) goTo(button.id === "new-chat" ? "chat" : button.id.slice("to-".length));
  });

  // Buttons inside a list. Rows move up while others go: what counts is the button that was pressed down on.
  // One with data-ask asks for words first, in place, and suggests those of its data-list.
  window.foresight = {
    listen(element, trigger) {
      let pressed = null;
      const said = (event) => event.target.closest("[data-do]")?.dataset;
      const say = ({ do: deed, name, value }) => trigger("click", { do: deed, name, value });
      element.addEventListener("pointerdown", (event) => (pressed = { ...said(event) }));
      element.addEventListener("click", (event) => {
        const now = said(event);
        const isSame = event.detail === 0 || (pressed?.do === now?.do && pressed?.name === now?.name);
        if (!now || !isSame) return;
        event.target.closest("details.menu")?.removeAttribute("open");
        if ("ask" in now) askInPlace(event.target.closest("[data-do]"), say);
        else say(now);
      });
    },
  };

  const askInPlace = (button, say) => {
    const row = button.closest("li, .folder") ?? button.parentElement;
    const input = Object.assign(document.createElement("input"), { value: button.dataset.value });
    input.setAttribute("aria-label", button.dataset.ask);
    input.placeholder = button.dataset.ask;
    input.className = "in-place";
    if (button.dataset.list) input.setAttribute("list", button.dataset.list);
    let isOver = false; // taking a box away that has the focus blurs it, which would end it a second time
    const end = (isMeant) => {
      if (isOver) return;
      isOver = true;
      row.classList.remove("asking");
      input.remove();
      if (isMeant) say({ ...button.dataset, value: input.value.trim() });
    };
    input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== "Escape") return;
      event.stopPropagation();
      end(event.key === "Enter");
    });
    input.addEventListener("blur", () => end(false));
    row.classList.add("asking");
    row.append(input);
    input.select();
    input.focus();
  };

  // Gradio's text boxes tell of characters that are typed and of nothing else that changes them. What is deleted,
  // pasted, cut or composed is told here: as the press of a key that has no name.
  document.addEventListener("input", ({ target }) => {
    if (!target.matches("[data-testid=textbox]")) return;
    target.dispatchEvent(new KeyboardEvent("keypress", { key: "Unidentified", bubbles: true }));
  });

  // A menu closes when the person turns elsewhere.
  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      if (!menu.contains(event.target)) menu.removeAttribute("open");
    }
  });

  // A question takes the focus, on the answer that changes nothing, and gives it back. One that is drawn anew takes it
  // again only if nothing else has it: the list that it stands in may change all the time.
  const heedQuestions = (place) => {
    let before = null;
    new MutationObserver(() => {
      const buttons = place.querySelectorAll(".question button");
      const isLost = !before || document.activeElement === document.body;
      if (buttons.length && isLost && ![...buttons].includes(document.activeElement)) {
        before ??= document.activeElement;
        buttons[buttons.length - 1].focus();
      } else if (!buttons.length && before) {
        before.focus();
        before = null;
      }
    }).observe(place, { childList: true, subtree: true });
    place.addEventListener("keydown", (event) => {
      const buttons = [...place.querySelectorAll(".question button")];
      if (event.key === "Escape") buttons.at(-1)?.click();
      if (event.key !== "Tab" || !buttons.length) return;
      event.preventDefault();
      const step = event.shiftKey ? buttons.length - 1 : 1;
      buttons[(buttons.indexOf(document.activeElement) + step) % buttons.length].focus();
    });
  };

  const QUESTIONS = 4; // the models', the chat's, and in place those of the two lists of documents
  const WAYS = 5; // to the views

  // Gradio builds the page some time after this script has run.
  const whenBuilt = new MutationObserver(() => {
    const thread = document.getElementById("thread");
    const questions = document.querySelectorAll("#question, .block.asks");
    const ways = document.querySelectorAll("button[id^=to-]");
    if (!thread || questions.length < QUESTIONS || ways.length < WAYS) return;
    whenBuilt.disconnect();
    keepAtEnd(thread);
    questions.forEach(heedQuestions);
    goTo("chat");
  });
  whenBuilt.observe(document, { childList: true, subtree: true });
})();
