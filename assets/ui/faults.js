// Shows what is wrong with a box: a red border, and a sentence below it. See `faults_html` in event_handlers.py.
(() => {
  const NUMBER = "Type a number.";
  const show = (id, given) => {
    const place = document.getElementById(id);
    const inputs = [...(place?.querySelectorAll("input, textarea") ?? [])];
    const sentence = given || (inputs.some(({ validity }) => validity.badInput) ? NUMBER : "");
    let line = document.getElementById(`${id}-fault`);
    if (!place || (!sentence && !line)) return;
    if (!line) {
      line = Object.assign(document.createElement("p"), { id: `${id}-fault`, className: "fault" });
      line.setAttribute("role", "alert");
      place.append(line);
    }
    line.textContent = sentence;
    for (const input of inputs) {
      input.setAttribute("aria-invalid", Boolean(sentence));
      input.setAttribute("aria-describedby", line.id);
    }
  };

  window.foresight.faults = (element) =>
    new MutationObserver(() => {
      const { faults } = element.querySelector("[data-faults]")?.dataset ?? {};
      for (const [id, sentence] of Object.entries(JSON.parse(faults ?? "{}"))) show(id, sentence);
    }).observe(element, { childList: true, subtree: true, attributes: true });

  // Gradio would replace a wrong number beside a slider by the nearest possible one. Here it stays, with its fault.
  document.addEventListener("blur", (event) => {
    if (event.target.matches?.(".block:has([type=range]) [type=number]")) event.stopPropagation();
  }, true);

  // A decimal comma is written as a point, because an English Chromium would leave it out: 1,5 would be 15.
  document.addEventListener("beforeinput", (event) => {
    if (!event.data?.includes(",") || !event.target.matches("[type=number]:not([step='1'])")) return;
    event.preventDefault();
    document.execCommand("insertText", false, event.data.replaceAll(",", "."));
  });

  // Typing removes the fault of a text box, because its text is checked again when it is used.
  document.addEventListener("input", ({ target }) => {
    const place = target.matches("[data-testid=textbox]") && target.closest("[id].block");
    if (place) show(place.id, "");
  });
})();
