// The live view: how many numbers are shown, and the X-ray's controls, which follow the server's picture.
(() => {
  const KEY = "foresight-live";

  // Few numbers are shown until the user opens the others. The choice is remembered.
  const showLess = (less) => {
    document.body.dataset.live = less ? "less" : "more";
    const button = document.getElementById("fewer-numbers");
    if (button) button.textContent = less ? "More numbers" : "Fewer numbers";
  };
  document.addEventListener("click", (event) => {
    if (!event.target.closest("#fewer-numbers")) return;
    const less = document.body.dataset.live !== "less";
    localStorage.setItem(KEY, less ? "less" : "more");
    showLess(less);
  });

  window.foresight.xray = (bar, trigger) => {
    const place = document.getElementById("xray");
    const picture = document.getElementById("xray-picture");
    const part = (selector) => bar.querySelector(selector);
    const drawn = () => picture.querySelector(".xray")?.dataset ?? {};
    const isOpen = () => document.body.dataset.xray === "open";
    let before = null;

    const send = (move, value) => trigger("click", { do: move, value: String(value ?? drawn().shown ?? 0) });

    const open = () => {
      before = document.activeElement;
      document.body.dataset.xray = "open";
      setRole("dialog");
      send("open");
      part("[data-move=live]").focus();
    };
    const close = () => {
      delete document.body.dataset.xray;
      if (!isInTab) send("close");
      setRole(null);
      before?.focus();
    };
    // In its tab beside the chat the X-ray is not a dialog: see assets/ui/side.js.
    let isInTab = false;
    window.foresight.showXray = (isShown) => {
      if (isShown !== isInTab && !isOpen()) send(isShown ? "open" : "close");
      isInTab = isShown;
    };
    const setRole = (role) => {
      for (const [name, value] of [["role", role], ["aria-modal", role && "true"], ["aria-labelledby", role && "xray-title"]]) {
        value ? place.setAttribute(name, value) : place.removeAttribute(name);
      }
    };

    const updateControls = () => {
      const { first, last, shown, live } = drawn();
      const steps = Number(shown) > 0;
      const slider = part("input");
      Object.assign(slider, { min: first || 1, max: last || 1, disabled: !steps });
      if (document.activeElement !== slider || live === "yes") slider.value = shown || 1;
      part("output").textContent = steps ? `Step ${shown} of ${last}` : "No steps yet";
      part("[data-move=live]").classList.toggle("live", live === "no");
      part("[data-move=live]").textContent = live === "no" ? "Live" : "Pause";
      for (const [move, end] of [["first", first], ["back", first], ["forward", last], ["last", last]]) {
        part(`[data-move=${move}]`).disabled = !steps || (live !== "yes" && shown === end);
      }
      part("[data-move=export]").disabled = !steps;
    };

    bar.addEventListener("click", (event) => {
      const move = event.target.closest("[data-move]")?.dataset.move;
      if (move === "close") close();
      else if (move === "enlarge") open();
      else if (move === "live") send(drawn().live === "no" ? "live" : "pause");
      else if (move) send(move);
    });
    bar.addEventListener("input", (event) => send("go", event.target.value));

    const KEYS = { ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last" };
    // Listens on the document and before other handlers, because the focus may be nowhere or on a disabled button, and
    // Escape must close the X-ray and nothing below it.
    document.addEventListener("keydown", (event) => {
      if (!isOpen()) return;
      if (event.key === "Escape") close();
      else if (event.key === "Tab") keepInside(event);
      else if (KEYS[event.key] && !event.target.closest("input, .scroll")) {
        event.preventDefault();
        if (!part(`[data-move=${KEYS[event.key]}]`).disabled) send(KEYS[event.key]);
      } else return;
      event.stopPropagation();
    }, true);
    const keepInside = (event) => {
      const stops = [...place.querySelectorAll("button:not(:disabled), input:not(:disabled), [tabindex='0']")];
      const [one, last] = [stops[0], stops.at(-1)];
      const isInside = place.contains(document.activeElement);
      if (isInside && document.activeElement !== (event.shiftKey ? one : last)) return;
      event.preventDefault();
      (event.shiftKey ? last : one).focus();
    };

    place.addEventListener("click", (event) => event.target === place && close());
    document.addEventListener("click", (event) => event.target.closest("#open-xray") && open());
    new MutationObserver(updateControls).observe(picture, { childList: true, subtree: true, attributes: true });
    updateControls();
  };

  const whenBuilt = new MutationObserver(() => {
    if (!document.getElementById("fewer-numbers")) return;
    whenBuilt.disconnect();
    showLess(localStorage.getItem(KEY) !== "more");
  });
  whenBuilt.observe(document, { childList: true, subtree: true });
})();
