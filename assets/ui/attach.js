// Files that are dropped on the chat or pasted into its box are attached to it, as by the paperclip. A long text that is
// pasted stays in the box, with a button that attaches it as a document instead.
(() => {
  const LONG = 1500; // characters
  const NAME = 40;
  const hasFiles = ({ dataTransfer }) => [...(dataTransfer?.types ?? [])].includes("Files");
  const chat = ({ target }) => target.closest?.("#chat");
  const input = () => document.querySelector("#attach input[type=file], input[type=file]#attach") ?? document.querySelector("#composer input[type=file]");
  const attach = (files) => {
    input().files = files;
    input().dispatchEvent(new Event("change", { bubbles: true }));
  };

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
    attach(event.dataTransfer.files);
  });

  const box = () => document.querySelector("#message textarea");
  const button = () => document.getElementById("attach-pasted");
  let pasted = "";
  let isSent = false; // it is on its way: it leaves the box once the chat has it
  const offer = (text) => {
    [pasted, isSent] = [text, false];
    button().hidden = !text;
  };
  // Files were chosen: the question on them is next.
  document.addEventListener("change", ({ target }) => target === input() && box().focus());
  const asFile = (text) => {
    const words = text.trim().split("\n")[0].replace(/[^\p{L}\p{N}._-]+/gu, " ").trim();
    const line = words.length > NAME ? words.slice(0, NAME + 1).replace(/(?<=.) \S*$/u, "").slice(0, NAME) : words;
    const files = new DataTransfer();
    files.items.add(new File([text], `${line || "Pasted text"}.txt`, { type: "text/plain" }));
    return files.files;
  };
  document.addEventListener("paste", (event) => {
    if (event.target !== box() || !input()) return;
    const { files } = event.clipboardData;
    const text = event.clipboardData.getData("text/plain").replaceAll("\r\n", "\n");
    if (files.length && !text) {
      event.preventDefault();
      attach(files);
    } else if (text.length >= LONG && !document.body.hasAttribute("data-is-private")) offer(text);
  });
  document.addEventListener("input", ({ target }) => {
    if (pasted && target === box() && !target.value.includes(pasted)) offer("");
  });
  document.addEventListener("click", ({ target }) => {
    if (!target.closest("#attach-pasted") || isSent) return;
    isSent = true;
    attach(asFile(pasted));
    box().focus();
  });
  document.addEventListener("foresight-drawn", ({ detail }) => {
    if (!pasted) return;
    const isOver = !box().value.includes(pasted); // sent as it is, or another chat is shown
    if (!isOver && !(isSent && "collection-picker" in detail)) return;
    if (!isOver) {
      box().value = box().value.replace(pasted, () => "").trim();
      box().dispatchEvent(new Event("input", { bubbles: true }));
    }
    offer("");
  });
})();
