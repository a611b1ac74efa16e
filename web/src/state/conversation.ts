/**
 * One conversation: turns session updates into the entries that the page shows.
 *
 * A chunk changes only the entry it belongs to. `flush` publishes the changes at most once per frame, so the
 * cost for the page does not depend on the number of chunks.
 */
import type * as acp from "@agentclientprotocol/sdk";
import { batch, signal, type Signal } from "@preact/signals";
import { asRecord, type ErrorReport } from "../wire/extension-methods.ts";
import type { MessageChange, SessionEvent, ToolCallChange } from "../wire/session-events.ts";
import { rewindIndex, rewindMarker, type RewindMarker } from "./rewind.ts";

/** A content block of a message. Consecutive text chunks become one block. */
export type MessageBlock = { type: "text"; text: string } | Exclude<acp.ContentBlock, { type: "text" }>;

interface EntryBase {
  key: string;
  /** Increases with each published change. */
  revision: Signal<number>;
}

export interface Message extends EntryBase {
  kind: "user" | "agent" | "thought";
  messageId: string | null;
  blocks: MessageBlock[];
  /** No more chunks will be added. */
  complete: boolean;
  /** When the prompt was sent, in milliseconds since 1970; null if it is not known. */
  time: number | null;
  /** Sent to a running turn. */
  steered: boolean;
}

export interface ToolCall extends EntryBase {
  kind: "tool";
  toolCallId: string;
  title: string;
  toolKind: acp.ToolKind;
  status: acp.ToolCallStatus | "cancelled";
  content: acp.ToolCallContent[];
  locations: acp.ToolCallLocation[];
  rawInput: unknown;
  rawOutput: unknown;
  /** The agent ends this call alone if asked to. */
  cancellable: boolean;
}

export interface Notice extends EntryBase {
  kind: "notice";
  severity: string;
  title: string;
  description: string | null;
}

export interface Compaction extends EntryBase {
  kind: "compaction";
  compactionId: string;
  status: string;
  summary: string;
  error: string | null;
}

/** The end of a turn, if its reason is not `end_turn`. */
export interface TurnEnd extends EntryBase {
  kind: "turn_end";
  reason: string;
  error: string | null;
  /** The JSON-RPC code of the error. */
  code: number | null;
  stderrTail: string | null;
}

export type Entry = Message | ToolCall | Notice | Compaction | TurnEnd;

export interface Usage {
  used: number;
  size: number;
  cost: { amount: number; currency: string } | null;
}

/** Calls `flush` later. */
export type FlushScheduler = (flush: () => void) => void;

const TOOL_KINDS = [
  "read",
  "edit",
  "delete",
  "move",
  "search",
  "execute",
  "think",
  "fetch",
  "switch_mode",
  "other",
];

export class Conversation {
  readonly entries = signal<readonly Entry[]>([]);
  readonly plan = signal<readonly acp.PlanEntry[]>([]);
  readonly commands = signal<readonly acp.AvailableCommand[]>([]);
  readonly modes = signal<acp.SessionModeState | null>(null);
  readonly options = signal<readonly acp.SessionConfigOption[]>([]);
  readonly usage = signal<Usage | null>(null);
  readonly title = signal<string | null>(null);

  private allEntries: Entry[] = [];
  private readonly toolCalls = new Map<string, ToolCall>();
  private readonly compactions = new Map<string, Compaction>();
  private readonly changedEntries = new Set<Entry>();
  /** What rewinds took out, and where it was. */
  private readonly hidden: { index: number; entries: Entry[] }[] = [];
  private listChanged = false;
  private flushScheduled = false;
  /** The rest of our own prompt that the agent may still send back as user message chunks. */
  private expectedEcho: string | null = null;

  private readonly schedule: FlushScheduler;

  constructor(schedule: FlushScheduler = nextFrame) {
    this.schedule = schedule;
  }

  apply(update: acp.SessionUpdate | SessionEvent): void {
    switch (update.sessionUpdate) {
      case "user_message_chunk":
        if (!this.isEcho(update.content)) this.applyChunk("user", update);
        return;
      case "agent_message_chunk":
        this.expectedEcho = null;
        this.applyChunk("agent", update);
        return;
      case "agent_thought_chunk":
        this.expectedEcho = null;
        this.applyChunk("thought", update);
        return;
      case "tool_call":
      case "tool_call_update":
        this.applyToolCall(update);
        return;
      case "_accord/tool_call_changed":
        this.applyToolCallChange(update);
        return;
      case "_accord/message_changed":
        this.replaceMessage(update);
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
      case "session_info_update": {
        if (update.title !== undefined) this.title.value = update.title;
        const marker = rewindMarker(update._meta);
        if (marker) this.applyRewind(marker);
        return;
      }
      case "usage_update":
        this.usage.value = { used: update.used, size: update.size, cost: update.cost ?? null };
        return;
      case "notice": {
        const { severity, title, description = null } = update;
        this.completeMessage();
        this.add({ ...newEntry(), kind: "notice", severity, title, description });
        return;
      }
      case "compaction_update":
      case "compaction_summary_chunk":
        this.applyCompaction(update);
        return;
    }
  }

  /** Adds our own prompt. The gateway sends it to the other clients only. */
  addPrompt(promptBlocks: readonly acp.ContentBlock[], steered = false): Message {
    const blocks = promptBlocks.map((block): MessageBlock =>
      block.type === "text" ? { type: "text", text: block.text } : block,
    );
    this.completeMessage();
    const kind = "user" as const;
    const time = Date.now();
    const message: Message = { ...newEntry(), kind, messageId: null, blocks, complete: true, time, steered };
    this.add(message);
    this.expectedEcho = plainText(blocks);
    return message;
  }

  /** Removes a prompt that the agent did not accept. */
  removePrompt(message: Message): void {
    this.allEntries = this.allEntries.filter((entry) => entry !== message);
    this.expectedEcho = null;
    this.listChanged = true;
    this.requestFlush();
  }

  /** Ends a turn: tool calls that still run get a final status, and an unusual end gets an entry. */
  endTurn(reason: string, error: ErrorReport | null = null): void {
    this.completeMessage();
    this.expectedEcho = null;
    for (const call of this.toolCalls.values()) {
      if (isRunning(call)) {
        call.status = reason === "end_turn" ? "completed" : "cancelled";
        this.markChanged(call);
      }
    }
    // After a reconnect, the end of a turn is reported once more.
    if (reason === "end_turn" || this.allEntries.at(-1)?.kind === "turn_end") return;
    const code = error?.code ?? null;
    const details = { error: error?.message ?? null, code, stderrTail: error?.stderrTail ?? null };
    this.add({ ...newEntry(), kind: "turn_end", reason, ...details });
  }

  /** The prompts that began turns, the latest first. */
  prompts(): Message[] {
    const prompts = this.allEntries.filter((entry): entry is Message => entry.kind === "user");
    return prompts.filter((message) => !message.steered).reverse();
  }

  /** The last prompt, to send it again. */
  lastPrompt(): MessageBlock[] {
    return this.prompts()[0]?.blocks.slice() ?? [];
  }

  /** What the agent wrote since the last prompt. */
  lastAnswer(): string {
    const start = this.allEntries.findLastIndex((entry) => entry.kind === "user");
    return this.allEntries
      .slice(start + 1)
      .flatMap((entry) => (entry.kind === "agent" ? [plainText(entry.blocks).trim()] : []))
      .join("\n\n");
  }

  /** The whole conversation as Markdown, for another agent. */
  transcript(): string {
    const parts = this.allEntries.map((entry) => {
      if (entry.kind === "user") return `## User\n\n${plainText(entry.blocks)}`;
      if (entry.kind === "agent") return `## Agent\n\n${plainText(entry.blocks)}`;
      return entry.kind === "tool" ? `- Tool call: ${entry.title} (${entry.status})` : "";
    });
    return parts.filter((part) => part !== "").join("\n\n");
  }

  toolCall(id: string): ToolCall | undefined {
    return this.toolCalls.get(id);
  }

  /** Publishes all changes since the last flush. */
  flush(): void {
    this.flushScheduled = false;
    batch(() => {
      for (const entry of this.changedEntries) entry.revision.value += 1;
      this.changedEntries.clear();
      if (this.listChanged) {
        this.listChanged = false;
        this.entries.value = this.allEntries.slice();
      }
    });
  }

  /** Hides everything from a message on, or shows again what was hidden last. */
  private applyRewind(marker: RewindMarker): void {
    this.completeMessage();
    this.expectedEcho = null;
    if (marker.restored) {
      const hidden = this.hidden.pop();
      if (!hidden) return;
      this.allEntries.splice(hidden.index, 0, ...hidden.entries);
    } else {
      const index = rewindIndex(this.allEntries, marker);
      if (index === null) return;
      this.hidden.push({ index, entries: this.allEntries.splice(index) });
    }
    this.toolCalls.clear();
    for (const entry of this.allEntries) if (entry.kind === "tool") this.toolCalls.set(entry.toolCallId, entry);
    this.listChanged = true;
    this.requestFlush();
  }

  private applyChunk(kind: Message["kind"], update: acp.ContentChunk): void {
    const last = this.allEntries.at(-1);
    const id = update.messageId ?? null;
    let message: Message;
    if (last !== undefined && last.kind === kind && !last.complete && sameMessage(last.messageId, id)) {
      message = last as Message;
    } else {
      this.completeMessage();
      const steered = id?.startsWith(STEERING) === true;
      const time = promptTime(update.content);
      message = { ...newEntry(), kind, messageId: id, blocks: [], complete: false, time, steered };
      this.add(message);
    }
    const block = update.content;
    addBlock(message.blocks, block);
    this.markChanged(message);
  }

  /** Replaces the content of a message; adds the message if it is new. */
  private replaceMessage({ kind, messageId, content }: MessageChange): void {
    this.completeMessage();
    const known = this.allEntries.find(
      (entry): entry is Message => entry.kind === kind && entry.messageId === messageId,
    );
    const blocks: MessageBlock[] = [];
    for (const block of content) addBlock(blocks, block);
    if (known) {
      known.blocks = blocks;
      this.markChanged(known);
    } else {
      const added = { messageId, blocks, complete: true, time: null, steered: false };
      this.add({ ...newEntry(), kind, ...added });
    }
  }

  private applyToolCallChange({ patch, append, cancelled, cancellable }: ToolCallChange): void {
    this.applyToolCall(patch);
    const call = this.toolCalls.get(patch.toolCallId);
    if (!call) return;
    if (patch.content === null) call.content = [];
    if (patch.locations === null) call.locations = [];
    call.content = [...call.content, ...append];
    if (cancelled && isRunning(call)) call.status = "cancelled";
    if (cancellable !== undefined) call.cancellable = cancellable;
  }

  private applyToolCall(update: acp.ToolCall | acp.ToolCallUpdate): void {
    this.expectedEcho = null;
    let call = this.toolCalls.get(update.toolCallId);
    if (!call) {
      this.completeMessage();
      call = {
        ...newEntry(),
        kind: "tool",
        toolCallId: update.toolCallId,
        title: "",
        toolKind: "other",
        status: "pending",
        content: [],
        locations: [],
        rawInput: undefined,
        rawOutput: undefined,
        cancellable: false,
      };
      this.toolCalls.set(update.toolCallId, call);
      this.add(call);
    }
    mergeToolCall(call, update);
    this.markChanged(call);
  }

  private applyCompaction(
    update:
      | (acp.CompactionUpdate & { sessionUpdate: "compaction_update" })
      | (acp.CompactionSummaryChunk & { sessionUpdate: "compaction_summary_chunk" }),
  ): void {
    const { compactionId } = update;
    let compaction = this.compactions.get(compactionId);
    if (!compaction) {
      this.completeMessage();
      const initial = { status: "in_progress", summary: "", error: null };
      compaction = { ...newEntry(), kind: "compaction", compactionId, ...initial };
      this.compactions.set(compactionId, compaction);
      this.add(compaction);
    }
    if (update.sessionUpdate === "compaction_summary_chunk") {
      if (update.content.type === "text") compaction.summary += update.content.text;
    } else {
      compaction.status = update.status;
      if (update.error !== undefined) compaction.error = update.error;
      if (update.summary !== undefined)
        compaction.summary = plainText((update.summary ?? []) as MessageBlock[]);
    }
    this.markChanged(compaction);
  }

  /** Whether a user message chunk repeats our own prompt, which is already shown. */
  private isEcho(block: acp.ContentBlock): boolean {
    if (this.expectedEcho === null) return false;
    if (block.type !== "text") return true;
    if (!this.expectedEcho.startsWith(block.text)) {
      this.expectedEcho = null;
      return false;
    }
    this.expectedEcho = this.expectedEcho.slice(block.text.length);
    return true;
  }

  private completeMessage(): void {
    const last = this.allEntries.at(-1);
    if (last && "complete" in last && !last.complete) {
      last.complete = true;
      this.markChanged(last);
    }
  }

  private add(entry: Entry): void {
    this.allEntries.push(entry);
    this.listChanged = true;
    this.requestFlush();
  }

  private markChanged(entry: Entry): void {
    this.changedEntries.add(entry);
    this.requestFlush();
  }

  private requestFlush(): void {
    if (this.flushScheduled) return;
    this.flushScheduled = true;
    this.schedule(() => this.flush());
  }
}

/** Whether the call has no final status. */
export function isRunning(call: ToolCall): boolean {
  return call.status === "pending" || call.status === "in_progress";
}

function addBlock(blocks: MessageBlock[], block: acp.ContentBlock): void {
  const previous = blocks.at(-1);
  if (block.type === "text" && previous?.type === "text") previous.text += block.text;
  else blocks.push(block.type === "text" ? { type: "text", text: block.text } : block);
}

export function plainText(blocks: readonly MessageBlock[]): string {
  return blocks.map((block) => (block.type === "text" ? block.text : "")).join("");
}

/** Begins the ids that the gateway gives to messages that were sent to a running turn. */
const STEERING = "steering-";

/** When the gateway got a prompt, from its first block. */
function promptTime(block: acp.ContentBlock): number | null {
  const time = asRecord(asRecord(block._meta)["accord"])["time"];
  const parsed = typeof time === "string" ? Date.parse(time) : Number.NaN;
  return Number.isNaN(parsed) ? null : parsed;
}

/** Calls back in the next frame. A hidden tab has no frames, so there it calls back after 200 ms. */
export function nextFrame(callback: () => void): void {
  frameCallbacks.add(callback);
  if (frameRequested) return;
  frameRequested = true;
  if (document.hidden) setTimeout(runFrameCallbacks, 200);
  else requestAnimationFrame(runFrameCallbacks);
}

const frameCallbacks = new Set<() => void>();
let frameRequested = false;

function runFrameCallbacks(): void {
  frameRequested = false;
  const callbacks = [...frameCallbacks];
  frameCallbacks.clear();
  for (const callback of callbacks) callback();
}

// A frame that was requested before the tab became hidden would not come until the tab is visible again.
document.addEventListener("visibilitychange", () => {
  if (document.hidden && frameRequested) runFrameCallbacks();
});

let entryCount = 0;

function newEntry(): EntryBase {
  entryCount += 1;
  return { key: `e${entryCount}`, revision: signal(0) };
}

/** Merges an update as the protocol defines it: missing and null fields stay, lists are replaced. */
function mergeToolCall(call: ToolCall, update: acp.ToolCall | acp.ToolCallUpdate): void {
  if (update.title) call.title = update.title;
  if (update.kind && TOOL_KINDS.includes(update.kind)) call.toolKind = update.kind;
  if (update.status) call.status = update.status;
  if (update.content) call.content = update.content;
  if (update.locations) call.locations = update.locations;
  if (update.rawInput !== undefined && update.rawInput !== null) call.rawInput = update.rawInput;
  if (update.rawOutput !== undefined && update.rawOutput !== null) call.rawOutput = update.rawOutput;
}

/** Chunks without a message id belong to the current message. */
function sameMessage(one: string | null, other: string | null): boolean {
  return one === other || one === null || other === null;
}
