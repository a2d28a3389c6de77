// The panel beside the chat: its tabs, whether it is closed, and its width, all of which are remembered. If there is no
// room beside the chat, it lies over the chat, like the sidebar.
(() => {
  const KEY = "foresight-side";
  const TABS = ["live", "settings", "xray"];
  const [LEAST, STEP] = [256, 16]; // pixels
  const kept = { tab: "live", isClosed: false, width: 0 };
  try {
    Object.assign(kept, JSON.parse(localStorage.getItem(KEY) ?? "{}"));
  } catch {
    localStorage.removeItem(KEY);
  }
  const most = () => Math.round(innerWidth * 0.5);
  const edge = () => document.getElementById("side-edge");
  const side = () => document.getElementById("side");
  const beside = matchMedia("(min-width: 861px)");
  const isOver = () => document.body.dataset.over === "side";
  const isShown = () => (beside.matches ? !kept.isClosed : isOver());

  const keep = (change) => {
    Object.assign(kept, change);
    localStorage.setItem(KEY, JSON.stringify(kept));
    apply();
  };
  const setWidth = (pixels) => keep({ width: Math.round(Math.min(Math.max(pixels, LEAST), most())) });

  const apply = () => {
    if (!TABS.includes(kept.tab)) kept.tab = "live";
    document.body.dataset.side = kept.tab;
    document.body.toggleAttribute("data-is-side-closed", !isShown());
    if (kept.width) document.documentElement.style.setProperty("--side", `${Math.min(kept.width, most())}px`);
    window.foresight.markTab("side", kept.tab);
    document.getElementById("toggle-side")?.setAttribute("aria-expanded", isShown());
    edge()?.setAttribute("aria-valuemax", most());
    edge()?.setAttribute("aria-valuenow", Math.round(side().offsetWidth));
    window.foresight.showXray?.(kept.tab === "xray" && isShown());
  };

  const show = (shown) => {
    if (beside.matches) return keep({ isClosed: !shown });
    window.foresight.cover(shown ? "side" : "");
    document.getElementById(shown ? `side-tab-${kept.tab}` : "toggle-side").focus();
  };
  window.foresight.toggleSide = () => show(!isShown());

  document.addEventListener("click", ({ target }) => {
    // The reply to a starter is shown with its live numbers beside it, if there is room.
    const starter = beside.matches && target.closest("#starters button") && "live";
    const tab = target.closest("#side-tabs [data-tab]")?.dataset.tab || starter;
    if (tab) {
      keep({ tab });
      if (!isShown()) show(true);
    }
    if (isOver() && target.id === "main") show(false); // a click beside the panel
    if (target.closest("#close-side, #toggle-side")) {
      window.foresight.toggleSide();
      document.getElementById("toggle-side").focus();
    }
  });

  document.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: STEP, ArrowRight: -STEP }[event.key];
    if (event.target !== edge() || !step) return;
    event.preventDefault();
    setWidth(side().offsetWidth + step);
  });

  document.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !isOver() || document.body.dataset.xray === "open") return;
    event.stopPropagation();
    show(false);
  }, true);

  const drag = (line) => {
    line.addEventListener("pointerdown", (event) => {
      event.preventDefault();
      line.setPointerCapture(event.pointerId);
    });
    line.addEventListener("pointermove", (event) => {
      if (line.hasPointerCapture(event.pointerId)) setWidth(side().getBoundingClientRect().right - event.clientX);
    });
  };

  // Call this once the panel exists.
  window.foresight.side = () => {
    window.foresight.labelTabPages("side", TABS);
    drag(edge());
    beside.addEventListener("change", () => window.foresight.cover(""));
    document.addEventListener("foresight-covered", apply);
    apply();
  };
})();
