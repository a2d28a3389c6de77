// The page's address names what it shows: #/chat/12, #/chat for a new one, #/models, #/settings/data. So reloading stays there, and Back
// goes back.
(() => {
  const VIEWS = ["chat", "models", "documents", "race", "settings"];
  const NEW = "0";
  let shown = null; // the chat, null before the server has drawn one
  let asked = null; // the chat that the address named, until something is drawn
  let open = () => {};

  const wanted = () => {
    const [, view, part] = /^#\/([a-z]+)(?:\/([a-z]+|\d+))?$/.exec(location.hash) ?? [];
    if (view === "settings") return { view, section: part };
    return VIEWS.includes(view) ? { view, chat: /^\d+$/.test(part) ? part : NEW } : null;
  };
  const write = (isReplaced) => {
    const { view, section } = document.body.dataset;
    const parts = { chat: shown !== NEW && shown, settings: section };
    const hash = parts[view] ? `#/${view}/${parts[view]}` : `#/${view}`;
    if (hash !== location.hash) history[isReplaced ? "replaceState" : "pushState"](null, "", hash);
  };

  window.foresight.firstView = () => {
    const to = wanted();
    window.foresight.showSection(to?.section);
    return to?.view ?? "chat";
  };
  // Call with the trigger of the component that opens chats.
  window.foresight.address = (trigger) => (open = (chat) => trigger("click", { do: "open", name: chat }));

  document.addEventListener("foresight-view", () => shown !== null && write());
  document.addEventListener("foresight-drawn", ({ detail }) => {
    const drawn = detail["chat-id"];
    if (drawn === undefined) return;
    const to = shown === null && wanted();
    // A new chat that becomes one of the list is the same place; an empty one is none to go back to, nor is one that is
    // no more.
    const isReplaced = shown === null || shown === NEW || (asked !== null && asked !== drawn);
    shown = drawn;
    asked = null;
    if (to?.view === "chat" && to.chat !== drawn) open((asked = shown = to.chat));
    else write(isReplaced);
    // What another view shows is read when its button is pressed.
    if (to && to.view !== "chat") document.getElementById(`to-${to.view}`)?.click();
  });

  addEventListener("popstate", () => {
    const to = wanted();
    if (!to) return;
    if (to.view === "settings") window.foresight.showSection(to.section);
    const isOther = to.view === "chat" && to.chat !== shown;
    if (isOther) asked = shown = to.chat;
    if (to.view !== document.body.dataset.view) document.getElementById(`to-${to.view}`)?.click();
    if (isOther) open(to.chat);
  });
})();
