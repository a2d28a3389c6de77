// The live view: how many numbers are shown, and the X-ray's controls, which follow the picture that the server drew.
(() => {
  const KEY = "foresight-live";
  const PULL_MS = 250;

  // A low window starts with fewer numbers; what the person chose is remembered.
  const isLow = () => window.innerHeight < 860;
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
    let isLive = true;
    let before = null;
    let followed = null;
    let looks = 0;

    const say = (move, value) => {
      const { shown, key } = drawn();
      if (move !== "draw" && move !== "export") isLive = move === "live";
      trigger("click", { do: move, name: key ?? "", value: String(value ?? shown ?? 0) });
    };

    const open = () => {
      before = document.activeElement;
      document.body.dataset.xray = "open";
      say(isLive ? "live" : "go");
      part("[data-move=live]").focus();
    };
    const close = () => {
      delete document.body.dataset.xray;
      before?.focus();
    };

    const follow = () => {
      const { first, last, shown, live, key } = drawn();
      if (key === followed) return;
      followed = key;
      looks = 0;
      const steps = Number(shown) > 0;
      const slider = part("input");
      Object.assign(slider, { min: first || 1, max: last || 1, disabled: !steps });
      if (document.activeElement !== slider || live === "yes") slider.value = shown || 1;
      part("output").textContent = steps ? `Step ${shown} of ${last}` : "No steps yet";
      part("[data-move=live]").classList.toggle("live", live !== "yes");
      part("[data-move=live]").textContent = live === "yes" ? "Pause" : "Live";
      for (const [move, end] of [["first", first], ["back", first], ["forward", last], ["last", last]]) {
        part(`[data-move=${move}]`).disabled = !steps || (live !== "yes" && shown === end);
      }
      part("[data-move=export]").disabled = !steps;
      // A picture of the newest step may come late, when the person has stopped already.
      if (live && (live === "yes") !== isLive) say(isLive ? "live" : "go");
    };

    bar.addEventListener("click", (event) => {
      const move = event.target.closest("[data-move]")?.dataset.move;
      if (move === "close") close();
      else if (move === "live") say(isLive ? "pause" : "live");
      else if (move) say(move);
    });
    bar.addEventListener("input", (event) => say("go", event.target.value));

    const KEYS = { ArrowLeft: "back", ArrowRight: "forward", Home: "first", End: "last" };
    // On the document and before others: the focus may be nowhere, on a button that was just switched off, and Esc
    // means the X-ray, not what lies below it.
    document.addEventListener("keydown", (event) => {
      if (!isOpen()) return;
      if (event.key === "Escape") close();
      else if (event.key === "Tab") keepInside(event);
      else if (KEYS[event.key] && !event.target.closest("input, .scroll")) {
        event.preventDefault();
        if (!part(`[data-move=${KEYS[event.key]}]`).disabled) say(KEYS[event.key]);
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

    place.setAttribute("role", "dialog");
    place.setAttribute("aria-modal", "true");
    place.setAttribute("aria-labelledby", "xray-title");
    place.addEventListener("click", (event) => event.target === place && close());
    document.addEventListener("click", (event) => event.target.closest("#open-xray") && open());
    new MutationObserver(follow).observe(picture, { childList: true, subtree: true, attributes: true });
    setInterval(() => {
      // While nothing comes, every fourth look will do.
      const isDue = ++looks <= 8 || looks % 4 === 0;
      if (isOpen() && isLive && !document.hidden && isDue) say("draw");
    }, PULL_MS);
    follow();
  };

  const whenBuilt = new MutationObserver(() => {
    if (!document.getElementById("fewer-numbers")) return;
    whenBuilt.disconnect();
    showLess((localStorage.getItem(KEY) ?? (isLow() ? "less" : "more")) === "less");
  });
  whenBuilt.observe(document, { childList: true, subtree: true });
})();
