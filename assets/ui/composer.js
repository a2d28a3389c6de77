// The message box. A sent text leaves the box at once. If it is not accepted, it is put back before the text that was
// typed in the meantime. See BoxChange in app/ui/chat/state.py.
(() => {
  const WAIT_MS = 30000; // milliseconds after which no answer is expected
  const TYPED_MS = 250; // milliseconds between two messages with typed text
  let onItsWay = null; // the text that was sent and is not answered yet
  let isDue = false; // Enter was pressed again in the meantime
  let seen = 0; // the number of the last change of the box that was made here
  let waiting = 0;
  let typedTimer = 0;
  let trigger = () => {};
  const box = () => document.querySelector("#message textarea");

  // Typed text is not sent after each key, because that would cost the browser more than drawing the text.
  const sendTypedLater = () => (typedTimer ||= setTimeout(sendTyped, TYPED_MS));
  const sendTyped = () => {
    typedTimer = 0;
    if (!window.foresight.say(box().value)) sendTypedLater();
  };
  const cancelTyped = () => (typedTimer = clearTimeout(typedTimer) ?? 0);
  document.addEventListener("input", ({ target }) => {
    if (target !== box()) return;
    sendTypedLater();
    fit();
  });
  // Fits the box to its text in browsers without field-sizing.
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
    // The server must know the text before it is sent, and the text of the box after the answer; otherwise it would take
    // an older text for a draft that was typed meanwhile.
    cancelTyped();
    sendTyped();
    write("");
    waiting = setTimeout(giveBack, WAIT_MS);
    trigger("click", { do: "ask", name: "", value: onItsWay });
    document.dispatchEvent(new CustomEvent("foresight-sent"));
  };
  // No answer is expected: the connection is lost, or WAIT_MS have passed.
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
    if (isAnswer) sendTypedLater();
    if (given) isDue = false;
    else if (isAnswer && isDue) {
      isDue = false;
      send();
    }
  };

  // Call with the trigger of the component that sends.
  window.foresight.composer = (given) => (trigger = given);
  window.foresight.giveBack = giveBack;
  // Returns the text that is being sent, if any, and the text in the box.
  window.foresight.typed = () => joined(onItsWay, box()?.value);
  window.foresight.fillMessage = (text) => {
    answered();
    isDue = false;
    cancelTyped();
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
    // Editing a waiting message swaps its text with the text in the box.
    const edit = target.closest("[data-do=queue-edit]");
    if (edit) edit.dataset.value = box().value;
    if (edit) box().focus();
  }, true);
})();
