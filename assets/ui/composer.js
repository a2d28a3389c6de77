// The message box. A sent text leaves it at once, and comes back if it is not accepted: before what was typed in the
// meantime, which is never overwritten. See BoxChange in app/ui/chat/state.py.
(() => {
  const WAIT_MS = 30000; // milliseconds after which no answer is expected
  const TELL_MS = 250; // how often typed text is sent to the server
  const MOST = 2e6; // characters: a longer text would be too long for a message of the WebSocket, and is not kept as a draft
  let onItsWay = null; // the text that was sent and is not answered yet
  let isDue = false; // Enter was pressed again in the meantime
  let seen = 0; // the last change of the box
  let waiting = 0;
  let telling = 0;
  let tell = () => {};
  const box = () => document.querySelector("#message textarea");

  // Not after each key, because that would cost the browser more than drawing the text.
  const tellLater = () => (telling ||= setTimeout(tellTyped, TELL_MS));
  const tellTyped = () => {
    telling = 0;
    if (box().value.length > MOST) return;
    if (!window.foresight.say({ typed: box().value })) tellLater();
  };
  const untold = () => (telling = clearTimeout(telling) ?? 0);
  document.addEventListener("input", ({ target }) => {
    if (target !== box()) return;
    tellLater();
    fit();
  });
  // For browsers that do not fit a box to its text.
  const fit = () => {
    if (CSS.supports("field-sizing", "content")) return;
    box().style.height = "auto";
    box().style.height = `${box().scrollHeight}px`;
  };

  // An event that bubbles reports the change to the server, too.
  const write = (text, bubbles = false) => {
    if (!box() || box().value === text) return;
    box().value = text;
    box().dispatchEvent(new Event("input", { bubbles }));
  };
  const joined = (first, rest) => [first, rest].filter(Boolean).join("\n");
  const answered = () => {
    onItsWay = null;
    clearTimeout(waiting);
  };

  const send = () => {
    const text = box().value.trim();
    if (!text) return;
    if (onItsWay !== null) return (isDue = true);
    onItsWay = text;
    // The server must know the text that it is about to get, and after its answer the box as it is then; otherwise it
    // would take an older text for a draft that was typed meanwhile.
    untold();
    tellTyped();
    write("");
    waiting = setTimeout(giveBack, WAIT_MS);
    tell("click", { do: "ask", name: "", value: onItsWay });
    document.dispatchEvent(new CustomEvent("foresight-sent"));
  };
  // The connection is lost, so no answer will come.
  const giveBack = () => {
    if (onItsWay === null) return;
    write(joined(onItsWay, box().value), true);
    answered();
    isDue = false;
  };
  const change = ([, taken, given]) => {
    const isAnswer = onItsWay !== null && onItsWay === (taken || given);
    if (isAnswer) answered();
    const typed = box().value;
    const rest = taken && !isAnswer && typed.startsWith(taken) ? typed.slice(taken.length).trimStart() : typed;
    write(joined(given, rest), true);
    if (isAnswer) tellLater();
    if (given) isDue = false;
    else if (isAnswer && isDue) {
      isDue = false;
      send();
    }
  };

  // Call with the trigger of the component that sends.
  window.foresight.composer = (trigger) => (tell = trigger);
  window.foresight.giveBack = giveBack;
  // All that was typed, in the box or being sent.
  window.foresight.typed = () => joined(onItsWay, box()?.value);
  window.foresight.fillMessage = (text) => {
    answered();
    isDue = false;
    untold();
    write(text);
  };

  document.addEventListener("foresight-drawn", ({ detail }) => {
    for (const one of JSON.parse(detail.box ?? "[]").filter(([number]) => number > seen)) {
      seen = one[0];
      change(one);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || event.target !== box()) return;
    event.preventDefault();
    event.stopPropagation();
    if (!event.repeat) send();
  }, true);
  document.addEventListener("click", ({ target }) => {
    if (target.closest("#send")) send();
    // Editing a waiting message swaps its text and that of the box.
    const edit = target.closest("[data-do=queue-edit]");
    if (edit) edit.dataset.value = box().value;
    if (edit) box().focus();
  }, true);
})();
