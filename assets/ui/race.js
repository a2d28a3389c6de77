// Replays a finished race, all lanes at the same time.
(() => {
  const SHORTEST = 2.5, LONGEST = 12; // seconds of a replay; the clock shows the time of the race

  // [[seconds, tokens], …] and a time -> the tokens of the last point that is not later.
  const tokensAt = (curve, time) => {
    let low = 0, high = curve.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (curve[middle][0] <= time) low = middle + 1;
      else high = middle;
    }
    return low ? curve[low - 1][1] : 0;
  };

  const laneOf = (element) => ({
    element,
    track: element.querySelector(".track"),
    written: element.querySelector(".written"),
    curve: JSON.parse(element.dataset.curve || "[]"),
  });

  const draw = (lane, time) => {
    const tokens = tokensAt(lane.curve, time);
    lane.track.style.setProperty("--done", `${(100 * tokens) / Number(lane.track.dataset.length)}%`);
    const all = lane.curve.at(-1)[1];
    lane.written.textContent = `${tokens.toLocaleString("en")} of ${all.toLocaleString("en")} tokens`;
    lane.element.classList.toggle("winner", lane.wasWinner && tokens === all);
    lane.element.classList.toggle("running", tokens < all);
  };

  const replay = (chart) => {
    const lanes = [...chart.querySelectorAll(".lane")].map(laneOf).filter((lane) => lane.curve.length);
    const clock = chart.querySelector(".clock"), label = chart.querySelector(".clock-label");
    const before = { clock: clock.textContent, label: label.textContent };
    const end = Math.max(...lanes.map((lane) => lane.curve.at(-1)[0]));
    const pace = end / Math.min(LONGEST, Math.max(SHORTEST, end));
    const button = chart.querySelector("[data-replay]");
    for (const lane of lanes) lane.wasWinner = lane.element.classList.contains("winner");
    const places = lanes.map((lane) => [lane.track.style.getPropertyValue("--done"), lane.written.textContent]);
    button.disabled = true;
    label.textContent = Math.abs(pace - 1) > 0.05 ? `Replay at ${Number(pace.toPrecision(2))}× speed` : "Replay";

    const back = () => {
      lanes.forEach((lane, i) => {
        lane.track.style.setProperty("--done", places[i][0]);
        lane.written.textContent = places[i][1];
        lane.element.classList.toggle("winner", lane.wasWinner);
        lane.element.classList.remove("running");
      });
      clock.textContent = before.clock;
      label.textContent = before.label;
      button.disabled = false;
    };
    let began = null;
    const frame = (now) => {
      if (!chart.isConnected) return;
      began ??= now;
      const time = Math.min(end, ((now - began) / 1000) * pace);
      clock.textContent = `${time.toFixed(2)} s`;
      lanes.forEach((lane) => draw(lane, time));
      if (time < end) requestAnimationFrame(frame);
      else setTimeout(back, 1200);
    };
    requestAnimationFrame(frame);
  };

  document.addEventListener("click", (event) => {
    const button = event.target.closest("#race [data-replay]");
    if (button) replay(button.closest(".race-chart"));
  });
})();
