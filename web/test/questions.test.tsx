/** Cards: nothing is focused, nothing can be pressed by accident, every option of the agent's is there. */
import type * as acp from "@agentclientprotocol/sdk";
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { Gateway } from "../src/state/gateway.ts";
import type { Question } from "../src/state/questions.ts";
import { Session } from "../src/state/session.ts";
import { GatewayContext } from "../src/ui/context.ts";
import { QuestionCard } from "../src/ui/Questions.tsx";

let root: HTMLElement;
const answers: unknown[] = [];

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal("matchMedia", () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
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

async function show(question: Question): Promise<void> {
  const session = new Session({ agent: "accord", sessionId: "s", cwd: "/w" }, () => undefined);
  await act(() => {
    render(
      <GatewayContext.Provider value={new Gateway()}>
        <QuestionCard question={question} session={session} />
      </GatewayContext.Provider>,
      root,
    );
  });
}

const buttons = () => [...root.querySelectorAll<HTMLButtonElement>(".choices button")];
const calm = () => act(() => void vi.advanceTimersByTime(500));

test("a permission shows all options, unfocused, and waits a moment before it can be answered", async () => {
  await show({ ...common, kind: "permission", params: { sessionId: "s", toolCall: { toolCallId: "t", title: "Run rm" }, options: OPTIONS } });
  expect(buttons().map((button) => button.textContent)).toEqual(["Allow <b>once</b>", "Always", "No"]);
  expect(document.activeElement).toBe(document.body);
  buttons()[0]?.click();
  expect(answers).toEqual([]);
  await calm();
  await act(() => buttons()[2]?.click());
  expect(answers).toEqual([{ outcome: { outcome: "selected", optionId: "c" } }]);
  await act(() => buttons()[0]?.click());
  expect(answers).toHaveLength(1);
});

test("a card that takes the place of another waits again, so that a double click answers one question", async () => {
  const session = new Session({ agent: "accord", sessionId: "s", cwd: "/w" }, () => undefined);
  const gateway = new Gateway();
  const ask = (key: string): Question => ({ ...common, key, kind: "permission", params: { sessionId: "s", toolCall: { toolCallId: key, title: key }, options: OPTIONS } });
  const put = (questions: Question[]) =>
    act(() => {
      const cards = questions.map((question) => <QuestionCard key={question.key} question={question} session={session} />);
      render(<GatewayContext.Provider value={gateway}>{cards}</GatewayContext.Provider>, root);
    });
  await put([ask("harmless"), ask("dangerous")]);
  await calm();
  await act(() => buttons()[0]?.click());
  await put([ask("dangerous")]);
  await act(() => buttons()[0]?.click());
  expect(answers).toHaveLength(1);
  await calm();
  await act(() => buttons()[0]?.click());
  expect(answers).toHaveLength(2);
});

test("digits answer only where the card has the focus", async () => {
  await show({ ...common, kind: "permission", params: { sessionId: "s", toolCall: { toolCallId: "t" }, options: OPTIONS } });
  await calm();
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "1", bubbles: true }));
  expect(answers).toEqual([]);
  const card = root.querySelector<HTMLElement>("[data-question]");
  await act(() => void card?.dispatchEvent(new KeyboardEvent("keydown", { key: "2", bubbles: true })));
  expect(answers).toEqual([{ outcome: { outcome: "selected", optionId: "b" } }]);
});

test("a form says what is missing, and sends what fits", async () => {
  const schema = { type: "object", properties: { name: { type: "string", title: "Name", maxLength: 20 } }, required: ["name"] };
  const params = { mode: "form", sessionId: "s", message: "Who?", requestedSchema: schema } as unknown as acp.CreateElicitationRequest;
  await show({ ...common, kind: "elicitation", params });
  await calm();
  const submit = () =>
    act(async () => {
      root.querySelector("form")?.dispatchEvent(new Event("submit", { bubbles: true, cancelable: true }));
      // The check is asynchronous, because a pattern is tried elsewhere.
      await vi.advanceTimersByTimeAsync(0);
    });
  await submit();
  expect(root.querySelector("[role=alert]")?.textContent).toBe("This is needed.");
  const input = root.querySelector<HTMLInputElement>("[name=name]");
  expect(document.activeElement).toBe(input);
  await act(() => {
    if (input) input.value = "Ada";
    input?.dispatchEvent(new Event("input", { bubbles: true }));
  });
  await submit();
  expect(answers).toEqual([{ action: "accept", content: { name: "Ada" } }]);
});

test("a plain question takes a suggestion or one's own words", async () => {
  const params = { sessionId: "s", question: "Which colour?", options: ["red", 7, "blue"] };
  await show({ ...common, kind: "other", method: "_agentao.cn/ask_user", params });
  await calm();
  expect(buttons().map((button) => button.textContent)).toEqual(["red", "blue", "Send"]);
  await act(() => buttons()[1]?.click());
  expect(answers).toEqual([{ answer: "blue" }]);
});

test("a link shows host and address, and what is no web page cannot be opened", async () => {
  const params = (url: string) => ({ mode: "url", sessionId: "s", message: "Sign in", elicitationId: "e", url }) as unknown as acp.CreateElicitationRequest;
  await show({ ...common, kind: "elicitation", params: params("javascript:alert(1)") });
  await calm();
  expect(buttons()[0]?.disabled).toBe(true);
  await show({ ...common, kind: "elicitation", params: params("https://xn--e1awd7f.example/in") });
  await calm();
  expect(root.querySelector(".address strong")?.textContent).toBe("xn--e1awd7f.example");
  expect(root.textContent).toContain("may look like others");
});
