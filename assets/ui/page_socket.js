// Draws the page: a WebSocket brings the parts that changed. See app/ui/frame/page_connections.py.
(() => {
  const UNKNOWN_PAGE = 4404;
  const RETRY_MS = [250, 500, 1000, 2000];
  const ACTIVE_MS = 1000;
  const NOTE_MS = 4000;
  const MOST = 1e7; // characters: only the beginning of a longer text fits into a message of the WebSocket (serving.py)
  const note = Object.assign(document.createElement("div"), { id: "connection", role: "status", hidden: true });

  const inside = (element) => element.querySelector(".prose") ?? element;
  const label = (button, text) => {
    const words = [...button.childNodes].find((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    words ? (words.data = text) : button.append(text);
  };

  // If the focused button is redrawn, the new button of the same name gets the focus. A menu has a name, too.
  const CLICKED = "button, summary, input:is([type=radio], [type=checkbox]), a[href]";
  const PRESSED = `${CLICKED}, select`;
  const redraw = (place, html) => {
    const held = document.activeElement;
    const isHeld = held.matches(PRESSED) && place.contains(held);
    const nameOf = ({ dataset, parentElement }) => JSON.stringify(dataset.do ? [dataset.do, dataset.name] : parentElement.dataset.name);
    const name = nameOf(held);
    const at = isHeld ? [...place.querySelectorAll(PRESSED)].indexOf(held) : -1;
    const open = [...place.querySelectorAll("details[open][data-name]")].map(({ dataset }) => dataset.name);
    place.innerHTML = html;
    for (const each of place.querySelectorAll("details[data-name]")) each.open ||= open.includes(each.dataset.name);
    if (!isHeld || document.activeElement !== document.body) return;
    const buttons = [...place.querySelectorAll(PRESSED)];
    (name ? buttons.find((each) => nameOf(each) === name) : buttons[at])?.focus();
  };

  // A button that is replaced between the beginning and the end of its press is not clicked. So nothing is drawn while a
  // mouse button or the space bar is held down on a button; the server sends no further frame meanwhile.
  const isPress = ({ key, button }) => key === " " || button === 0;
  let press = null; // resolved after the click of the press
  let endPress = null;
  let ending = 0;
  const begin = (event) => {
    if (!isPress(event) || !event.target.closest?.(`label, ${CLICKED}`)) return;
    clearTimeout(ending); // the press before may have ended just now
    press ??= new Promise((resolve) => (endPress = resolve));
  };
  const end = () => (ending = setTimeout(() => {
    endPress?.();
    press = endPress = null;
  }));
  for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, begin, true);
  for (const kind of ["pointerup", "pointercancel", "dragstart", "contextmenu", "keyup"]) addEventListener(kind, end, true);
  addEventListener("blur", end); // the window loses the focus

  // The message that is being written. Unchanged blocks are not replaced, so a selection in them stays.
  let written = { message: 0, blocks: [] };
  const drawBlocks = (place, { message, from, blocks }) => {
    if (!message) {
      written = { message, blocks: [] };
      return place.replaceChildren();
    }
    if (message !== written.message || !place.firstChild) {
      written = { message, blocks: [] };
      place.innerHTML = '<section class="messages"><article class="message assistant live" aria-label="Answer being written"><div class="said"></div></article></section>';
      place.querySelector("article").dataset.message = message;
    }
    for (const nodes of written.blocks.splice(from)) nodes.forEach((node) => node.remove());
    for (const html of blocks) {
      const template = Object.assign(document.createElement("template"), { innerHTML: html });
      const nodes = [...template.content.childNodes];
      place.querySelector(".said").append(...nodes);
      written.blocks.push(nodes);
    }
  };

  // Gradio keeps the values of its boxes, so an event of Gradio's fills them when their values were changed elsewhere.
  const filled = { "chat-settings-of": "0.0", draft: "", model: undefined };
  // Typed text belongs to the chat in which it was typed; the events of single keys may come too late. The text is kept
  // in the tab, also after a reload and after the end of the app, except for a private chat.
  const KEPT = "foresight-typed"; // [chat, text]
  window.foresight.isPrivate = (id) => id >= 2 ** 40; // of a chat or a message
  const isSecret = () => window.foresight.isPrivate(Number(chat)) || (chat === "0" && document.body.hasAttribute("data-is-private"));
  const keepTyped = () => sessionStorage.setItem(KEPT, JSON.stringify(isSecret() ? [] : [chat, window.foresight.typed()]));
  const keptOf = (shown) => {
    const [of, text] = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]");
    if (of === shown) sessionStorage.removeItem(KEPT);
    return of === shown ? text : "";
  };
  // The server handles a WebSocket's messages in their order, so it stores the typed text before it draws another chat.
  const leave = (left, typed) => window.foresight.say(typed, left) || isOver || setTimeout(leave, RETRY_MS[0], left, typed);
  // If the chat that is shown is opened once more, the text that is being typed stays.
  const showDraft = (leaving, isLeft, [opened, draft]) => {
    const typed = window.foresight.typed();
    const kept = typed && leaving === "" ? "" : keptOf(chat);
    leave({ left: leaving, opened }, typed || (leaving === "" ? kept : ""));
    if ((isLeft && leaving !== "") || !typed) window.foresight.fillMessage(kept || draft);
  };
  const fill = (name, value, leaving, isLeft) => {
    const hasChanged = filled[name] !== undefined && filled[name] !== value;
    filled[name] = value;
    if (!hasChanged) return;
    if (name === "draft") showDraft(leaving, isLeft, JSON.parse(value));
    else window.foresight.fill("click", { do: name });
  };

  const showNote = (text, button) => {
    note.hidden = !text;
    note.replaceChildren(text);
    if (button) note.append(button);
    if (text && !note.isConnected) document.body.append(note);
  };

  let problem = "";
  let chat = ""; // "" before a chat is drawn
  const draw = (parts) => {
    const leaving = chat === "0" && isSecret() ? "private" : chat;
    chat = parts["chat-id"] ?? chat;
    const isLeft = leaving !== chat || parts["is-private"] === true;
    for (const [name, value] of Object.entries(parts)) {
      const element = document.getElementById(name);
      if (name in filled) fill(name, value, leaving, isLeft);
      else if (name === "problem") showNote((problem = value));
      else if (typeof value === "boolean") document.body.toggleAttribute(`data-${name}`, value);
      else if (typeof value === "object") drawBlocks(inside(element), value);
      else if (element?.tagName === "BUTTON") label(element, value);
      else if (element) redraw(inside(element), value);
    }
    // Marks a reply that has ended and could not be stored. (A CSS rule with :has would restyle all messages whenever a
    // part is redrawn.)
    document.querySelector("#live .message")?.classList.toggle("ended", Boolean(document.querySelector("#reply-note .problem")));
    document.dispatchEvent(new CustomEvent("foresight-drawn", { detail: parts }));
  };

  const reloadButton = () => {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: "Reload" });
    button.addEventListener("click", () => location.reload());
    return button;
  };

  // Shows why there is no connection. After a restart, the app knows neither this page nor its key.
  const explain = async () => {
    document.body.dataset.isLost = "";
    const answer = await fetch("/foresight/page").catch(() => null);
    if (!losses || isOver) return; // the connection is back already, or no longer needed
    if (answer?.status === 403) showNote("Foresight was restarted, and this page no longer has its key. Open Foresight from its window or terminal.");
    else showNote("The connection to Foresight is lost. Reconnecting…");
  };

  let socket = null;
  let session = "";
  let losses = 0;
  let isOver = false;
  let retry = 0;

  const connect = () => {
    clearTimeout(retry);
    const mine = new WebSocket(`ws://${location.host}/foresight/page?session=${encodeURIComponent(session)}`);
    socket = mine;
    mine.addEventListener("message", async ({ data }) => {
      await press;
      if (socket !== mine) return;
      delete document.body.dataset.isLost;
      draw(JSON.parse(data));
      mine.send('{"drawn": true}');
      if (!losses) return;
      losses = 0;
      showNote(problem || "Connected again.");
      setTimeout(() => losses || showNote(problem), NOTE_MS);
    });
    mine.addEventListener("close", ({ code }) => {
      if (socket !== mine || isOver) return;
      if (code === UNKNOWN_PAGE) {
        isOver = true;
        return showNote("Foresight does not know this page, perhaps after a restart. Reload the page. Your text is kept.", reloadButton());
      }
      window.foresight.giveBack();
      explain();
      retry = setTimeout(connect, RETRY_MS[Math.min(losses++, RETRY_MS.length - 1)]);
    });
  };

  // Call with the element into which Gradio puts this page's session once the server knows the page.
  window.foresight.connect = (element) => {
    const begin = () => {
      const given = element.textContent.trim();
      if (!given || session) return;
      session = given;
      connect();
    };
    new MutationObserver(begin).observe(element, { childList: true, subtree: true, characterData: true });
    begin();
  };

  // After Quit, the end of the connection is expected.
  window.foresight.leave = () => {
    isOver = true;
    socket?.close(1000);
    showNote("");
  };

  let lastActive = 0;
  const active = () => {
    if (socket?.readyState !== WebSocket.OPEN || performance.now() - lastActive < ACTIVE_MS) return;
    lastActive = performance.now();
    socket.send('{"active": true}');
  };
  for (const kind of ["pointerdown", "pointerup", "keydown", "input", "drop"]) {
    document.addEventListener(kind, active, { capture: true, passive: true });
  }

  // Reports what is typed, or was typed in the chat that is left. Returns whether the server can be reached.
  window.foresight.say = (typed, left = {}) => {
    const isOpen = socket?.readyState === WebSocket.OPEN;
    if (isOpen) socket.send(JSON.stringify({ typed: typed.slice(0, MOST), ...left }));
    return isOpen;
  };

  addEventListener("pagehide", () => {
    keepTyped();
    isOver = true;
    socket?.close(1000);
  });
  // A page that the browser kept for its Back button has lost its session.
  addEventListener("pageshow", ({ persisted }) => persisted && location.reload());
  addEventListener("online", () => losses && connect());
})();
