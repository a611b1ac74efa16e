/** The values of `_session/rewind_points` and `_session/rewind`. */
import type * as acp from "@agentclientprotocol/sdk";
import { asRecord } from "./extension-methods.ts";

export type RewindScope = "files" | "conversation" | "both";

/** A message of the user that the session can go back to. */
export interface RewindPoint {
  messageId: string;
  title: string;
  files: number;
}

/** What a rewind has done, or would do. */
export interface RewindResult {
  filesChanged: string[];
  insertions: number;
  deletions: number;
  skipped: { path: string; reason: string }[];
  notes: string[];
  title: string;
  /** The text of the message that the conversation went back to. */
  prompt: string;
}

/** Reads the result of `_session/rewind_points`. */
export function readRewindPoints(result: Record<string, unknown>): RewindPoint[] {
  const points = Array.isArray(result["points"]) ? (result["points"] as unknown[]) : [];
  return points.map(asRecord).flatMap(({ messageId, title, files }) =>
    typeof messageId === "string" && typeof title === "string"
      ? [{ messageId, title, files: typeof files === "number" ? files : 0 }]
      : [],
  );
}

/** Reads the result of `_session/rewind`. */
export function readRewindResult(result: Record<string, unknown>): RewindResult {
  const prompt = Array.isArray(result["prompt"]) ? (result["prompt"] as acp.ContentBlock[]) : [];
  const skipped = Array.isArray(result["skipped"]) ? (result["skipped"] as unknown[]) : [];
  return {
    filesChanged: texts(result["filesChanged"]),
    insertions: Number(result["insertions"]) || 0,
    deletions: Number(result["deletions"]) || 0,
    skipped: skipped.map(asRecord).map(({ path, reason }) => ({ path: String(path), reason: String(reason) })),
    notes: texts(result["notes"]),
    title: typeof result["title"] === "string" ? result["title"] : "",
    prompt: prompt.map((block) => (block.type === "text" ? block.text : "")).join(""),
  };
}

function texts(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : [];
}
