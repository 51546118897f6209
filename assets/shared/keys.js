/* Keys that belong to an input method: while it composes, Enter and Escape are its own.

   They pick or drop a candidate there. One guard keeps them from everything on the page: from our
   listeners, from forms that send on Enter, and from dialogs that close on Escape. Safari tells the
   Enter that ends a composition only by the key code 229. */

const PROCESSED = 229;

export const isComposing = (event) => event.isComposing || event.keyCode === PROCESSED;

/** target: the document, or a part of it. later(step): runs it when the key has been handled. */
export function guardComposition(target, later = (step) => setTimeout(step)) {
  let composed = false;
  const onKey = (event) => {
    if (!isComposing(event)) return;
    event.stopPropagation();
    composed = true;
    later(() => (composed = false));
  };
  const onEffect = (event) => {
    if (!composed) return;
    event.preventDefault();
    event.stopPropagation();
  };
  target.addEventListener("keydown", onKey, true);
  for (const effect of ["submit", "cancel"]) target.addEventListener(effect, onEffect, true);
}
