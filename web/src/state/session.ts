/** One session that this page is attached to: its conversation, its turn, the prompts that wait, and what it asks. */
import * as acp from "@agentclientprotocol/sdk";
import { computed, effect, signal } from "@preact/signals";
import type { AgentConnection } from "../wire/connection.ts";
import type { SessionActivity, TurnNews } from "../wire/vendor.ts";
import { Conversation } from "./conversation.ts";
import { asError, AUTH_REQUIRED, readFault, type Fault } from "./faults.ts";
import { nextFrame } from "./frames.ts";
import { keep, kept } from "./keeping.ts";
import { Waiting, type Prompt } from "./waiting.ts";
import type { Question } from "./questions.ts";

export interface Address {
  agent: string;
  sessionId: string;
  cwd: string;
}

/** Something the user was sent to a web page for, and which the agent has not called finished. */
export interface Outside {
  id: string;
  message: string;
  url: string;
}

const BUSY = -32600;

export class Session {
  readonly conversation = signal(new Conversation(nextFrame));
  readonly state = signal<"loading" | "ready" | "failed">("loading");
  readonly problem = signal<Fault | null>(null);
  readonly questions = signal<readonly Question[]>([]);
  readonly outside = signal<readonly Outside[]>([]);
  readonly queue: Waiting;
  readonly draft = signal("");
  /** The agent took no prompt, because it wants the user to sign in first. */
  readonly locked = signal(false);

  private readonly ours = signal(false);
  private readonly theirs = signal(false);
  readonly running = computed(() => this.ours.value || this.theirs.value);
  readonly cancelling = signal(false);

  connection: AgentConnection | null = null;
  readonly address: Address;
  /** Says something to people who cannot see the page change. */
  private readonly announce: (text: string) => void;
  private incoming: Conversation | null = null;

  constructor(address: Address, announce: (text: string) => void) {
    this.address = address;
    this.announce = announce;
    const name = `${address.agent}/${address.sessionId}`;
    this.queue = new Waiting(name);
    this.draft.value = kept(`draft.${name}`) ?? "";
    effect(() => keep(`draft.${name}`, this.draft.value));
  }

  /** A session that was just made here has no history to load. */
  begun(connection: AgentConnection, answer: acp.NewSessionResponse): void {
    this.connection = connection;
    this.settle(this.conversation.value, answer);
  }

  /** Attaches and takes the history; what is shown meanwhile stays until the whole of it has come. */
  async load(connection: AgentConnection, activity: SessionActivity): Promise<void> {
    this.connection = connection;
    const first = this.state.value !== "ready";
    const fresh = new Conversation(nextFrame);
    this.incoming = fresh;
    this.problem.value = null;
    if (first) {
      this.state.value = "loading";
      this.conversation.value = fresh;
    }
    this.theirs.value = activity !== "idle";
    const { sessionId, cwd } = this.address;
    try {
      const answer = await connection.request("session/load", { sessionId, cwd, mcpServers: [] });
      if (this.incoming !== fresh) return;
      this.settle(fresh, answer);
    } catch (error) {
      if (this.incoming !== fresh || connection.state === "closed") return;
      this.incoming = null;
      this.problem.value = asError(error);
      this.state.value = "failed";
    }
  }

  private settle(conversation: Conversation, answer: { modes?: acp.SessionModeState | null; configOptions?: acp.SessionConfigOption[] | null } | null): void {
    // The latest word counts: an update during the replay is newer than nothing, the answer is newer than both.
    if (answer?.modes) conversation.modes.value = answer.modes;
    if (answer?.configOptions) conversation.options.value = answer.configOptions;
    this.incoming = null;
    conversation.flush();
    this.conversation.value = conversation;
    this.state.value = "ready";
    this.next();
  }

  update(update: acp.SessionUpdate): void {
    (this.incoming ?? this.conversation.value).apply(update);
  }

  /** The connection is gone for good; a new one will load the session again. */
  detached(): void {
    this.connection = null;
    this.questions.value = [];
    this.ours.value = false;
  }

  turn(news: TurnNews): void {
    if (news.state === "started") {
      this.theirs.value = true;
      return;
    }
    this.theirs.value = false;
    this.cancelling.value = false;
    (this.incoming ?? this.conversation.value).ended(news.error ? "error" : (news.stopReason ?? "end_turn"), news.error && readFault(news.error.code, news.error.message, news.error.data));
    this.announce("The agent has finished.");
    this.next();
  }

  /** What the list of sessions says; our own turn we know better. */
  activity(state: SessionActivity): void {
    if (this.ours.value) return;
    this.theirs.value = state !== "idle";
    if (state === "idle") {
      this.cancelling.value = false;
      this.next();
    }
  }

  /** Sends a prompt, or lets it wait for the end of the running turn. */
  submit(prompt: Prompt): void {
    this.queue.add(prompt);
    if (this.running.value) this.announce("The prompt waits for the end of this turn.");
    else this.next();
  }

  /** The user has signed in: what waited for that goes now. */
  unlocked(): void {
    this.locked.value = false;
    this.queue.held.value = false;
    this.next();
  }

  cancel(): void {
    if (!this.connection || !this.running.value) return;
    this.cancelling.value = true;
    this.connection.cancel(this.address.sessionId);
    for (const question of this.questions.value) {
      if (question.kind === "permission") void question.answer({ outcome: { outcome: "cancelled" } });
      if (question.kind === "elicitation") void question.answer({ action: "cancel" });
    }
    this.announce("Cancelling.");
  }

  async choose(configId: string, value: string | boolean): Promise<void> {
    if (!this.connection) return;
    const params = { sessionId: this.address.sessionId, configId };
    const answer = await this.connection.request(
      "session/set_config_option",
      typeof value === "boolean" ? { ...params, type: "boolean", value } : { ...params, value },
    );
    this.conversation.value.options.value = answer.configOptions;
  }

  async chooseMode(modeId: string): Promise<void> {
    if (!this.connection) return;
    await this.connection.request("session/set_mode", { sessionId: this.address.sessionId, modeId });
    const modes = this.conversation.value.modes.value;
    if (modes) this.conversation.value.modes.value = { ...modes, currentModeId: modeId };
  }

  private next(): void {
    if (this.running.value || this.state.value !== "ready" || !this.connection || this.queue.held.value) return;
    const prompt = this.queue.take();
    if (prompt) void this.run(this.connection, prompt);
  }

  private async run(connection: AgentConnection, prompt: Prompt): Promise<void> {
    const conversation = this.conversation.value;
    this.ours.value = true;
    const message = conversation.said(prompt.blocks);
    try {
      const answer = await connection.request("session/prompt", { sessionId: this.address.sessionId, prompt: prompt.blocks });
      this.conversation.value.ended(answer.stopReason);
      this.announce(answer.stopReason === "cancelled" ? "Cancelled." : "The agent has finished.");
    } catch (error) {
      if (connection.state === "closed") {
        // The turn goes on without us; loading the session again shows how far it got.
        return;
      }
      if (error instanceof acp.RequestError && error.code === BUSY && /turn|prompt|running|busy/i.test(error.message)) {
        conversation.unsaid(message);
        this.queue.putBack(prompt);
        this.ours.value = false;
        this.theirs.value = true;
        return;
      }
      const fault = asError(error);
      if (fault.code === AUTH_REQUIRED) {
        conversation.unsaid(message);
        this.queue.putBack(prompt);
        this.locked.value = true;
      } else this.conversation.value.ended("error", fault);
      this.queue.hold();
      this.announce("The turn failed.");
    }
    this.ours.value = false;
    this.cancelling.value = false;
    this.next();
  }
}
