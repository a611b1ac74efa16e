/** The list of sessions: what each is doing, where the keys are, and only what the token allows. */
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Gateway } from "../src/state/gateway.ts";
import type { ListedSession } from "../src/wire/vendor.ts";
import { GatewayContext } from "../src/ui/context.ts";
import { route } from "../src/ui/route.ts";
import { Sessions } from "../src/ui/Sessions.tsx";

let root: HTMLElement;
let gateway: Gateway;
const seen: string[] = [];

beforeEach(async () => {
  root = document.body.appendChild(document.createElement("div"));
  gateway = new Gateway();
  seen.length = 0;
  Element.prototype.scrollIntoView = function () {
    seen.push(this.querySelector(".session-title")?.textContent ?? "");
  };
  gateway.listed.value = Array.from({ length: 200 }, (_, index) => session(index));
  await act(() => render(<GatewayContext.Provider value={gateway}><Sessions /></GatewayContext.Provider>, root));
});
afterEach(() => {
  render(null, root);
  root.remove();
  route.value = { at: "home" };
  Reflect.deleteProperty(Element.prototype, "scrollIntoView");
  vi.restoreAllMocks();
});

function session(index: number): ListedSession {
  const state = index === 0 ? "waiting" : index === 1 ? "running" : "idle";
  return { agent: "accord", sessionId: `s${index}`, cwd: "/w/project", title: `Session ${index}`, updatedAt: null, state, clients: 0, live: false };
}

const titles = () => [...root.querySelectorAll(".session-title")].map((title) => title.textContent);

test("two hundred sessions, with what each is doing, and a field that finds one", async () => {
  expect(titles()).toHaveLength(200);
  expect(root.querySelectorAll("li")[0]?.textContent).toContain("Waiting for you");
  expect(root.querySelectorAll("li")[1]?.textContent).toContain("Running");
  const field = root.querySelector<HTMLInputElement>("#filter");
  await act(() => {
    if (field) field.value = "session 77";
    field?.dispatchEvent(new Event("input", { bubbles: true }));
  });
  expect(titles()).toEqual(["Session 77"]);
});

test("the session that is shown is in sight in the list, too", async () => {
  await act(() => void (route.value = { at: "session", agent: "accord", sessionId: "s150" }));
  expect(seen).toEqual(["Session 150"]);
});

test("a token that only reads is offered no new session and no inbox", async () => {
  expect(root.querySelectorAll(".actions a")).toHaveLength(2);
  await act(() => void (gateway.readOnly.value = true));
  expect(root.querySelectorAll(".actions a")).toHaveLength(0);
});
