// Keyboard shortcuts that work anywhere, and the sheet that lists them. Entries without `run` are handled elsewhere and
// only listed here.
(() => {
  const isMac = navigator.platform.startsWith("Mac");
  const press = (id) => () => document.getElementById(id)?.click();
  const inChat = (action) => () => {
    if (document.body.dataset.view !== "chat") document.getElementById("to-chat").click();
    action();
  };
  const copyLast = () => {
    const last = [...document.querySelectorAll("#messages .message.assistant [data-copy=message]")].at(-1);
    last?.click();
  };

  const SHORTCUTS = [
    { keys: "Ctrl+Shift+O", about: "New chat", run: press("new-chat") },
    { keys: "Shift+Escape", about: "Go to the message box", run: inChat(() => window.foresight.focusMessage()) },
    { keys: "Enter", about: "Send the message" },
    { keys: "Shift+Enter", about: "Start a new line" },
    { keys: "Ctrl+B", about: "Show or hide the sidebar" },
    { keys: "Ctrl+K", about: "Search chats" },
    { keys: "Ctrl+F", about: "Find in the whole chat" },
    { keys: "Ctrl+P", about: "Print the whole chat" },
    { keys: "Ctrl+Z", about: "Undo a deletion" },
    { keys: "Escape", about: "Stop the reply" },
    { keys: "Ctrl+Shift+C", about: "Copy the last answer", run: copyLast },
    { keys: "Ctrl+.", about: "Show or hide the panel", run: inChat(() => window.foresight.toggleSide()) },
    { keys: "Ctrl+Shift+L", about: "Switch the model", run: press("model-button") },
    { keys: "?", about: "Show these shortcuts", run: () => open() },
  ];

  const pressed = ({ key, ctrlKey, metaKey, shiftKey, altKey }) => {
    if (altKey) return "";
    if (key === "?") return ctrlKey || metaKey ? "" : "?";
    const name = key.length === 1 ? key.toUpperCase() : key;
    return [(ctrlKey || metaKey) && "Ctrl", shiftKey && "Shift", name].filter(Boolean).join("+");
  };

  const sheet = document.createElement("dialog");
  sheet.id = "shortcuts";
  sheet.setAttribute("aria-labelledby", "shortcuts-title");
  const shown = (keys) => keys.replace("Escape", "Esc").replace("Ctrl", isMac ? "⌘" : "Ctrl").split("+").map((key) => `<kbd>${key}</kbd>`).join(" ");
  const rows = SHORTCUTS.map(({ keys, about }) => `<div><dt>${about}</dt><dd>${shown(keys)}</dd></div>`).join("");
  sheet.innerHTML = `<h2 id="shortcuts-title">Keyboard shortcuts</h2><dl>${rows}</dl><form method="dialog"><button class="act">Close</button></form>`;
  const open = () => {
    document.querySelector(".gradio-container").append(sheet);
    sheet.showModal();
  };
  // Escape closes the sheet, and does nothing else.
  sheet.addEventListener("keydown", (event) => event.stopPropagation());
  sheet.addEventListener("click", ({ target }) => target === sheet && sheet.close());

  document.addEventListener("click", ({ target }) => target.closest("#open-shortcuts") && open());
  document.addEventListener("keydown", (event) => {
    const name = pressed(event);
    const run = SHORTCUTS.find(({ keys }) => keys === name)?.run;
    if (!run || event.repeat) return; // most keys are ordinary typing
    const isTyping = event.target.closest("input:not([type=range], [type=checkbox], [type=radio]), textarea, select");
    const isAsked = document.querySelector(".question[role=alertdialog]");
    if (isAsked || (name === "?" && isTyping) || document.body.dataset.xray === "open") return;
    event.preventDefault();
    event.stopPropagation();
    run();
  }, true);
})();
