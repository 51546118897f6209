/* Where the user is among messages that are drawn anew: what he sees, and where the focus is. */

/** Put the list's children into this order, and nothing else; those that stand right are not moved. */
export function arrange(list, wanted) {
  for (const element of [...list.children]) {
    if (!wanted.includes(element)) element.remove();
  }
  for (const [at, element] of wanted.entries()) {
    if (list.children[at] !== element) list.insertBefore(element, list.children[at] ?? null);
  }
}

/** A function that scrolls so that the first visible message stands where it stood. */
export function placeIn(scroller, messages) {
  const edge = () => scroller.getBoundingClientRect().top;
  const top = edge();
  for (const { id, element } of messages.values()) {
    const { bottom, top: from } = element.getBoundingClientRect();
    if (bottom <= top) continue;
    return (drawn) => {
      const now = drawn.get(id)?.element.getBoundingClientRect().top;
      if (now !== undefined) scroller.scrollTop += now - edge() - (from - top);
    };
  }
  return () => {};
}

/** A function that puts the focus back into the message at the same place, if its own is gone. */
export function focusIn(list) {
  const focused = document.activeElement;
  const at = [...list.children].findIndex((message) => message.contains(focused));
  const label = focused && nameOf(focused);
  return () => {
    const message = list.children[at];
    if (!message || focused.isConnected) return;
    const usable = [...message.querySelectorAll("[tabindex], button:not(:disabled)")];
    const same = usable.find((one) => nameOf(one) === label);
    (same ?? usable[0])?.focus({ preventScroll: true });
  };
}

const nameOf = (element) => element.getAttribute("aria-label") ?? element.textContent;
