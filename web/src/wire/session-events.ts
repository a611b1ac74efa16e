/**
 * What an agent in version 2 of the protocol says and updates of version 1 cannot: the gateway's own updates,
 * for clients that announce `events`.
 */
import type * as acp from "@agentclientprotocol/sdk";
import { asRecord, nonEmptyText } from "./extension-methods.ts";

/** A change of a tool call. Null clears a member, and `append` is added to the content. */
export interface ToolCallChange {
  sessionUpdate: "_accord/tool_call_changed";
  patch: Partial<acp.ToolCallUpdate> & { toolCallId: string };
  append: acp.ToolCallContent[];
  cancelled: boolean;
  /** Whether the call can be ended alone; undefined if nothing was said about it. */
  cancellable: boolean | undefined;
}

/** A terminal of the agent appeared, printed or ended. The page asks for its output when it shows it. */
export interface TerminalChange {
  sessionUpdate: "_accord/terminal_changed";
  terminalId: string;
  /** Undefined members stay as they were. */
  command: string | null | undefined;
  ended: boolean | undefined;
  cancellable: boolean | undefined;
}

/** The agent replaces a message. */
export interface MessageChange {
  sessionUpdate: "_accord/message_changed";
  kind: "user" | "agent" | "thought";
  messageId: string;
  content: acp.ContentBlock[];
}

/** What goes on in the background. */
export interface BackgroundChange {
  sessionUpdate: "_accord/state_changed";
  background: BackgroundWork[];
}

export interface BackgroundWork {
  kind: string;
  /** Of the terminal or the tool call. */
  id: string;
}

export type SessionEvent = ToolCallChange | TerminalChange | MessageChange | BackgroundChange;

/** Reads the params of `session/update`. The gateway has checked those of version 1. */
export function readSessionUpdate(params: unknown): {
  sessionId: string;
  update: acp.SessionUpdate | SessionEvent | null;
} {
  const { sessionId, update } = asRecord(params);
  const kind = String(asRecord(update)["sessionUpdate"]);
  return {
    sessionId: String(sessionId),
    update: kind.startsWith("_") ? readEvent(kind, asRecord(update)) : (update as acp.SessionUpdate),
  };
}

function readEvent(kind: string, update: Record<string, unknown>): SessionEvent | null {
  const cancellable = typeof update["cancellable"] === "boolean" ? update["cancellable"] : undefined;
  switch (kind) {
    case "_accord/tool_call_changed": {
      const patch = asRecord(update["patch"]) as ToolCallChange["patch"];
      const append = list(update["append"]) as acp.ToolCallContent[];
      return { sessionUpdate: kind, patch, append, cancelled: update["mark"] === "cancelled", cancellable };
    }
    case "_accord/terminal_changed": {
      const exit = update["exit"];
      const command = update["command"] === undefined ? undefined : nonEmptyText(update["command"]);
      const ended = exit === undefined ? undefined : exit !== null;
      return {
        sessionUpdate: kind,
        terminalId: String(update["terminalId"]),
        command,
        ended,
        cancellable,
      };
    }
    case "_accord/message_changed": {
      const { kind: of, messageId, content } = update;
      if (of !== "user" && of !== "agent" && of !== "thought") return null;
      if (typeof messageId !== "string" || content === undefined) return null;
      return { sessionUpdate: kind, kind: of, messageId, content: list(content) as acp.ContentBlock[] };
    }
    case "_accord/state_changed": {
      if (!Array.isArray(update["background"])) return null;
      const background = update["background"].map((item) => {
        const { kind, id } = asRecord(item);
        return { kind: String(kind), id: String(id) };
      });
      return { sessionUpdate: kind, background };
    }
    default:
      return null;
  }
}

function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}
