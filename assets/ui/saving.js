// Saves what the server put into a .file-place as a file: see app/ui/saving.py.
(() => {
  const save = ({ file, kind, text }) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: kind }));
    link.download = file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  // Gradio builds these places late, and puts new elements into them each time.
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) {
      for (const node of addedNodes) {
        const data = node.matches?.("[data-file]") ? node : node.querySelector?.("[data-file]");
        if (data) {
          save(data.dataset);
          data.remove();
        }
      }
    }
  }).observe(document, { childList: true, subtree: true });
})();
