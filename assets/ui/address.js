// The page's address names what it shows: #/chat/12, #/chat for a new chat, #/models, #/settings/data. So a reload shows
// the same, and the browser's Back button works.
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
    // A new chat that gets its number stays the same entry in the history. Back does not lead to an empty chat, nor to a
    // deleted one.
    const isReplaced = shown === null || shown === NEW || (asked !== null && asked !== drawn);
    shown = drawn;
    asked = null;
    if (to?.view === "chat" && to.chat !== drawn) open((asked = shown = to.chat));
    else write(isReplaced);
    // Other views are opened by their buttons, which also make the server read what the view shows.
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
