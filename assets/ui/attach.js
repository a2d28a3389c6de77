// Files that are dropped on the chat, pasted into its box or chosen with the paperclip are attached to the chat. Files
// that are dropped on the Documents view are added to its collection. A long pasted text stays in the box, with a button
// that attaches it as a document.
(() => {
  const LONG = 1500; // characters
  const NAME = 40;
  const LARGEST_UPLOAD = 300 * 2 ** 20; // as in app/ui/frame/uploads.py: a larger file is not sent at all
  const hasFiles = ({ dataTransfer }) => [...(dataTransfer?.types ?? [])].includes("Files");
  const input = () => document.querySelector("#composer input[type=file]");
  const inputBelow = ({ target }) => target.closest?.("#chat, #documents")?.querySelector("#composer input[type=file], #import input[type=file]");
  const attach = (files, to = input()) => {
    to.files = files;
    to.dispatchEvent(new Event("change", { bubbles: true }));
  };

  const over = (isOver) => document.body.toggleAttribute("data-is-dropping", isOver);
  document.addEventListener("dragover", (event) => {
    const isTaken = Boolean(hasFiles(event) && inputBelow(event));
    over(isTaken);
    if (isTaken) event.preventDefault();
  });
  document.addEventListener("dragleave", (event) => event.relatedTarget || over(false));
  document.addEventListener("drop", (event) => {
    over(false);
    if (!hasFiles(event) || !inputBelow(event)) return;
    event.preventDefault();
    attach(event.dataTransfer.files, inputBelow(event));
  });

  // Gradio's client does not report when a file has arrived; the browser does.
  let sending = 0;
  const count = (more) => {
    sending = Math.max(0, sending + more);
    document.body.toggleAttribute("data-is-sending", sending > 0);
  };
  document.addEventListener("change", ({ target }) => {
    if (target.type === "file" && target.closest("#composer, #import")) count([...target.files].every(({ size }) => size <= LARGEST_UPLOAD) ? 1 : 0);
  });
  new PerformanceObserver((list) => {
    count(-list.getEntries().filter(({ name }) => name.endsWith("/gradio_api/upload")).length);
  }).observe({ type: "resource" });

  const box = () => document.querySelector("#message textarea");
  const button = () => document.getElementById("attach-pasted");
  let pasted = "";
  let isSent = false; // the text is being sent: it leaves the box once the chat has it
  const offer = (text) => {
    [pasted, isSent] = [text, false];
    button().hidden = !text;
  };
  // After files were chosen, the user types a question about them.
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
    const isOver = !box().value.includes(pasted); // the text was sent, or another chat is shown
    if (!isOver && !(isSent && "collection-picker" in detail)) return;
    if (!isOver) {
      box().value = box().value.replace(pasted, () => "").trim();
      box().dispatchEvent(new Event("input", { bubbles: true }));
    }
    offer("");
  });
})();
