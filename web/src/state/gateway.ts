/** Everything the page knows of the gateway: agents, sessions, the inbox, and the connections that bring it. */
import type * as acp from "@agentclientprotocol/sdk";
import { computed, signal } from "@preact/signals";
import type { AgentConnection, Listener } from "../wire/connection.ts";
import type { LineState } from "../wire/line.ts";
import { login, logout, NotLetIn } from "../wire/door.ts";
import * as vendor from "../wire/vendor.ts";
import { asError, type Fault } from "./faults.ts";
import { forgetAll } from "./keeping.ts";
import { Session, type Address } from "./session.ts";
import { Inbox } from "./inbox.ts";
import { Pool } from "./pool.ts";
import { questionKey, summary, type Question } from "./questions.ts";
import { notify } from "./notifications.ts";

export type Phase = "starting" | "login" | "ready" | "failed";

const RETRY = 3000;

export class Gateway implements Listener {
  readonly phase = signal<Phase>("starting");
  readonly problem = signal<Fault | null>(null);
  /** The token lets its holder look on; what it does not allow is not offered. */
  readonly readOnly = signal(false);
  readonly line = signal<LineState>("connecting");
  readonly agents = signal<readonly vendor.ListedAgent[]>([]);
  readonly listed = signal<readonly vendor.ListedSession[]>([]);
  readonly announcement = signal("");
  private readonly inbox = new Inbox((id, result) => this.ask("inbox/answer", { id, result }));

  private readonly pool = new Pool(this);
  private readonly open = new Map<string, Session>();
  private readonly opened = signal(0);
  /** Updates of sessions that this page does not know yet: an agent may speak before its answer names the session. */
  private readonly early = new Map<string, acp.SessionUpdate[]>();
  private readonly watchers = new Map<string, Set<() => void>>();
  private main: AgentConnection | null = null;
  private leaving = false;

  /** All that waits for an answer: the gateway's list, and what was asked on our own connections. */
  readonly questions = computed<readonly Question[]>(() => {
    void this.opened.value;
    return this.inbox.with([...this.open.values()].flatMap((session) => session.questions.value));
  });

  async start(token: string | null): Promise<void> {
    this.phase.value = "starting";
    this.problem.value = null;
    try {
      if (token !== null) {
        await login(token);
        // Another token may cover other things, and no connection of the one before may live on: everything begins anew.
        if (this.main !== null || this.open.size > 0) {
          this.close();
          location.reload();
          return;
        }
      }
      await this.connect();
      this.phase.value = "ready";
    } catch (error) {
      const cause = error instanceof Error && error.cause instanceof NotLetIn ? error.cause : error;
      if (cause instanceof NotLetIn) {
        this.phase.value = "login";
        // Without a token nothing was tried that could have failed.
        this.problem.value = token === null ? null : asError(cause);
      } else {
        this.phase.value = "failed";
        this.problem.value = asError(error);
      }
    }
  }

  async leave(): Promise<void> {
    await logout().catch(() => undefined);
    forgetAll();
    location.hash = "";
    location.reload();
  }

  say = (text: string): void => {
    this.announcement.value = text;
  };

  /** The session at an address, attached to as soon as its agent's connection is there. */
  session(address: Address): Session {
    const key = place(address.agent, address.sessionId);
    let session = this.open.get(key);
    if (!session) {
      session = this.track(address);
      void this.attach(session);
    }
    return session;
  }

  /** The session at an address, if this page has it open. */
  known(agent: string, sessionId: string): Session | undefined {
    return this.open.get(place(agent, sessionId));
  }

  async begin(agent: string, cwd: string): Promise<Session> {
    const connection = await this.pool.to(agent);
    const answer = await connection.request("session/new", { cwd, mcpServers: [] });
    const session = this.track({ agent: connection.agent, sessionId: answer.sessionId, cwd });
    session.begun(connection, answer);
    this.replayEarly(session);
    return session;
  }

  async remove(listed: vendor.ListedSession): Promise<void> {
    const connection = await this.pool.to(listed.agent);
    await connection.request("session/delete", { sessionId: listed.sessionId });
    this.sessionRemoved(listed.agent, listed.sessionId);
  }

  async attach(session: Session): Promise<void> {
    const { agent, sessionId } = session.address;
    try {
      const connection = await this.pool.to(agent);
      const activity = this.find(agent, sessionId)?.state ?? "idle";
      await session.load(connection, activity);
      const latest = this.find(agent, sessionId);
      if (latest) session.activity(latest.state);
    } catch (error) {
      session.problem.value = asError(error);
      session.state.value = "failed";
    }
  }

  find(agent: string, sessionId: string): vendor.ListedSession | undefined {
    return this.listed.value.find((item) => item.agent === agent && item.sessionId === sessionId);
  }

  async folders(path: string | null): Promise<vendor.Folders> {
    return vendor.readFolders(await this.ask("folders", path === null ? {} : { path }));
  }

  async files(session: Session, query: string): Promise<vendor.Place[]> {
    const connection = await this.pool.to(session.address.agent);
    const answer = await connection.ask("files", { sessionId: session.address.sessionId, query, limit: 20 });
    return vendor.list(answer["files"], vendor.readPlace);
  }

  async terminal(session: Session, terminalId: string): Promise<vendor.TerminalOutput> {
    const connection = await this.pool.to(session.address.agent);
    return vendor.readTerminal(await connection.ask("terminal/output", { sessionId: session.address.sessionId, terminalId }));
  }

  /** Calls back whenever a terminal has printed more; the result ends that. */
  watch(session: Session, terminalId: string, call: () => void): () => void {
    const key = `${place(session.address.agent, session.address.sessionId)}\n${terminalId}`;
    const calls = this.watchers.get(key) ?? new Set();
    this.watchers.set(key, calls.add(call));
    return () => {
      calls.delete(call);
      if (calls.size === 0) this.watchers.delete(key);
    };
  }

  async authenticate(agent: string, methodId: string): Promise<void> {
    await (await this.pool.to(agent)).request("authenticate", { methodId });
  }

  async methods(agent: string): Promise<acp.AuthMethod[]> {
    return (await this.pool.to(agent)).authMethods;
  }

  wake(): void {
    this.pool.wake();
  }

  /** The page goes: the gateway need not keep a place for it. */
  close(): void {
    this.leaving = true;
    this.pool.close();
  }

  // What the connections tell.

  update(connection: AgentConnection, sessionId: string, update: acp.SessionUpdate): void {
    const session = this.open.get(place(connection.agent, sessionId));
    if (session) {
      session.update(update);
      return;
    }
    const kept = this.early.get(sessionId) ?? [];
    if (this.early.size < 64 && kept.length < 256) this.early.set(sessionId, [...kept, update]);
  }

  turn(connection: AgentConnection, news: vendor.TurnNews): void {
    this.open.get(place(connection.agent, news.sessionId))?.turn(news);
  }

  printed(connection: AgentConnection, sessionId: string, terminalId: string): void {
    for (const call of this.watchers.get(`${place(connection.agent, sessionId)}\n${terminalId}`) ?? []) call();
  }

  sessionChanged(changed: vendor.ListedSession): void {
    const others = this.listed.value.filter((item) => item.agent !== changed.agent || item.sessionId !== changed.sessionId);
    this.listed.value = sorted([changed, ...others]);
    this.open.get(place(changed.agent, changed.sessionId))?.activity(changed.state);
  }

  sessionRemoved(agent: string, sessionId: string): void {
    this.listed.value = this.listed.value.filter((item) => item.agent !== agent || item.sessionId !== sessionId);
    if (this.open.delete(place(agent, sessionId))) this.opened.value += 1;
  }

  inboxAdded(item: vendor.InboxItem): void {
    const text = this.inbox.add(item);
    this.say(`${item.agent} is waiting for you: ${text}`);
    notify(item, text);
  }

  inboxRemoved(id: string): void {
    this.inbox.remove(id);
  }

  permission(connection: AgentConnection, params: acp.RequestPermissionRequest, signal: AbortSignal): Promise<acp.RequestPermissionResponse> {
    const made = { kind: "permission" as const, params };
    return this.asked(connection, "session/request_permission", params.sessionId, made, signal) as Promise<acp.RequestPermissionResponse>;
  }

  elicitation(connection: AgentConnection, params: acp.CreateElicitationRequest, signal: AbortSignal): Promise<acp.CreateElicitationResponse> {
    const sessionId = "sessionId" in params && typeof params.sessionId === "string" ? params.sessionId : "";
    const made = { kind: "elicitation" as const, params };
    return this.asked(connection, "elicitation/create", sessionId, made, signal) as Promise<acp.CreateElicitationResponse>;
  }

  question(connection: AgentConnection, params: Record<string, unknown>, signal: AbortSignal): Promise<Record<string, unknown>> {
    const made = { kind: "other" as const, method: vendor.ASK_USER, params };
    return this.asked(connection, vendor.ASK_USER, String(params["sessionId"] ?? ""), made, signal) as Promise<Record<string, unknown>>;
  }

  elicitationDone(connection: AgentConnection, elicitationId: string): void {
    for (const session of this.open.values()) {
      if (session.connection === connection) session.outside.value = session.outside.value.filter((item) => item.id !== elicitationId);
    }
  }

  state(connection: AgentConnection, state: LineState): void {
    if (state === "closed") return;
    if (this.main === null || connection === this.main) this.line.value = state;
    if (state === "waiting") this.say("The connection was lost. Reconnecting.");
  }

  ended(connection: AgentConnection, reason: Error | undefined): void {
    if (connection.agent === "" || !this.pool.drop(connection) || this.leaving) return;
    const lost = [...this.open.values()].filter((session) => session.connection === connection);
    for (const session of lost) session.detached();
    if (reason?.cause instanceof NotLetIn) {
      this.signedOut();
      return;
    }
    if (connection === this.main) {
      this.main = null;
      this.line.value = "waiting";
    }
    void this.again(lost);
  }

  /** A new connection in place of one that could not be resumed; its sessions are loaded again, so nothing is missing. */
  private async again(lost: readonly Session[]): Promise<void> {
    try {
      if (this.main === null) await this.connect();
      await Promise.all(lost.map((session) => this.attach(session)));
    } catch (error) {
      const cause = error instanceof Error ? error.cause : undefined;
      if (cause instanceof NotLetIn) {
        this.signedOut();
        return;
      }
      setTimeout(() => void this.again(lost), RETRY);
    }
  }

  private signedOut(): void {
    this.phase.value = "login";
    this.problem.value = asError("You are no longer signed in");
  }

  private async connect(): Promise<void> {
    const connection = await this.pool.toDefault();
    this.main = connection;
    this.readOnly.value = connection.readOnly;
    this.line.value = connection.state;
    const [agents, sessions, inbox] = await Promise.all([
      this.optional("agents"),
      this.optional("sessions", { subscribe: true }),
      this.optional("inbox", { subscribe: true }),
    ]);
    this.agents.value = vendor.list(agents["agents"], vendor.readAgent);
    if (this.agents.value.length === 0) {
      const { agent: name, agentTitle: title } = connection;
      this.agents.value = [{ name, title, description: null, default: true, state: "ready", reason: null }];
    }
    this.listed.value = sorted(vendor.list(sessions["sessions"], vendor.readSession));
    this.inbox.replace(vendor.list(inbox["items"], vendor.readInboxItem));
  }

  private ask(method: string, params: Record<string, unknown>): Promise<Record<string, unknown>> {
    if (!this.main) return Promise.reject(new Error("there is no connection to the gateway right now"));
    return this.main.ask(method, params);
  }

  /** A method that a gateway of another make does not have. */
  private async optional(method: string, params: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    try {
      return await this.ask(method, params);
    } catch (error) {
      if (this.main?.state === "closed") throw error;
      return {};
    }
  }

  private asked(
    connection: AgentConnection,
    method: string,
    sessionId: string,
    made: Made,
    signal: AbortSignal,
  ): Promise<unknown> {
    const session = this.open.get(place(connection.agent, sessionId)) ?? [...this.open.values()].find((one) => one.connection === connection);
    return new Promise((resolve, reject) => {
      const question = {
        ...made,
        key: questionKey(method, sessionId, made.params as Record<string, unknown>),
        agent: connection.agent,
        sessionId,
        since: Date.now(),
        answer: (result: unknown) => {
          done();
          this.inbox.answered(question.key);
          resolve(result);
          return Promise.resolve();
        },
      } as Question;
      const done = () => {
        if (session) session.questions.value = session.questions.value.filter((one) => one !== question);
      };
      signal.addEventListener("abort", () => {
        done();
        reject(signal.reason);
      });
      if (session) {
        session.questions.value = [...session.questions.value, question];
        this.inbox.unanswered(question.key);
      }
      if (this.inbox.empty) this.say(`${connection.agent} is waiting for you: ${summary(question)}`);
    });
  }

  private track(address: Address): Session {
    const session = new Session(address, this.say);
    this.open.set(place(address.agent, address.sessionId), session);
    this.opened.value += 1;
    return session;
  }

  private replayEarly(session: Session): void {
    for (const update of this.early.get(session.address.sessionId) ?? []) session.update(update);
    this.early.delete(session.address.sessionId);
  }
}

type Made =
  | { kind: "permission"; params: acp.RequestPermissionRequest }
  | { kind: "elicitation"; params: acp.CreateElicitationRequest }
  | { kind: "other"; method: string; params: Record<string, unknown> };

function place(agent: string, sessionId: string): string {
  return `${agent}\n${sessionId}`;
}

function sorted(sessions: vendor.ListedSession[]): vendor.ListedSession[] {
  return sessions.sort((one, other) => (other.updatedAt ?? "").localeCompare(one.updatedAt ?? ""));
}
