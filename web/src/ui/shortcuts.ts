/** The page's keys. */
import { signal } from "@preact/signals";
import type { Gateway } from "../state/gateway.ts";
import { go, route } from "./route.ts";
import { nextTheme } from "./theme.ts";

export const helpOpen = signal(false);

export const SHORTCUTS: readonly (readonly [string, string])[] = [
  ["Enter", "Send the prompt, or let it wait for the running turn"],
  ["Shift + Enter", "New line"],
  ["/ at the start, @ anywhere", "Commands, files; ↑ ↓ to move, Enter or Tab to take, Esc to close"],
  ["Alt + N", "New session"],
  ["Alt + I", "Inbox"],
  ["Alt + ↑ / ↓", "Previous or next session"],
  ["Alt + Q", "To the question that waits; then Tab, or 1 to 9 for its answers"],
  ["Alt + P", "To the prompt"],
  ["Alt + L", "To the conversation; ↑ ↓ and Page keys scroll it"],
  ["Alt + C", "Cancel the running turn"],
  ["Alt + T", "Light, dark, as the system"],
  ["?", "This list (outside text fields)"],
];

export function listen(gateway: Gateway): () => void {
  const pressed = (event: KeyboardEvent) => {
    const typing = event.target instanceof HTMLElement && /^(?:INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
    if (event.key === "?" && !typing && !event.ctrlKey && !event.metaKey) {
      helpOpen.value = true;
      event.preventDefault();
      return;
    }
    if (!event.altKey || event.ctrlKey || event.metaKey || gateway.phase.value !== "ready") return;
    // By the key's place, because Alt changes its letter on some keyboards.
    const act = ACTIONS[event.code];
    if (act) {
      event.preventDefault();
      act(gateway);
    }
  };
  addEventListener("keydown", pressed);
  return () => removeEventListener("keydown", pressed);
}

const ACTIONS: Record<string, (gateway: Gateway) => void> = {
  KeyN: (gateway) => {
    if (!gateway.readOnly.value) go({ at: "new" });
  },
  KeyI: () => go({ at: "inbox" }),
  KeyT: nextTheme,
  KeyP: () => document.getElementById("prompt")?.focus(),
  KeyL: () => document.querySelector<HTMLElement>("[role=log]")?.focus(),
  KeyQ: (gateway) => {
    const card = document.querySelector<HTMLElement>("[data-question]");
    if (card) card.focus();
    else if (gateway.questions.value.length > 0) go({ at: "inbox" });
  },
  KeyC: (gateway) => {
    const at = route.value;
    if (at.at === "session" && !gateway.readOnly.value) gateway.known(at.agent, at.sessionId)?.cancel();
  },
  ArrowUp: (gateway) => step(gateway, -1),
  ArrowDown: (gateway) => step(gateway, 1),
};

function step(gateway: Gateway, by: number): void {
  const sessions = gateway.listed.value;
  if (sessions.length === 0) return;
  const at = route.value;
  const here = sessions.findIndex((item) => at.at === "session" && item.agent === at.agent && item.sessionId === at.sessionId);
  const next = sessions[here < 0 ? 0 : (here + by + sessions.length) % sessions.length];
  if (next) go({ at: "session", agent: next.agent, sessionId: next.sessionId });
}
