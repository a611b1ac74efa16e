/** What agents report at the start of every session is shown once. */
import { expect, test } from "vitest";
import { Session } from "../src/state/session.ts";

function shown(sessionId: string, severity: string, description: string): number {
  const session = new Session({ agent: "accord", sessionId, cwd: "/w" }, () => undefined);
  session.applyUpdate({ sessionUpdate: "notice", severity, title: "Sandbox", description });
  session.conversation.value.flush();
  return session.conversation.value.entries.value.length;
}

test("the state of the sandbox is not repeated in the next session, unless it changed", () => {
  expect(shown("one", "info", "bubblewrap")).toBe(1);
  expect(shown("two", "info", "bubblewrap")).toBe(0);
  expect(shown("three", "info", "no sandbox")).toBe(1);
});

test("a warning is shown each time", () => {
  expect(shown("one", "warning", "no sandbox here")).toBe(1);
  expect(shown("two", "warning", "no sandbox here")).toBe(1);
});
