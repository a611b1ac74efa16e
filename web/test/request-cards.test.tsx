/** Request cards show all options, take no focus, and cannot be answered by accident. */
import type * as acp from "@agentclientprotocol/sdk";
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Gateway, GatewayContext } from "../src/state/gateway.ts";
import { arrangeOptions, optionLabel, type PendingRequest } from "../src/state/pending-requests.ts";
import { Session } from "../src/state/session.ts";
import { RequestCard } from "../src/ui/RequestCards.tsx";

let root: HTMLElement;
const answers: unknown[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("matchMedia", () => ({
    matches: false,
    addEventListener: () => undefined,
    removeEventListener: () => undefined,
  }));
  root = document.body.appendChild(document.createElement("div"));
  answers.length = 0;
});
afterEach(() => {
  render(null, root);
  root.remove();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

const common = {
  key: "k",
  agent: "accord",
  sessionId: "s",
  since: 0,
  answer: (result: unknown) => {
    answers.push(result);
    return Promise.resolve();
  },
};
const OPTIONS: acp.PermissionOption[] = [
  { optionId: "a", name: "Allow <b>once</b>", kind: "allow_once" },
  { optionId: "b", name: "Always", kind: "allow_always" },
  { optionId: "c", name: "No", kind: "reject_once" },
];

async function show(request: PendingRequest): Promise<Session> {
  const gateway = new Gateway();
  const session = gateway.openSession({ agent: "accord", sessionId: "s", cwd: "/w" });
  await act(() => {
    render(
      <GatewayContext.Provider value={gateway}>
        <RequestCard request={request} session={session} />
      </GatewayContext.Provider>,
      root,
    );
  });
  return session;
}

const buttons = () => [...root.querySelectorAll<HTMLButtonElement>(".button-row button")];
/** What a button says, without the key that presses it. */
const label = (button: Element) => {
  const copy = button.cloneNode(true) as Element;
  copy.querySelector(".key-hint")?.remove();
  return copy.textContent;
};
const click = (name: string) =>
  act(() => [...root.querySelectorAll("button")].find((one) => label(one)?.startsWith(name))?.click());
const waitUntilEnabled = () => act(() => void vi.advanceTimersByTime(500));

const PERMISSION: PendingRequest = {
  ...common,
  kind: "permission",
  params: { sessionId: "s", toolCall: { toolCallId: "t", title: "Run rm" }, options: OPTIONS },
};

test("shows one main answer of a permission without focus, and enables it after a moment", async () => {
  await show(PERMISSION);
  const names = ["Allow <b>once</b>", "No", "No, do this instead…", "1 more"];
  expect(buttons().map(label)).toEqual(names);
  expect(root.querySelectorAll("button.primary")).toHaveLength(1);
  expect(document.activeElement).toBe(document.body);
  await click("Allow");
  expect(answers).toEqual([]);
  await waitUntilEnabled();
  await act(() => buttons()[1]?.click());
  expect(answers).toEqual([{ outcome: { outcome: "selected", optionId: "c" } }]);
  await click("Allow");
  expect(answers).toHaveLength(1);
});

test("the other answers are in a menu that the keyboard moves in", async () => {
  await show(PERMISSION);
  await waitUntilEnabled();
  await click("1 more");
  const items = () => [...root.querySelectorAll<HTMLElement>("[role=menuitem]")];
  expect(items().map(label)).toEqual(["Always (allow always)"]);
  expect(document.activeElement).toBe(items()[0]);
  const press = (key: string) =>
    act(() => void document.activeElement?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true })));
  await press("ArrowDown");
  expect(document.activeElement).toBe(items()[0]);
  await press("Escape");
  expect(items()).toEqual([]);
  expect(document.activeElement?.getAttribute("aria-haspopup")).toBe("menu");
  await click("1 more");
  await act(() => items()[0]?.click());
  expect(answers).toEqual([{ outcome: { outcome: "selected", optionId: "b" } }]);
});

test("“No, do this instead” rejects and sends the text", async () => {
  const session = await show(PERMISSION);
  await waitUntilEnabled();
  await click("No, do this");
  const field = root.querySelector("textarea");
  expect(document.activeElement).toBe(field);
  const type = (key: string) =>
    act(() => void field?.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true })));
  await type("1"); // text, not the first answer
  await type("Enter"); // nothing is written yet
  expect(answers).toEqual([]);
  await act(() => {
    if (field) field.value = "only list it";
    field?.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await type("Enter");
  expect(answers).toEqual([{ outcome: { outcome: "selected", optionId: "c" } }]);
  expect(session.queue.prompts.value.map((prompt) => prompt.blocks)).toEqual([
    [{ type: "text", text: "only list it" }],
  ]);
});

test.each([
  [["allow_once", "allow_always", "reject_once", "reject_always"], [0, 2, [1, 3]]],
  [["reject_always", "allow_always"], [1, 0, []]],
  [["reject_once"], [null, 0, []]],
  [[], [null, null, []]],
] as const)("of the options %j, %j have buttons of their own", (kinds, [primary, reject, others]) => {
  const options = kinds.map((kind, index) => ({ optionId: String(index), name: kind, kind }));
  expect(arrangeOptions(options)).toEqual({ primary, reject, others });
});

test("shows a command with its folder instead of raw JSON", async () => {
  const ask = (toolCall: acp.ToolCallUpdate) =>
    show({ ...common, kind: "permission", params: { sessionId: "s", toolCall, options: OPTIONS } });
  const details = () => root.querySelector(".request-details")?.textContent ?? "";
  await ask({ toolCallId: "t", title: "Shell", rawInput: { command: "python3 app.py", timeout: 5 } });
  expect(details()).toContain("$ python3 app.py");
  expect(details()).toContain("in /w");
  expect(root.querySelector("details")?.open).toBe(false);
  await ask({ toolCallId: "u", title: "Shell", rawInput: { command: "ls", args: ["a b"], cwd: "/w/src" } });
  expect(details()).toContain("$ ls 'a b'");
  expect(details()).toContain("in /w/src");
  const shown = (...texts: string[]): acp.ToolCallContent[] =>
    texts.map((text) => ({ type: "content", content: { type: "text", text } }));
  const content = shown("```sh\n$ make\n```", "in /w");
  await ask({ toolCallId: "v", title: "make", content, rawInput: { command: "make" } });
  expect(details().match(/\$ make/g)).toHaveLength(1);
  await ask({ toolCallId: "x", title: "make", content, rawInput: { command: "make", cwd: "/" } });
  expect(details().match(/\$ make/g)).toHaveLength(2);
  await ask({ toolCallId: "y", title: "make", content: shown("$ make"), rawInput: { command: "make" } });
  expect(details()).toContain("in /w");
  const misleading = { command: "rm -rf .", file: "notes.txt" };
  await ask({ toolCallId: "z", title: "Look", content: shown("Look at notes"), rawInput: misleading });
  expect(details()).toContain("$ rm -rf .");
  await ask({ toolCallId: "w", title: "Tool", rawInput: { command: "write", path: "/w/a" } });
  expect(details()).toContain('"path"');
});

test.each([
  ["Allow", "allow_once", "Allow"],
  ["Approve for this session", "allow_always", "Approve for this session"],
  ["Reject", "allow_always", "Reject (allow always)"],
  ["Allow once", "allow_always", "Allow once (allow always)"],
  ["Don\u2019t allow", "allow_once", "Don\u2019t allow (allow once)"],
  ["Sp\u00e4ter", "reject_once", "Sp\u00e4ter (reject once)"],
] as const)("says what the option %s does if its name hides it", (name, kind, label) => {
  expect(optionLabel({ optionId: "x", name, kind })).toBe(label);
});

test("disables a card that moves, so that a double click answers only one request", async () => {
  const session = new Session({ agent: "accord", sessionId: "s", cwd: "/w" }, () => undefined);
  const gateway = new Gateway();
  const newRequest = (key: string): PendingRequest => ({
    ...common,
    key,
    kind: "permission",
    params: { sessionId: "s", toolCall: { toolCallId: key, title: key }, options: OPTIONS },
  });
  const showAll = (requests: PendingRequest[]) =>
    act(() => {
      const cards = requests.map((request) => (
        <RequestCard key={request.key} request={request} session={session} />
      ));
      render(<GatewayContext.Provider value={gateway}>{cards}</GatewayContext.Provider>, root);
    });
  await showAll([newRequest("harmless"), newRequest("dangerous")]);
  await waitUntilEnabled();
  await act(() => buttons()[0]?.click());
  await showAll([newRequest("dangerous")]);
  await act(() => buttons()[0]?.click());
  expect(answers).toHaveLength(1);
  await waitUntilEnabled();
  await act(() => buttons()[0]?.click());
  expect(answers).toHaveLength(2);
});

test("answers by digit only if the focus is in the card", async () => {
  await show({
    ...common,
    kind: "permission",
    params: { sessionId: "s", toolCall: { toolCallId: "t" }, options: OPTIONS },
  });
  await waitUntilEnabled();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "1", bubbles: true }));
  expect(answers).toEqual([]);
  const card = root.querySelector<HTMLElement>("[data-request]");
  await act(() => void card?.dispatchEvent(new KeyboardEvent("keydown", { key: "2", bubbles: true })));
  expect(answers).toEqual([{ outcome: { outcome: "selected", optionId: "b" } }]);
});

test("shows errors of a form, and sends a valid form", async () => {
  const schema = {
    type: "object",
    properties: { name: { type: "string", title: "Name", maxLength: 20 } },
    required: ["name"],
  };
  const params = {
    mode: "form",
    sessionId: "s",
    message: "Who?",
    requestedSchema: schema,
  } as unknown as acp.CreateElicitationRequest;
  await show({ ...common, kind: "elicitation", params });
  await waitUntilEnabled();
  const submit = () =>
    act(async () => {
      root.querySelector("form")?.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
      // The check is asynchronous, because patterns run in a worker.
      await vi.advanceTimersByTimeAsync(0);
    });
  await submit();
  expect(root.querySelector("[role=alert]")?.textContent).toBe("This field is required.");
  const input = root.querySelector<HTMLInputElement>("[name=name]");
  expect(document.activeElement).toBe(input);
  await act(() => {
    if (input) input.value = "Ada";
    input?.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await submit();
  expect(answers).toEqual([{ action: "accept", content: { name: "Ada" } }]);
});

test("offers the suggested answers of a question", async () => {
  const params = { sessionId: "s", question: "Which color?", options: ["red", 7, "blue"] };
  await show({ ...common, kind: "extension", method: "_agentao.cn/ask_user", params });
  await waitUntilEnabled();
  expect(buttons().map((button) => button.textContent)).toEqual(["red", "blue", "Send"]);
  await act(() => buttons()[1]?.click());
  expect(answers).toEqual([{ answer: "blue" }]);
});

test("shows host and warning of a link, and does not open other addresses", async () => {
  const params = (url: string) =>
    ({
      mode: "url",
      sessionId: "s",
      message: "Sign in",
      elicitationId: "e",
      url,
    }) as unknown as acp.CreateElicitationRequest;
  await show({ ...common, kind: "elicitation", params: params("javascript:alert(1)") });
  await waitUntilEnabled();
  expect(buttons()[0]?.disabled).toBe(true);
  await show({ ...common, kind: "elicitation", params: params("https://xn--e1awd7f.example/in") });
  await waitUntilEnabled();
  expect(root.querySelector(".link-address strong")?.textContent).toBe("xn--e1awd7f.example");
  expect(root.textContent).toContain("can look like other characters");
});
