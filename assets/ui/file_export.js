// Downloads what the server put into a .hidden-output as a file: see app/ui/frame/file_export.py.
(() => {
  const download = ({ file, kind, text }) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([text], { type: kind }));
    link.download = file;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  };
  // Gradio builds these elements late, and replaces their content each time.
  new MutationObserver((changes) => {
    for (const { addedNodes } of changes) {
      for (const node of addedNodes) {
        const data = node.matches?.("[data-file]") ? node : node.querySelector?.("[data-file]");
        if (data) {
          download(data.dataset);
          data.remove();
        }
      }
    }
  }).observe(document, { childList: true, subtree: true });
})();
