/** The side bar: activity of sessions, filter, scrolling, and read-only tokens. */
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Gateway, GatewayContext } from "../src/state/gateway.ts";
import { route } from "../src/ui/navigation.ts";
import { SessionList } from "../src/ui/SessionList.tsx";
import type { ListedSession } from "../src/wire/extension-methods.ts";

let root: HTMLElement;
let gateway: Gateway;

beforeEach(async () => {
  root = document.body.appendChild(document.createElement("div"));
  gateway = new Gateway();
  vi.spyOn(HTMLElement.prototype, "clientHeight", "get").mockReturnValue(560);
  gateway.sessions.value = Array.from({ length: 200 }, (_, index) => session(index));
  await act(() =>
    render(
      <GatewayContext.Provider value={gateway}>
        <SessionList />
      </GatewayContext.Provider>,
      root,
    ),
  );
});
afterEach(() => {
  render(null, root);
  root.remove();
  route.value = { page: "home" };
  vi.restoreAllMocks();
});

function session(index: number): ListedSession {
  const state = index === 0 ? "waiting" : index === 1 ? "running" : "idle";
  return {
    agent: "accord",
    sessionId: `s${index}`,
    cwd: "/w/project",
    title: `Session ${index}`,
    updatedAt: null,
    state,
    clients: 0,
    live: false,
    owner: index === 2 ? "http://127.0.0.1:8766" : null,
    node: index === 2 ? "b1" : null,
    archived: false,
  };
}

async function typeFilter(text: string): Promise<void> {
  const field = root.querySelector<HTMLInputElement>("#filter");
  await act(() => {
    if (field) field.value = text;
    field?.dispatchEvent(new Event("input", { bubbles: true }));
  });
}

const titles = () => [...root.querySelectorAll(".session-title")].map((title) => title.textContent);

test("lists 200 sessions with their activity, and filters them", async () => {
  expect(titles().length).toBeLessThan(60);
  const rows = [...root.querySelectorAll("li")].map((row) => row.textContent);
  expect(rows.slice(0, 3)).toEqual(["Waiting for you", expect.stringContaining("Session 0"), "project"]);
  expect(rows[3]).toContain("Running");
  expect(rows[4]).toContain("open in http://127.0.0.1:8766");
  await typeFilter("session 77");
  expect(titles()).toEqual(["Session 77", "Session 177"]);
});

test("scrolls to the current session", async () => {
  await act(() => void (route.value = { page: "session", agent: "accord", sessionId: "s150" }));
  await act(() => void root.querySelector(".session-list")?.dispatchEvent(new Event("scroll")));
  expect(titles()).toContain("Session 150");
  expect(titles()).not.toContain("Session 0");
  expect(root.querySelector("[aria-current]")?.textContent).toContain("Session 150");
});

test("searches the sessions that are not loaded at the gateway", async () => {
  vi.useFakeTimers();
  const search = vi.spyOn(gateway, "searchSessions").mockResolvedValue([session(4711)]);
  const said = { role: "agent", text: "a lighthouse", marked: [[2, 12]] as [number, number][] };
  const hits = [{ ...session(4712), title: "Said", matches: [said] }];
  vi.spyOn(gateway.manage, "search").mockResolvedValue(hits);
  gateway.moreSessions.value = "1.1";
  await typeFilter("session 4711");
  await act(async () => {
    await vi.advanceTimersByTimeAsync(1000);
  });
  expect(search).toHaveBeenCalledExactlyOnceWith("session 4711");
  expect(titles()).toEqual(["Session 4711", "Said"]);
  expect(root.querySelector(".match mark")?.textContent).toBe("lighthouse");
  vi.useRealTimers();
});

test("hides the new session and inbox links for a read-only token", async () => {
  expect(root.querySelectorAll(".actions a")).toHaveLength(2);
  await act(() => void (gateway.readOnly.value = true));
  expect(root.querySelectorAll(".actions a")).toHaveLength(0);
});

test("a session that finished since the user last looked is unread until it is opened", async () => {
  const finished = { ...session(5), updatedAt: new Date(Date.now() + 60_000).toISOString() };
  await act(() => gateway.sessionChanged(finished));
  const row = () => [...root.querySelectorAll(".session-link")].find((one) => one.textContent.includes("Session 5"));
  expect(row()?.className).toContain("unread");
  await act(() => void (route.value = { page: "session", agent: "accord", sessionId: "s5" }));
  await act(() => void (route.value = { page: "home" }));
  expect(row()?.className).not.toContain("unread");
  await act(() => gateway.sessionChanged({ ...finished, state: "running" }));
  expect(row()?.className).not.toContain("unread");
});

test("a session that was opened in another tab is not unread here", async () => {
  const finished = { ...session(6), updatedAt: new Date(Date.now() + 60_000).toISOString() };
  await act(() => gateway.sessionChanged(finished));
  const row = () => [...root.querySelectorAll(".session-link")].find((one) => one.textContent.includes("Session 6"));
  expect(row()?.className).toContain("unread");
  const seen = { since: new Date().toISOString(), sessions: { "accord/s6": finished.updatedAt } };
  localStorage.setItem("accord.seen", JSON.stringify(seen));
  await act(() => void dispatchEvent(new StorageEvent("storage", { key: "accord.seen" })));
  expect(row()?.className).not.toContain("unread");
});

test("an archived session leaves the list", async () => {
  await act(() => gateway.sessionChanged({ ...session(7), archived: true }));
  expect(titles()).not.toContain("Session 7");
  expect(gateway.findListedSession("accord", "s7")?.archived).toBe(true);
});
