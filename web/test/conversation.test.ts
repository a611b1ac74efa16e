/** Session updates become the entries that are shown. */
import type * as acp from "@agentclientprotocol/sdk";
import { expect, test } from "vitest";
import { Conversation } from "../src/state/conversation.ts";
import { plainText, type Entry, type Message, type ToolCall } from "../src/state/entries.ts";

const flushes: (() => void)[] = [];

function conversation(): Conversation {
  flushes.length = 0;
  return new Conversation((flush) => flushes.push(flush));
}

function chunk(kind: "agent_message_chunk" | "user_message_chunk" | "agent_thought_chunk", text: string, messageId?: string): acp.SessionUpdate {
  return { sessionUpdate: kind, content: { type: "text", text }, ...(messageId ? { messageId } : {}) };
}

function shown(of: Conversation): string[] {
  of.flush();
  return of.entries.value.map((entry: Entry) => {
    if (entry.kind === "tool") return `tool ${entry.title} ${entry.status}`;
    if ("pieces" in entry) return `${entry.kind} ${plainText(entry.pieces)}`;
    return entry.kind === "ending" ? `ending ${entry.reason}` : entry.kind;
  });
}

test("chunks of one message are one entry, whatever they are cut into", () => {
  const it = conversation();
  for (const text of ["He", "llo ", "**you**"]) it.apply(chunk("agent_message_chunk", text));
  expect(shown(it)).toEqual(["agent Hello **you**"]);
});

test("a thousand chunks ask for one flush, and change one entry", () => {
  const it = conversation();
  it.apply(chunk("agent_message_chunk", "a"));
  it.flush();
  flushes.length = 0;
  const list = it.entries.value;
  for (let index = 0; index < 1000; index += 1) it.apply(chunk("agent_message_chunk", "x"));
  expect(flushes).toHaveLength(1);
  it.flush();
  expect(it.entries.value).toBe(list);
  expect(list[0]?.revision.value).toBe(2);
});

test("a tool call, another kind and another message id each begin a new entry", () => {
  const it = conversation();
  it.apply(chunk("agent_thought_chunk", "hm"));
  it.apply(chunk("agent_message_chunk", "one", "1"));
  it.apply(chunk("agent_message_chunk", "two", "2"));
  it.apply({ sessionUpdate: "tool_call", toolCallId: "t", title: "Read" });
  it.apply(chunk("agent_message_chunk", "three", "2"));
  expect(shown(it)).toEqual(["thought hm", "agent one", "agent two", "tool Read pending", "agent three"]);
});

test("a tool call is patched: what is left out stays, lists are replaced, an unknown id is made", () => {
  const it = conversation();
  const content: acp.ToolCallContent[] = [{ type: "content", content: { type: "text", text: "a" } }];
  it.apply({ sessionUpdate: "tool_call", toolCallId: "t", title: "Edit", kind: "edit", content });
  it.apply({ sessionUpdate: "tool_call_update", toolCallId: "t", status: "in_progress", title: null });
  it.apply({ sessionUpdate: "tool_call_update", toolCallId: "t", content: [] });
  it.apply({ sessionUpdate: "tool_call_update", toolCallId: "new", title: "Late", status: "completed" });
  expect(shown(it)).toEqual(["tool Edit in_progress", "tool Late completed"]);
  const call = it.entries.value[0] as ToolCall;
  expect(call.content).toEqual([]);
  expect(call.tool).toBe("edit");
});

test("what still ran when a turn was cancelled is cancelled, and the end is told", () => {
  const it = conversation();
  it.apply({ sessionUpdate: "tool_call", toolCallId: "t", title: "Run", status: "in_progress" });
  it.ended("cancelled");
  expect(shown(it)).toEqual(["tool Run cancelled", "ending cancelled"]);
});

test("our own prompt is shown once, also by agents that say it back", () => {
  const it = conversation();
  it.said([{ type: "text", text: "do it" }]);
  it.apply(chunk("user_message_chunk", "do "));
  it.apply(chunk("user_message_chunk", "it"));
  it.apply(chunk("agent_message_chunk", "done"));
  it.ended("end_turn");
  it.apply(chunk("user_message_chunk", "from another tab"));
  expect(shown(it)).toEqual(["user do it", "agent done", "user from another tab"]);
});

test("a prompt that was not taken is no longer shown", () => {
  const it = conversation();
  const message = it.said([{ type: "text", text: "later" }]);
  it.unsaid(message);
  expect(shown(it)).toEqual([]);
});

test("plan, commands, mode, options, title and usage are replaced as a whole", () => {
  const it = conversation();
  it.modes.value = { currentModeId: "a", availableModes: [] };
  it.apply({ sessionUpdate: "plan", entries: [{ content: "x", priority: "low", status: "pending" }] });
  it.apply({ sessionUpdate: "plan", entries: [] });
  it.apply({ sessionUpdate: "current_mode_update", currentModeId: "b" });
  it.apply({ sessionUpdate: "session_info_update", title: "Name" });
  it.apply({ sessionUpdate: "session_info_update", updatedAt: "2026-01-01T00:00:00Z" });
  it.apply({ sessionUpdate: "usage_update", used: 5, size: 10 });
  expect(it.plan.value).toEqual([]);
  expect(it.modes.value.currentModeId).toBe("b");
  expect(it.title.value).toBe("Name");
  expect(it.usage.value).toEqual({ used: 5, size: 10, cost: null });
});

test("a compaction is one entry, its summary grows", () => {
  const it = conversation();
  it.apply({ sessionUpdate: "compaction_summary_chunk", compactionId: "c", content: { type: "text", text: "We " } });
  it.apply({ sessionUpdate: "compaction_summary_chunk", compactionId: "c", content: { type: "text", text: "talked" } });
  it.apply({ sessionUpdate: "compaction_update", compactionId: "c", status: "completed" });
  it.flush();
  expect(it.entries.value).toMatchObject([{ kind: "compaction", status: "completed", summary: "We talked" }]);
});

test("pictures stand between the texts of a message", () => {
  const it = conversation();
  it.apply(chunk("agent_message_chunk", "see "));
  it.apply({ sessionUpdate: "agent_message_chunk", content: { type: "image", data: "aGk=", mimeType: "image/png" } });
  it.apply(chunk("agent_message_chunk", "there"));
  it.flush();
  expect((it.entries.value[0] as Message).pieces.map((piece) => piece.type)).toEqual(["text", "image", "text"]);
});
