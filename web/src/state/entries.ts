/** What a conversation is made of, in the order it is shown. */
import type * as acp from "@agentclientprotocol/sdk";
import { signal, type Signal } from "@preact/signals";

/** A piece of a message: running text is one piece, however many chunks it came in. */
export type Piece = { type: "text"; text: string } | Exclude<acp.ContentBlock, { type: "text" }>;

interface Common {
  key: string;
  /** Grows with each change that has been made visible. */
  revision: Signal<number>;
}

export interface Message extends Common {
  kind: "user" | "agent" | "thought";
  messageId: string | null;
  pieces: Piece[];
  /** Nothing more will be added. */
  closed: boolean;
}

export interface ToolCall extends Common {
  kind: "tool";
  toolCallId: string;
  title: string;
  tool: acp.ToolKind;
  status: acp.ToolCallStatus | "cancelled";
  content: acp.ToolCallContent[];
  locations: acp.ToolCallLocation[];
  rawInput: unknown;
  rawOutput: unknown;
}

export interface Notice extends Common {
  kind: "notice";
  severity: string;
  title: string;
  description: string | null;
}

export interface Compaction extends Common {
  kind: "compaction";
  compactionId: string;
  status: string;
  summary: string;
  error: string | null;
}

/** How a turn ended, where that is worth a line. */
export interface Ending extends Common {
  kind: "ending";
  reason: string;
  detail: string | null;
  /** The last that the agent said on its stderr. */
  said: string | null;
}

export type Entry = Message | ToolCall | Notice | Compaction | Ending;

let count = 0;

export function common(): Common {
  count += 1;
  return { key: `e${count}`, revision: signal(0) };
}

export function plainText(pieces: readonly Piece[]): string {
  return pieces.map((piece) => (piece.type === "text" ? piece.text : "")).join("");
}
