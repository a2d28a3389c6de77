// The list of chats where there is no room beside the chat: opened by a button, closed by Escape, by a press beside
// it, and by going to a chat.
(() => {
  const button = () => document.getElementById("open-chats");
  const isOpen = () => document.body.dataset.list === "open";
  const show = (open) => {
    if (open === isOpen()) return;
    if (open) document.body.dataset.list = "open";
    else delete document.body.dataset.list;
    button().setAttribute("aria-expanded", open);
    if (open) document.querySelector("#new-chat").focus();
    else button().focus();
  };
  document.addEventListener("click", (event) => {
    if (event.target.closest("#open-chats")) show(true);
    else if (isOpen() && (!event.target.closest("#sidebar") || event.target.closest("[data-do=open], #begin button"))) show(false);
  });
  document.addEventListener("keydown", (event) => {
    if (window.foresight.isSearchKey(event) && button()?.offsetParent) show(true);
    if (event.key !== "Escape" || !isOpen() || event.target.closest(".in-place")) return;
    show(false);
    event.stopPropagation();
  }, true);
})();
