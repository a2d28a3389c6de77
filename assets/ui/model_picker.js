// The list of models that the button in the bar opens. The server may redraw both at any time.
(() => {
  const isOpen = () => document.body.dataset.models === "open";
  const button = () => document.getElementById("model-button");
  const place = () => document.getElementById("model-picker");
  let trigger = () => {};

  const show = (open) => {
    if (open) document.body.dataset.models = "open";
    else delete document.body.dataset.models;
    button()?.setAttribute("aria-expanded", open);
    if (!open) return;
    const { left, bottom } = button().getBoundingClientRect();
    const room = document.documentElement.clientWidth - place().offsetWidth - 8;
    place().style.cssText = `left: ${Math.max(8, Math.min(left, room))}px; top: ${bottom + 6}px`;
    (place().querySelector(".row:not(:disabled)") ?? place().querySelector("button:not(:disabled)"))?.focus();
    trigger("click", { do: "renew" });
  };

  // Call before `foresight.listen(element, trigger)`.
  window.foresight.modelPicker = (element, given) => {
    trigger = given;
    new MutationObserver(() => {
      const state = String(isOpen());
      if (button() && button().getAttribute("aria-expanded") !== state) button().setAttribute("aria-expanded", state);
    }).observe(document.getElementById("status") ?? element, { childList: true, subtree: true });
  };

  document.addEventListener("click", ({ target }) => {
    if (target.closest("#model-button")) return show(!isOpen());
    if (target.closest("[data-opens=model-button]")) return setTimeout(() => show(true));
    if (!isOpen() || !target.isConnected) return;
    const view = target.closest("[data-view]:not(body)")?.dataset.view;
    if (view) document.getElementById(`to-${view}`).click();
    if (view || target.closest("[data-do]") || !place().contains(target)) show(false);
  });
  document.addEventListener("keydown", (event) => {
    if (!isOpen()) return;
    const stops = [...place().querySelectorAll("button:not(:disabled)")];
    const step = { ArrowDown: 1, ArrowUp: stops.length - 1 }[event.key];
    if (event.key === "Escape") {
      show(false);
      button()?.focus();
    } else if (step && stops.length) stops[(Math.max(stops.indexOf(document.activeElement), 0) + step) % stops.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }, true);
})();
