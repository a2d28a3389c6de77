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

  // When the box beside a slider is left, Gradio changes its number to the nearest possible one without an event.
  document.addEventListener("blur", ({ target }) => {
    const typed = target.value;
    if (!target.matches?.(".block:has([type=range]) [type=number]")) return;
    setTimeout(() => target.value !== typed && target.dispatchEvent(new Event("input", { bubbles: true })));
  }, true);

  // Typing removes the fault of a text box, because its text is checked again when it is used.
  document.addEventListener("input", ({ target }) => {
    const place = target.matches("[data-testid=textbox]") && target.closest("[id].block");
    if (place) show(place.id, "");
  });
})();
