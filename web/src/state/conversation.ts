/**
 * One conversation: session updates in, entries out.
 *
 * Chunks only touch the entry they belong to. What changed is made visible by `flush`, at most once per frame, so a fast agent
 * costs the page no more than a slow one.
 */
import type * as acp from "@agentclientprotocol/sdk";
import { batch, signal } from "@preact/signals";
import type { Fault } from "./faults.ts";
import { common, plainText, type Compaction, type Entry, type Message, type Piece, type ToolCall } from "./entries.ts";

export interface Usage {
  used: number;
  size: number;
  cost: { amount: number; currency: string } | null;
}

/** Calls `flush` soon, once for any number of requests. */
export type Schedule = (flush: () => void) => void;

const TOOL_KINDS = ["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"];

export class Conversation {
  readonly entries = signal<readonly Entry[]>([]);
  readonly plan = signal<readonly acp.PlanEntry[]>([]);
  readonly commands = signal<readonly acp.AvailableCommand[]>([]);
  readonly modes = signal<acp.SessionModeState | null>(null);
  readonly options = signal<readonly acp.SessionConfigOption[]>([]);
  readonly usage = signal<Usage | null>(null);
  readonly title = signal<string | null>(null);

  private all: Entry[] = [];
  private readonly tools = new Map<string, ToolCall>();
  private readonly compactions = new Map<string, Compaction>();
  private readonly touched = new Set<Entry>();
  private grown = false;
  private pending = false;
  /** Text of our own prompt that the agent may say back to us. */
  private echo: string | null = null;

  private readonly schedule: Schedule;

  constructor(schedule: Schedule) {
    this.schedule = schedule;
  }

  /** Forgets everything, because the whole history is about to come again. */
  reset(): void {
    this.all = [];
    this.tools.clear();
    this.compactions.clear();
    this.touched.clear();
    this.plan.value = [];
    this.usage.value = null;
    this.echo = null;
    this.grown = true;
    this.request();
  }

  apply(update: acp.SessionUpdate): void {
    switch (update.sessionUpdate) {
      case "user_message_chunk":
        if (!this.echoed(update.content)) this.chunk("user", update);
        return;
      case "agent_message_chunk":
        this.echo = null;
        this.chunk("agent", update);
        return;
      case "agent_thought_chunk":
        this.echo = null;
        this.chunk("thought", update);
        return;
      case "tool_call":
      case "tool_call_update":
        this.tool(update);
        return;
      case "plan":
        this.plan.value = update.entries;
        return;
      case "available_commands_update":
        this.commands.value = update.availableCommands;
        return;
      case "current_mode_update": {
        const modes = this.modes.value;
        if (modes) this.modes.value = { ...modes, currentModeId: update.currentModeId };
        return;
      }
      case "config_option_update":
        this.options.value = update.configOptions;
        return;
      case "session_info_update":
        if (update.title !== undefined) this.title.value = update.title;
        return;
      case "usage_update":
        this.usage.value = { used: update.used, size: update.size, cost: update.cost ?? null };
        return;
      case "notice":
        this.closeMessage();
        this.add({ ...common(), kind: "notice", severity: update.severity, title: update.title, description: update.description ?? null });
        return;
      case "compaction_update":
      case "compaction_summary_chunk":
        this.compaction(update);
        return;
    }
  }

  /** Our own prompt: the gateway shows it to the others, not to us. */
  said(blocks: readonly acp.ContentBlock[]): Message {
    const pieces = blocks.map((block): Piece => (block.type === "text" ? { type: "text", text: block.text } : block));
    this.closeMessage();
    const message: Message = { ...common(), kind: "user", messageId: null, pieces, closed: true };
    this.add(message);
    this.echo = plainText(pieces);
    return message;
  }

  /** The prompt was not taken, and will be said later. */
  unsaid(message: Message): void {
    this.all = this.all.filter((entry) => entry !== message);
    this.echo = null;
    this.grown = true;
    this.request();
  }

  /** A turn is over: nothing runs any more, whatever the last update said. */
  ended(reason: string, fault: Fault | null = null): void {
    this.closeMessage();
    this.echo = null;
    for (const call of this.tools.values()) {
      if (call.status === "pending" || call.status === "in_progress") {
        call.status = reason === "end_turn" ? "completed" : "cancelled";
        this.touch(call);
      }
    }
    if (reason !== "end_turn") this.add({ ...common(), kind: "ending", reason, detail: fault?.message ?? null, said: fault?.said ?? null });
  }

  toolCall(id: string): ToolCall | undefined {
    return this.tools.get(id);
  }

  /** Makes what has changed visible. */
  flush(): void {
    this.pending = false;
    batch(() => {
      for (const entry of this.touched) entry.revision.value += 1;
      this.touched.clear();
      if (this.grown) {
        this.grown = false;
        this.entries.value = this.all.slice();
      }
    });
  }

  private chunk(kind: Message["kind"], update: acp.ContentChunk): void {
    const last = this.all.at(-1);
    const id = update.messageId ?? null;
    const open = last !== undefined && last.kind === kind && !last.closed && sameMessage(last.messageId, id);
    let message: Message;
    if (open) {
      message = last as Message;
    } else {
      this.closeMessage();
      message = { ...common(), kind, messageId: id, pieces: [], closed: false };
      this.add(message);
    }
    const piece = update.content;
    const before = message.pieces.at(-1);
    if (piece.type === "text" && before?.type === "text") before.text += piece.text;
    else message.pieces.push(piece.type === "text" ? { type: "text", text: piece.text } : piece);
    this.touch(message);
  }

  private tool(update: acp.ToolCall | acp.ToolCallUpdate): void {
    this.echo = null;
    let call = this.tools.get(update.toolCallId);
    if (!call) {
      this.closeMessage();
      call = {
        ...common(),
        kind: "tool",
        toolCallId: update.toolCallId,
        title: "",
        tool: "other",
        status: "pending",
        content: [],
        locations: [],
        rawInput: undefined,
        rawOutput: undefined,
      };
      this.tools.set(update.toolCallId, call);
      this.add(call);
    }
    merge(call, update);
    this.touch(call);
  }

  private compaction(
    update:
      | (acp.CompactionUpdate & { sessionUpdate: "compaction_update" })
      | (acp.CompactionSummaryChunk & { sessionUpdate: "compaction_summary_chunk" }),
  ): void {
    let item = this.compactions.get(update.compactionId);
    if (!item) {
      this.closeMessage();
      item = { ...common(), kind: "compaction", compactionId: update.compactionId, status: "in_progress", summary: "", error: null };
      this.compactions.set(update.compactionId, item);
      this.add(item);
    }
    if (update.sessionUpdate === "compaction_summary_chunk") {
      if (update.content.type === "text") item.summary += update.content.text;
    } else {
      item.status = update.status;
      if (update.error !== undefined) item.error = update.error;
      if (update.summary !== undefined) item.summary = plainText((update.summary ?? []) as Piece[]);
    }
    this.touch(item);
  }

  private echoed(block: acp.ContentBlock): boolean {
    if (this.echo === null) return false;
    if (block.type !== "text") return true;
    if (!this.echo.startsWith(block.text)) {
      this.echo = null;
      return false;
    }
    this.echo = this.echo.slice(block.text.length);
    return true;
  }

  private closeMessage(): void {
    const last = this.all.at(-1);
    if (last && "closed" in last && !last.closed) {
      last.closed = true;
      this.touch(last);
    }
  }

  private add(entry: Entry): void {
    this.all.push(entry);
    this.grown = true;
    this.request();
  }

  private touch(entry: Entry): void {
    this.touched.add(entry);
    this.request();
  }

  private request(): void {
    if (this.pending) return;
    this.pending = true;
    this.schedule(() => this.flush());
  }
}

/** A patch as the protocol means it: what is left out or null stays, lists are replaced. */
export function merge(call: ToolCall, update: acp.ToolCall | acp.ToolCallUpdate): void {
  if (update.title) call.title = update.title;
  if (update.kind && TOOL_KINDS.includes(update.kind)) call.tool = update.kind;
  if (update.status) call.status = update.status;
  if (update.content) call.content = update.content;
  if (update.locations) call.locations = update.locations;
  if (update.rawInput !== undefined && update.rawInput !== null) call.rawInput = update.rawInput;
  if (update.rawOutput !== undefined && update.rawOutput !== null) call.rawOutput = update.rawOutput;
}

function sameMessage(one: string | null, other: string | null): boolean {
  return one === other || one === null || other === null;
}
