/** Where the page is: in the part of the address behind `#`, so that the browser's own back and forward work. */
import { signal } from "@preact/signals";

export type Route = { at: "home" } | { at: "new" } | { at: "inbox" } | { at: "session"; agent: string; sessionId: string };

function read(): Route {
  const [at, agent, sessionId] = location.hash.replace(/^#\/?/, "").split("/").map(decode);
  if (at === "session" && agent && sessionId) return { at, agent, sessionId };
  return at === "new" || at === "inbox" ? { at } : { at: "home" };
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export const route = signal<Route>(read());

addEventListener("hashchange", () => {
  route.value = read();
});

export function addressOf(to: Route): string {
  if (to.at === "session") return `#/session/${encodeURIComponent(to.agent)}/${encodeURIComponent(to.sessionId)}`;
  return to.at === "home" ? "#/" : `#/${to.at}`;
}

export function go(to: Route): void {
  location.hash = addressOf(to);
}
