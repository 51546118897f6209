/* A chat on a fresh page, with a server that answers late. */

import { Chat } from "../../assets/chat/chat.js";
import { Drafts } from "../../assets/chat/drafts.js";
import { Transcript } from "../../assets/chat/transcript.js";
import { newPage } from "./dom.js";
import { LateServer } from "./server.js";

export function openChat() {
  const root = newPage();
  const server = new LateServer();
  const toasts = [];
  const kept = { value: null, get: () => kept.value, set: (value) => (kept.value = value) };
  const drafts = new Drafts(kept);
  const box = root.querySelector("#message-box");
  const $ = (selector) => root.querySelector(selector);
  const transcript = new Transcript(
    { scroller: $("#transcript"), list: $("#messages"), toEnd: $("#to-end") },
    {},
  );
  const nothing = () => {};
  const chat = new Chat({
    ...{ root, transcript, drafts, changed: nothing, chosen: nothing, advise: nothing },
    figures: { clear: nothing, show: nothing, setProgress: nothing },
    viewBar: { setDrafters: nothing },
    call: server.call,
    attempt: async (action) => {
      try {
        await action();
        return true;
      } catch (error) {
        toasts.push(error.message);
        return false;
      }
    },
  });
  chat.greet({ conversation: null, messages: [], seq: 0 }, null);
  return { root, server, chat, transcript, toasts, drafts, box };
}

export const opened = (conversation, seq, ...texts) => ({
  conversation,
  seq,
  messages: texts.map((content, at) => ({ id: 10 * conversation + at, role: "user", content })),
});
export const userEvent = (c, m, text) => ({ k: "user", c, m, text });

export const reply = (id, details = {}) => ({
  ...{ id, role: "assistant", content: "said", tokens: [["said", "p", null, null, null, null]] },
  ...{ details, versions: [id] },
});
