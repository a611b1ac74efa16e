/** What the page shows, taken from the part of the address after `#`, and the keyboard shortcuts. */
import { signal } from "@preact/signals";
import type { PlainKey } from "../messages/messages.ts";
import type { Gateway } from "../state/gateway.ts";
import { sessionRows } from "../state/session-rows.ts";
import { switchTheme } from "./appearance.ts";

export type Route =
  | { page: "home" }
  | { page: "new"; folder?: string }
  | { page: "settings" }
  | { page: "inbox"; request?: string }
  | { page: "session"; agent: string; sessionId: string };

export const route = signal<Route>(readRoute());

addEventListener("hashchange", () => {
  sessionDialog.value = null;
  route.value = readRoute();
});

export function routeHash(to: Route): string {
  if (to.page === "session") {
    return `#/session/${encodeURIComponent(to.agent)}/${encodeURIComponent(to.sessionId)}`;
  }
  if (to.page === "inbox" && to.request !== undefined) return `#/inbox/${encodeURIComponent(to.request)}`;
  if (to.page === "new" && to.folder) return `#/new/${encodeURIComponent(to.folder)}`;
  return to.page === "home" ? "#/" : `#/${to.page}`;
}

export function navigate(to: Route): void {
  location.hash = routeHash(to);
}

export function isSessionRoute(to: Route, agent: string, sessionId: string): boolean {
  return to.page === "session" && to.agent === agent && to.sessionId === sessionId;
}

export const helpOpen = signal(false);
export const paletteOpen = signal(false);
/** The dialog of the session that is shown. */
export const sessionDialog = signal<"rename" | "share" | "delete" | null>(null);
/** Whether the settings show the form for another device. */
export const addingDevice = signal(false);

export const SHORTCUTS: readonly (readonly [string, PlainKey])[] = [
  ["Enter", "shortcuts.send"],
  ["Shift + Enter", "shortcuts.newLine"],
  ["Alt + Enter", "shortcuts.queue"],
  ["/ or @", "shortcuts.complete"],
  ["Ctrl + K", "palette.title"],
  ["Alt + N", "shortcuts.newSession"],
  ["Alt + I", "shortcuts.inbox"],
  ["Alt + ↑ / ↓", "shortcuts.sessions"],
  ["Alt + Q", "shortcuts.request"],
  ["Alt + P", "shortcuts.prompt"],
  ["Alt + L", "shortcuts.conversation"],
  ["Alt + C", "shortcuts.cancel"],
  ["Alt + R", "shortcuts.review"],
  ["Alt + T", "shortcuts.theme"],
  ["?", "shortcuts.help"],
];

/** Installs the shortcuts. Returns a function that removes them. */
export function installShortcuts(gateway: Gateway): () => void {
  const onKeyDown = (event: KeyboardEvent) => {
    const typing = "input:not([type=radio],[type=checkbox]),textarea,select";
    const inField = event.target instanceof HTMLElement && event.target.matches(typing);
    if (event.key === "?" && !inField && !event.ctrlKey && !event.metaKey) {
      helpOpen.value = true;
      event.preventDefault();
      return;
    }
    if (event.code === "KeyK" && (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey) {
      event.preventDefault();
      paletteOpen.value = !paletteOpen.value;
      return;
    }
    if (!event.altKey || event.ctrlKey || event.metaKey || gateway.phase.value !== "ready") return;
    // Compare the key's position, because Alt changes the character on some keyboards.
    const action = ACTIONS[event.code];
    if (action) {
      event.preventDefault();
      action(gateway);
    }
  };
  addEventListener("keydown", onKeyDown);
  return () => removeEventListener("keydown", onKeyDown);
}

const ACTIONS: Record<string, (gateway: Gateway) => void> = {
  KeyN: (gateway) => {
    if (!gateway.readOnly.value) navigate({ page: "new" });
  },
  KeyI: () => navigate({ page: "inbox" }),
  KeyT: switchTheme,
  KeyP: () => document.getElementById("prompt")?.focus(),
  KeyL: () => document.querySelector<HTMLElement>("[role=log]")?.focus(),
  KeyQ: (gateway) => {
    const card = document.querySelector<HTMLElement>("[data-request]");
    if (card) card.focus();
    else if (gateway.requests.value.length > 0) navigate({ page: "inbox" });
  },
  KeyC: (gateway) => {
    const current = route.value;
    if (current.page === "session" && !gateway.readOnly.value) {
      gateway.findOpenSession(current.agent, current.sessionId)?.cancel();
    }
  },
  KeyR: (gateway) => {
    const current = route.value;
    if (current.page !== "session") return;
    const session = gateway.findOpenSession(current.agent, current.sessionId);
    if (session?.canReview()) session.reviewing.value = !session.reviewing.value;
  },
  ArrowUp: (gateway) => selectSession(gateway, -1),
  ArrowDown: (gateway) => selectSession(gateway, 1),
};

/** Goes forward or back in the session list, around its ends. */
function selectSession(gateway: Gateway, step: number): void {
  const rows = sessionRows(gateway.sessions.value, "");
  const sessions = rows.flatMap((row) => (row.kind === "session" ? [row.session] : []));
  if (sessions.length === 0) return;
  const index = sessions.findIndex((item) => isSessionRoute(route.value, item.agent, item.sessionId));
  const next = sessions[index < 0 ? 0 : (index + step + sessions.length) % sessions.length];
  if (next) navigate({ page: "session", agent: next.agent, sessionId: next.sessionId });
}

function readRoute(): Route {
  const [page, agent, sessionId] = location.hash.replace(/^#\/?/, "").split("/").map(decodePart);
  if (page === "session" && agent && sessionId) return { page, agent, sessionId };
  if (page === "inbox") return agent ? { page, request: agent } : { page };
  if (page === "new") return agent ? { page, folder: agent } : { page };
  return page === "settings" ? { page } : { page: "home" };
}

function decodePart(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
