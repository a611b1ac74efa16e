/** A conversation turns session updates into entries. */
import type * as acp from "@agentclientprotocol/sdk";
import { expect, test } from "vitest";
import {
  Conversation,
  plainText,
  type Entry,
  type Message,
  type ToolCall,
} from "../src/state/conversation.ts";
import { readSessionUpdate } from "../src/wire/session-events.ts";

const flushes: (() => void)[] = [];

function newConversation(): Conversation {
  flushes.length = 0;
  return new Conversation((flush) => flushes.push(flush));
}

function chunk(
  kind: "agent_message_chunk" | "user_message_chunk" | "agent_thought_chunk",
  text: string,
  messageId?: string,
): acp.SessionUpdate {
  return { sessionUpdate: kind, content: { type: "text", text }, ...(messageId ? { messageId } : {}) };
}

function describe(conversation: Conversation): string[] {
  conversation.flush();
  return conversation.entries.value.map((entry: Entry) => {
    if (entry.kind === "tool") return `tool ${entry.title} ${entry.status}`;
    if ("blocks" in entry) return `${entry.kind} ${plainText(entry.blocks)}`;
    return entry.kind === "turn_end" ? `turn_end ${entry.reason}` : entry.kind;
  });
}

test("joins the chunks of one message into one entry", () => {
  const conversation = newConversation();
  for (const text of ["He", "llo ", "**you**"]) conversation.apply(chunk("agent_message_chunk", text));
  expect(describe(conversation)).toEqual(["agent Hello **you**"]);
});

test("schedules one flush for a thousand chunks, which change one entry", () => {
  const conversation = newConversation();
  conversation.apply(chunk("agent_message_chunk", "a"));
  conversation.flush();
  flushes.length = 0;
  const list = conversation.entries.value;
  for (let index = 0; index < 1000; index += 1) conversation.apply(chunk("agent_message_chunk", "x"));
  expect(flushes).toHaveLength(1);
  conversation.flush();
  expect(conversation.entries.value).toBe(list);
  expect(list[0]?.revision.value).toBe(2);
});

test("starts a new entry after a tool call, for another kind and for another message id", () => {
  const conversation = newConversation();
  conversation.apply(chunk("agent_thought_chunk", "hm"));
  conversation.apply(chunk("agent_message_chunk", "one", "1"));
  conversation.apply(chunk("agent_message_chunk", "two", "2"));
  conversation.apply({ sessionUpdate: "tool_call", toolCallId: "t", title: "Read" });
  conversation.apply(chunk("agent_message_chunk", "three", "2"));
  expect(describe(conversation)).toEqual([
    "thought hm",
    "agent one",
    "agent two",
    "tool Read pending",
    "agent three",
  ]);
});

test("merges tool call updates: missing fields stay, lists are replaced, an unknown id adds an entry", () => {
  const conversation = newConversation();
  const content: acp.ToolCallContent[] = [{ type: "content", content: { type: "text", text: "a" } }];
  conversation.apply({ sessionUpdate: "tool_call", toolCallId: "t", title: "Edit", kind: "edit", content });
  conversation.apply({
    sessionUpdate: "tool_call_update",
    toolCallId: "t",
    status: "in_progress",
    title: null,
  });
  conversation.apply({ sessionUpdate: "tool_call_update", toolCallId: "t", content: [] });
  conversation.apply({
    sessionUpdate: "tool_call_update",
    toolCallId: "new",
    title: "Late",
    status: "completed",
  });
  expect(describe(conversation)).toEqual(["tool Edit in_progress", "tool Late completed"]);
  const call = conversation.entries.value[0] as ToolCall;
  expect(call.content).toEqual([]);
  expect(call.toolKind).toBe("edit");
});

test("cancels running tool calls when the turn is canceled, and adds an entry", () => {
  const conversation = newConversation();
  conversation.apply({ sessionUpdate: "tool_call", toolCallId: "t", title: "Run", status: "in_progress" });
  conversation.endTurn("cancelled");
  expect(describe(conversation)).toEqual(["tool Run cancelled", "turn_end cancelled"]);
});

test("shows our own prompt once, even if the agent echoes it", () => {
  const conversation = newConversation();
  conversation.addPrompt([{ type: "text", text: "do it" }]);
  conversation.apply(chunk("user_message_chunk", "do "));
  conversation.apply(chunk("user_message_chunk", "it"));
  conversation.apply(chunk("agent_message_chunk", "done"));
  conversation.endTurn("end_turn");
  conversation.apply(chunk("user_message_chunk", "from another tab"));
  expect(describe(conversation)).toEqual(["user do it", "agent done", "user from another tab"]);
});

test("removes a prompt that the agent did not accept", () => {
  const conversation = newConversation();
  const message = conversation.addPrompt([{ type: "text", text: "later" }]);
  conversation.removePrompt(message);
  expect(describe(conversation)).toEqual([]);
});

test("replaces plan, mode, title and usage as a whole", () => {
  const conversation = newConversation();
  conversation.modes.value = { currentModeId: "a", availableModes: [] };
  conversation.apply({
    sessionUpdate: "plan",
    entries: [{ content: "x", priority: "low", status: "pending" }],
  });
  conversation.apply({ sessionUpdate: "plan", entries: [] });
  conversation.apply({ sessionUpdate: "current_mode_update", currentModeId: "b" });
  conversation.apply({ sessionUpdate: "session_info_update", title: "Name" });
  conversation.apply({ sessionUpdate: "session_info_update", updatedAt: "2026-01-01T00:00:00Z" });
  conversation.apply({ sessionUpdate: "usage_update", used: 5, size: 10 });
  expect(conversation.plan.value).toEqual([]);
  expect(conversation.modes.value.currentModeId).toBe("b");
  expect(conversation.title.value).toBe("Name");
  expect(conversation.usage.value).toEqual({ used: 5, size: 10, cost: null });
});

test("shows a compaction as one entry with a growing summary", () => {
  const conversation = newConversation();
  conversation.apply({
    sessionUpdate: "compaction_summary_chunk",
    compactionId: "c",
    content: { type: "text", text: "We " },
  });
  conversation.apply({
    sessionUpdate: "compaction_summary_chunk",
    compactionId: "c",
    content: { type: "text", text: "talked" },
  });
  conversation.apply({ sessionUpdate: "compaction_update", compactionId: "c", status: "completed" });
  conversation.flush();
  expect(conversation.entries.value).toMatchObject([
    { kind: "compaction", status: "completed", summary: "We talked" },
  ]);
});

test("keeps images between the texts of a message", () => {
  const conversation = newConversation();
  conversation.apply(chunk("agent_message_chunk", "see "));
  conversation.apply({
    sessionUpdate: "agent_message_chunk",
    content: { type: "image", data: "aGk=", mimeType: "image/png" },
  });
  conversation.apply(chunk("agent_message_chunk", "there"));
  conversation.flush();
  expect((conversation.entries.value[0] as Message).blocks.map((block) => block.type)).toEqual([
    "text",
    "image",
    "text",
  ]);
});

function rewound(marker: Record<string, unknown>): acp.SessionUpdate {
  return { sessionUpdate: "session_info_update", _meta: { rewind: marker } };
}

test("hides everything from a message on, and shows it again", () => {
  const conversation = newConversation();
  for (const text of ["one", "two", "two"]) {
    conversation.addPrompt([{ type: "text", text }]);
    conversation.apply(chunk("agent_message_chunk", `${text} done`));
    conversation.endTurn("end_turn");
  }
  const all = describe(conversation);
  conversation.apply(rewound({ messageId: "m3", messages: 1, text: "two" }));
  expect(describe(conversation)).toEqual(all.slice(0, 4));
  conversation.apply(rewound({ messageId: "m1", messages: 2, text: "one" }));
  expect(describe(conversation)).toEqual([]);
  conversation.apply(rewound({ restored: true }));
  conversation.apply(rewound({ restored: true }));
  conversation.apply(rewound({ restored: true }));
  expect(describe(conversation)).toEqual(all);
  conversation.apply(rewound({ messages: 9 }));
  expect(describe(conversation)).toEqual(all);
});

test("applies what only version 2 of the protocol can say", () => {
  const conversation = newConversation();
  const change = { append: [], cancelled: false, cancellable: undefined };
  const kind = "_accord/tool_call_changed";
  const content: acp.ToolCallContent[] = [{ type: "terminal", terminalId: "t1" }];
  const patch = { toolCallId: "c1", title: "Build", status: "in_progress" } as const;
  conversation.apply({ ...change, sessionUpdate: kind, patch, cancellable: true });
  conversation.apply({ ...change, sessionUpdate: kind, patch: { toolCallId: "c1" }, append: content });
  expect(conversation.toolCall("c1")).toMatchObject({ cancellable: true, content });
  conversation.apply({ ...change, sessionUpdate: kind, patch: { toolCallId: "c1", content: null } });
  conversation.apply({ ...change, sessionUpdate: kind, patch: { toolCallId: "c1" }, cancelled: true });
  expect(conversation.toolCall("c1")).toMatchObject({ status: "cancelled", content: [] });
  conversation.apply(chunk("agent_message_chunk", "buildnig", "a1"));
  conversation.apply({
    sessionUpdate: "_accord/message_changed",
    kind: "agent",
    messageId: "a1",
    content: [{ type: "text", text: "building" }],
  });
  expect(describe(conversation)).toEqual(["tool Build cancelled", "agent building"]);
});

test("reads the gateway's own updates and leaves out what it does not know", () => {
  const read = (update: unknown) => readSessionUpdate({ sessionId: "s1", update }).update;
  expect(read({ sessionUpdate: "_accord/terminal_changed", terminalId: "t1", exit: {} })).toMatchObject({
    terminalId: "t1",
    ended: true,
    command: undefined,
  });
  const background = [{ kind: "terminal", id: "t1" }];
  expect(read({ sessionUpdate: "_accord/state_changed", state: "idle", background })).toMatchObject({ background });
  for (const update of [{ sessionUpdate: "_other/update" }, { sessionUpdate: "_accord/message_changed" }]) {
    expect(read(update)).toBeNull();
  }
});
