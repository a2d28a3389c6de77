// Files that are dropped on the chat are attached to it, as by the paperclip.
(() => {
  const hasFiles = ({ dataTransfer }) => [...(dataTransfer?.types ?? [])].includes("Files");
  const chat = ({ target }) => target.closest?.("#chat");
  const input = () => document.querySelector("#attach input[type=file], input[type=file]#attach") ?? document.querySelector("#composer input[type=file]");

  const over = (isOver) => document.body.toggleAttribute("data-is-dropping", isOver);
  document.addEventListener("dragover", (event) => {
    over(Boolean(hasFiles(event) && chat(event)));
    if (hasFiles(event) && chat(event)) event.preventDefault();
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget || over(false));
  document.addEventListener("drop", (event) => {
    over(false);
    if (!hasFiles(event) || !chat(event) || !input()) return;
    event.preventDefault();
    input().files = event.dataTransfer.files;
    input().dispatchEvent(new Event("change", { bubbles: true }));
  });
})();
