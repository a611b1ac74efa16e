/** Going back to earlier messages: the marker in updates, and the commands that users type. */
import { asRecord } from "../wire/extension-methods.ts";
import type { RewindPoint } from "../wire/rewind-methods.ts";
import { plainText, type Entry, type Message } from "./conversation.ts";

/** Which messages are hidden from now on; see docs/rewind.md. */
export interface RewindMarker {
  messageId: string | null;
  messages: number;
  text: string;
  restored: boolean;
}

const TEXT_LIMIT = 200;

/** Returns the marker in the `_meta` of an update; null if there is none. */
export function rewindMarker(meta: unknown): RewindMarker | null {
  const value = asRecord(meta)["rewind"];
  if (typeof value !== "object" || value === null) return null;
  const { messageId, messages, text, restored } = asRecord(value);
  return {
    messageId: typeof messageId === "string" ? messageId : null,
    messages: typeof messages === "number" ? messages : 0,
    text: typeof text === "string" ? text : "",
    restored: restored === true,
  };
}

/**
 * Returns the index of the first hidden entry: the message with the id, else the one with the text that is
 * nearest to the expected position, else that position.
 */
export function rewindIndex(entries: readonly Entry[], marker: RewindMarker): number | null {
  const prompts = entries.flatMap((entry, index) => (entry.kind === "user" ? [{ entry, index }] : []));
  const byId = prompts.find(({ entry }) => marker.messageId !== null && entry.messageId === marker.messageId);
  if (byId) return byId.index;
  const expected = prompts.length - marker.messages;
  const similar = prompts
    .map(({ entry }, position) => ({ entry, position }))
    .filter(({ entry }) => marker.text !== "" && startOf(entry) === marker.text)
    .sort((one, other) => Math.abs(one.position - expected) - Math.abs(other.position - expected));
  return prompts[similar[0]?.position ?? expected]?.index ?? null;
}

/**
 * Returns the point of a prompt that so many others followed: the one with its id, else the nearest one whose
 * title is the beginning of its text.
 */
export function rewindPoint(
  points: readonly RewindPoint[],
  prompt: Message | undefined,
  age: number,
): RewindPoint | null {
  if (!prompt) return null;
  const byId = points.find((point) => prompt.messageId !== null && point.messageId === prompt.messageId);
  const line = plainText(prompt.blocks).trim().replace(/\s+/g, " ");
  const similar = points
    .map((point, index) => ({ point, distance: Math.abs(index - age) }))
    .filter(({ point }) => line.startsWith(point.title.replace(/…$/, "").trim().replace(/\s+/g, " ")))
    .sort((one, other) => one.distance - other.distance);
  return byId ?? similar[0]?.point ?? null;
}

function startOf(message: Message): string {
  return [...plainText(message.blocks).trim()].slice(0, TEXT_LIMIT).join("");
}

/** What the user typed: `/undo`, `/redo` or `/rewind` without a number; null for anything else. */
export function rewindCommand(text: string): "undo" | "redo" | "rewind" | null {
  const command = /^\/(undo|redo|rewind)$/i.exec(text.trim())?.[1]?.toLowerCase();
  return command === "undo" || command === "redo" || command === "rewind" ? command : null;
}
