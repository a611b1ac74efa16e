/**
 * One session that this page is attached to: its conversation, turns, queued prompts and pending requests.
 */
import * as acp from "@agentclientprotocol/sdk";
import { computed, effect, signal } from "@preact/signals";
import { t } from "../messages/messages.ts";
import type { AgentConnection } from "../wire/agent-connection.ts";
import {
  AUTH_REQUIRED,
  errorReport,
  type ErrorReport,
  type SessionActivity,
  type TurnChange,
} from "../wire/extension-methods.ts";
import type { BackgroundWork, SessionEvent, TerminalChange } from "../wire/session-events.ts";
import type { RewindPoint, RewindResult, RewindScope } from "../wire/rewind-methods.ts";
import { Conversation, plainText, type Message } from "./conversation.ts";
import type { PendingRequest } from "./pending-requests.ts";
import { rewindPoint } from "./rewind.ts";
import type { Review } from "./review.ts";
import { newPrompt, PromptQueue, storedText, storeText, type Prompt } from "./prompt-queue.ts";

export interface SessionAddress {
  agent: string;
  sessionId: string;
  cwd: string;
}

/**
 * A web page that the user opened for an agent. Listed until the agent reports that the user is done there.
 */
export interface OpenedLink {
  id: string;
  url: string;
}

/** A terminal that the agent shows. */
export interface ShownTerminal {
  command: string | null;
  ended: boolean;
  cancellable: boolean;
}

interface SessionSettings {
  modes?: acp.SessionModeState | null;
  configOptions?: acp.SessionConfigOption[] | null;
}

const INVALID_REQUEST = -32600;

/** The stop reason of a turn that ended with the gateway or the agent, without an answer. */
const INTERRUPTED = "interrupted";

export class Session {
  readonly conversation = signal(new Conversation());
  readonly state = signal<"loading" | "ready" | "failed">("loading");
  readonly error = signal<ErrorReport | null>(null);
  /** The requests that came over our own connection. */
  readonly requests = signal<readonly PendingRequest[]>([]);
  readonly openedLinks = signal<readonly OpenedLink[]>([]);
  readonly queue: PromptQueue;
  readonly draft = signal("");
  /** The agent cannot open this session anymore: it can only be read. */
  readonly onlyReadable = signal(false);
  /** The agent rejected a prompt because the user has to sign in first. */
  readonly signInRequired = signal(false);
  /** The messages to go back to, while the list is open. */
  readonly rewindPoints = signal<readonly RewindPoint[] | null>(null);
  /** What the last rewind did, until the user closes it. */
  readonly rewindReport = signal<{ title: string; lines: string[] } | null>(null);

  /** The review of the changes is shown in place of the conversation. */
  readonly reviewing = signal(false);
  /** The review, once it was opened. */
  readonly review = signal<Review | null>(null);

  /** What the agent does in the background. */
  readonly background = signal<readonly BackgroundWork[]>([]);
  /** The terminals that the agent shows, by id, as far as it has said something about them. */
  readonly terminals = signal<ReadonlyMap<string, ShownTerminal>>(new Map());

  private readonly ownTurn = signal(false);
  private readonly otherTurn = signal(false);
  readonly running = computed(() => this.ownTurn.value || this.otherTurn.value);
  /** When the running turn began, and how long the last one took, in milliseconds. */
  readonly turnStart = signal<number | null>(null);
  readonly turnDuration = signal<number | null>(null);
  readonly cancelling = signal(false);

  connection: AgentConnection | null = null;
  readonly address: SessionAddress;
  /** Tells screen reader users about a change. */
  private readonly announce: (text: string) => void;
  /** The conversation that is being loaded. */
  private loading: Conversation | null = null;

  constructor(address: SessionAddress, announce: (text: string) => void) {
    this.address = address;
    this.announce = announce;
    const name = `${address.agent}/${address.sessionId}`;
    this.queue = new PromptQueue(name);
    this.draft.value = storedText(`draft.${name}`) ?? "";
    effect(() => storeText(`draft.${name}`, this.draft.value));
    effect(() => this.measureTurn(this.running.value));
  }

  private measureTurn(running: boolean): void {
    const start = this.turnStart.peek();
    if (running) {
      this.turnStart.value = Date.now();
      this.turnDuration.value = null;
    } else if (start !== null) {
      this.turnStart.value = null;
      this.turnDuration.value = Date.now() - start;
    }
  }

  /** Attaches to a session that this page just created. It has no history to load. */
  attachNew(connection: AgentConnection, response: acp.NewSessionResponse): void {
    this.connection = connection;
    this.finishLoading(this.conversation.value, response);
  }

  /**
   * Attaches to a session and loads its history. The old conversation stays visible until the new one is
   * complete.
   */
  async load(connection: AgentConnection, activity: SessionActivity): Promise<void> {
    this.connection = connection;
    const conversation = new Conversation();
    this.loading = conversation;
    this.background.value = [];
    this.error.value = null;
    if (this.state.value !== "ready") {
      this.state.value = "loading";
      this.conversation.value = conversation;
    }
    this.otherTurn.value = isWorking(activity);
    const { sessionId, cwd } = this.address;
    try {
      const response = await connection.request("session/load", { sessionId, cwd, mcpServers: [] });
      if (this.loading !== conversation) return;
      this.finishLoading(conversation, response);
    } catch (error) {
      if (this.loading !== conversation || connection.state === "closed") return;
      this.fail(errorReport(error));
    }
  }

  /** Shows why the session could not be opened. */
  fail(error: ErrorReport): void {
    this.loading = null;
    this.error.value = error;
    this.state.value = "failed";
  }

  private finishLoading(conversation: Conversation, settings: SessionSettings | null): void {
    // The response is newer than the updates of the replay.
    if (settings?.modes) conversation.modes.value = settings.modes;
    if (settings?.configOptions) conversation.options.value = settings.configOptions;
    this.loading = null;
    conversation.flush();
    this.conversation.value = conversation;
    // A turn that runs began with the last prompt.
    const began = conversation.prompts()[0]?.time ?? null;
    if (this.running.value && began !== null) this.turnStart.value = began;
    this.state.value = "ready";
    this.sendNext();
  }

  applyUpdate(update: acp.SessionUpdate | SessionEvent): void {
    if (update.sessionUpdate === "_accord/state_changed") {
      this.background.value = update.background;
      return;
    }
    if (update.sessionUpdate === "_accord/terminal_changed") {
      this.applyTerminal(update);
      return;
    }
    if (update.sessionUpdate === "notice" && isRepeated(this.address.agent, update)) return;
    (this.loading ?? this.conversation.value).apply(update);
  }

  /** Ends one tool call or terminal of the agent; the turn goes on. */
  async cancelWork(work: BackgroundWork): Promise<void> {
    const { sessionId } = this.address;
    const member = work.kind === "terminal" ? "terminalId" : "toolCallId";
    try {
      await this.connection?.callGateway(`${work.kind}/cancel`, { sessionId, [member]: work.id });
      this.announce(t("work.cancelled"));
    } catch (error) {
      this.announce(errorReport(error).message);
    }
  }

  /** Whether the agent ends this tool call or terminal alone, and this token may ask for it. */
  canCancel(work: BackgroundWork): boolean {
    if (this.connection === null || this.connection.readOnly) return false;
    if (work.kind === "terminal") {
      const terminal = this.terminals.value.get(work.id);
      return terminal?.cancellable === true && !terminal.ended;
    }
    return this.conversation.value.toolCall(work.id)?.cancellable === true;
  }

  /** The command of a background terminal, or the title of a tool call. */
  labelOf(work: BackgroundWork): string {
    const label =
      work.kind === "terminal"
        ? this.terminals.value.get(work.id)?.command
        : this.conversation.value.toolCall(work.id)?.title;
    return label || work.id || work.kind;
  }

  private applyTerminal(change: TerminalChange): void {
    const { command, ended, cancellable } = change;
    if (command === undefined && ended === undefined && cancellable === undefined) return; // more output
    const known = this.terminals.value.get(change.terminalId);
    const terminal = {
      command: command === undefined ? (known?.command ?? null) : command,
      ended: ended ?? known?.ended ?? false,
      cancellable: cancellable ?? known?.cancellable ?? false,
    };
    this.terminals.value = new Map(this.terminals.value).set(change.terminalId, terminal);
  }

  /** Detaches from a closed connection. The session is loaded again over a new one. */
  detach(): void {
    this.connection = null;
    this.requests.value = [];
    this.ownTurn.value = false;
  }

  /** Applies the start or end of a turn of another client, or what we find when we attach. */
  applyTurnChange(change: TurnChange): void {
    const reason = change.stopReason === INTERRUPTED ? INTERRUPTED : change.error ? "error" : change.stopReason;
    const conversation = this.loading ?? this.conversation.value;
    switch (change.state) {
      case "started":
        this.otherTurn.value = true;
        return;
      case "running":
      case "idle":
        this.onlyReadable.value = change.readOnly;
        if (change.state === "idle" && !this.ownTurn.value && reason !== null)
          conversation.endTurn(reason, change.error);
        this.applyActivity(change.state);
        return;
      case "ended":
        this.otherTurn.value = false;
        this.cancelling.value = false;
        conversation.endTurn(reason ?? "end_turn", change.error);
        this.announce(t("turn.finished"));
        this.sendNext();
    }
  }

  /** Applies the activity from the gateway's session list, unless our own turn runs. */
  applyActivity(activity: SessionActivity): void {
    if (this.ownTurn.value) return;
    this.otherTurn.value = isWorking(activity);
    if (!isWorking(activity)) {
      this.cancelling.value = false;
      this.sendNext();
    }
  }

  /** Enter sends to the running turn, unless the text is a command, which is a prompt of its own. */
  canSteer(text: string): boolean {
    return this.running.value && this.connection?.canSteer === true && !text.trimStart().startsWith("/");
  }

  /** Sends a message to the running turn; queues it if the turn takes no more. */
  async steer(prompt: Prompt): Promise<void> {
    const { connection } = this;
    try {
      if (connection && (await connection.steer(this.address.sessionId, prompt.blocks))) {
        this.conversation.value.addPrompt(prompt.blocks, true);
        this.announce(t("turn.steered"));
        return;
      }
    } catch {
      // The agent refused it or the connection is lost: the prompt waits for the end of the turn.
    }
    this.submit(prompt);
  }

  /** Whether the session can go back to earlier messages now. */
  canRewind(): boolean {
    return this.state.value === "ready" && !this.running.value && this.connection?.canRewind === true;
  }

  /** Whether the changes can be reviewed: not with a token that may only read. */
  canReview(): boolean {
    return this.state.value === "ready" && this.connection !== null && !this.connection.readOnly;
  }

  /** Opens the list of messages to go back to. */
  async openRewind(): Promise<void> {
    await this.tryRewind(async (connection, sessionId) => {
      this.rewindPoints.value = await connection.rewindPoints(sessionId);
    });
  }

  /** Goes back to before a message, by default the last one, and puts its text into the prompt. */
  async rewind(messageId: string | null, scope: RewindScope): Promise<void> {
    await this.tryRewind(async (connection, sessionId) => {
      const id = messageId ?? (await connection.rewindPoints(sessionId))[0]?.messageId;
      if (id === undefined) {
        this.rewindReport.value = { title: t("rewind.empty"), lines: [] };
        return;
      }
      const result = await connection.rewind(sessionId, { messageId: id, scope });
      this.showRewind(t("rewind.done", { title: result.title }), result);
      if (result.prompt !== "" && this.draft.value.trim() === "") this.draft.value = result.prompt;
    });
  }

  /** Takes the last rewind back. */
  async redo(): Promise<void> {
    await this.tryRewind(async (connection, sessionId) => {
      const result = await connection.rewind(sessionId, { redo: true });
      this.showRewind(t("rewind.redone", { title: result.title }), result);
    });
  }

  private showRewind(title: string, result: RewindResult): void {
    const files = result.filesChanged.length;
    const lines = result.skipped.map(({ path, reason }) => t("rewind.skipped", { path, reason }));
    if (files > 0) lines.unshift(t("rewind.restored", { count: files }));
    this.rewindReport.value = { title, lines: [...lines, ...result.notes] };
    this.announce(title);
  }

  private async tryRewind(
    action: (connection: AgentConnection, sessionId: string) => Promise<void>,
  ): Promise<void> {
    this.rewindPoints.value = null;
    this.rewindReport.value = null;
    if (!this.connection) return;
    try {
      await action(this.connection, this.address.sessionId);
    } catch (error) {
      this.rewindReport.value = {
        title: t("rewind.failed", { reason: errorReport(error).message }),
        lines: [],
      };
    }
  }

  /** Sends a prompt, or queues it while a turn runs. */
  submit(prompt: Prompt): void {
    this.queue.add(prompt);
    if (this.running.value) this.announce(t("turn.queued"));
    else this.sendNext();
  }

  /** Sends the prompts that were waiting for the user to sign in. */
  continueSignedIn(): void {
    this.signInRequired.value = false;
    this.queue.paused.value = false;
    this.sendNext();
  }

  /** Sends the last prompt once more, after a turn that failed or was interrupted. */
  tryAgain(): void {
    const blocks = this.conversation.value.lastPrompt();
    if (blocks.length > 0) this.submit(newPrompt(blocks));
  }

  /** Undoes the last turn if the agent can, with its files, and sends its prompt again. */
  async retry(): Promise<void> {
    const blocks = this.conversation.value.lastPrompt();
    if (blocks.length === 0 || this.running.value) return;
    if (this.canRewind() && !(await this.undoFrom(0))) return;
    this.submit(newPrompt(blocks));
  }

  /** Puts an earlier prompt into the field, and goes back to before it if the agent can. */
  async edit(message: Message): Promise<void> {
    const age = this.conversation.value.prompts().indexOf(message);
    if (this.canRewind() && age >= 0 && !(await this.undoFrom(age))) return;
    this.draft.value = plainText(message.blocks);
  }

  /** Goes back to before the prompt that so many others followed. Returns whether it worked. */
  private async undoFrom(age: number): Promise<boolean> {
    let done = false;
    await this.tryRewind(async (connection, sessionId) => {
      const prompt = this.conversation.value.prompts()[age];
      const point = rewindPoint(await connection.rewindPoints(sessionId), prompt, age);
      if (!point) throw new Error(t("rewind.empty"));
      const result = await connection.rewind(sessionId, { messageId: point.messageId, scope: "both" });
      if (result.skipped.length > 0) this.showRewind(t("rewind.done", { title: result.title }), result);
      done = true;
    });
    return done;
  }

  cancel(): void {
    if (!this.connection || !this.running.value) return;
    this.cancelling.value = true;
    this.connection.cancel(this.address.sessionId);
    for (const request of this.requests.value) {
      if (request.kind === "permission") void request.answer({ outcome: { outcome: "cancelled" } });
      if (request.kind === "elicitation") void request.answer({ action: "cancel" });
    }
    this.announce(t("turn.canceling"));
  }

  async setOption(configId: string, value: string | boolean): Promise<void> {
    if (!this.connection) return;
    const params = { sessionId: this.address.sessionId, configId };
    const response = await this.connection.request(
      "session/set_config_option",
      typeof value === "boolean" ? { ...params, type: "boolean", value } : { ...params, value },
    );
    this.conversation.value.options.value = response.configOptions;
  }

  async setMode(modeId: string): Promise<void> {
    if (!this.connection) return;
    await this.connection.request("session/set_mode", { sessionId: this.address.sessionId, modeId });
    const modes = this.conversation.value.modes.value;
    if (modes) this.conversation.value.modes.value = { ...modes, currentModeId: modeId };
  }

  private sendNext(): void {
    const ready = this.state.value === "ready" && !this.running.value && !this.queue.paused.value;
    if (!ready || !this.connection || this.onlyReadable.value) return;
    const prompt = this.queue.takeFirst();
    if (prompt) void this.runTurn(this.connection, prompt);
  }

  private async runTurn(connection: AgentConnection, prompt: Prompt): Promise<void> {
    const { sessionId } = this.address;
    const conversation = this.conversation.value;
    this.ownTurn.value = true;
    const message = conversation.addPrompt(prompt.blocks);
    try {
      const response = await connection.request("session/prompt", { sessionId, prompt: prompt.blocks });
      this.conversation.value.endTurn(response.stopReason);
      this.announce(response.stopReason === "cancelled" ? t("turn.canceled") : t("turn.finished"));
    } catch (error) {
      // The turn continues on the gateway. The session will be loaded again over a new connection.
      if (connection.state === "closed") return;
      if (isBusy(error)) {
        conversation.removePrompt(message);
        this.queue.putBack(prompt);
        this.ownTurn.value = false;
        this.otherTurn.value = true;
        return;
      }
      const report = errorReport(error);
      if (report.code === AUTH_REQUIRED) {
        conversation.removePrompt(message);
        this.queue.putBack(prompt);
        this.signInRequired.value = true;
      } else this.conversation.value.endTurn("error", report);
      this.queue.pause();
      this.announce(t("turn.failed"));
    }
    this.ownTurn.value = false;
    this.cancelling.value = false;
    this.sendNext();
  }
}

/** What agents reported at the start of a session, such as the state of the sandbox. */
const reportedNotices = new Set<string>();

/** Whether the agent has already reported exactly this, which is no warning, in this tab. */
function isRepeated(agent: string, notice: acp.Notice): boolean {
  if (notice.severity !== "info") return false;
  const key = JSON.stringify([agent, notice.title, notice.description]);
  if (reportedNotices.has(key)) return true;
  reportedNotices.add(key);
  return false;
}

/** Whether the agent rejected a prompt because a turn of another client runs. */
function isWorking(activity: SessionActivity): boolean {
  return activity === "running" || activity === "waiting";
}

function isBusy(error: unknown): boolean {
  return (
    error instanceof acp.RequestError &&
    error.code === INVALID_REQUEST &&
    /turn|prompt|running|busy/i.test(error.message)
  );
}
