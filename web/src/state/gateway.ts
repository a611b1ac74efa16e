/**
 * The state of the page across sessions: agents, sessions, pending requests, and the connections to the
 * gateway.
 */
import { RequestError } from "@agentclientprotocol/sdk";
import type * as acp from "@agentclientprotocol/sdk";
import { computed, signal } from "@preact/signals";
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import { t } from "../messages/messages.ts";
import { ConnectionPool, type AgentConnection, type ConnectionListener } from "../wire/agent-connection.ts";
import { AccessDenied, login, logout } from "../wire/browser-login.ts";
import * as extension from "../wire/extension-methods.ts";
import { Management } from "../wire/management-methods.ts";
import type { SessionEvent } from "../wire/session-events.ts";
import type { ConnectionState } from "../wire/resumable-socket.ts";
import { closeAnswered, DeviceNotifications } from "./device-notifications.ts";
import { Inbox, notify, requestKey, requestSummary, type PendingRequest } from "./pending-requests.ts";
import { clearStoredTexts, type Prompt } from "./prompt-queue.ts";
import { SeenSessions } from "./session-rows.ts";
import { Session, type SessionAddress } from "./session.ts";

export type Phase = "starting" | "login" | "ready" | "failed";

const RECONNECT_MS = 3000;
/** How many sessions are loaded first, and then at once. */
const SESSION_PAGE = 100;
const MAX_SESSION_PAGE = 500;
const MAX_OTHER_SESSIONS = 500;

export class Gateway implements ConnectionListener {
  readonly phase = signal<Phase>("starting");
  readonly error = signal<extension.ErrorReport | null>(null);
  /** The token allows reading only. The page hides what it does not allow. */
  readonly readOnly = signal(false);
  /** The only session that can be seen, because the page was opened with a share link. */
  readonly sharedSession = signal<string | null>(null);
  readonly connectionState = signal<ConnectionState>("connecting");
  readonly agents = signal<readonly extension.ListedAgent[]>([]);
  /** The sessions of all agents, the latest first, as far as they are loaded. */
  readonly sessions = signal<readonly extension.ListedSession[]>([]);
  /** Where the list of sessions goes on; null if all are loaded. */
  readonly moreSessions = signal<string | null>(null);
  readonly notifications = new DeviceNotifications();
  /** Sessions that were found or archived. */
  private readonly otherSessions = signal<readonly extension.ListedSession[]>([]);
  /** The latest message for screen readers. */
  readonly announcement = signal("");
  /** What users do with sessions in the list, tokens and worktrees. */
  readonly manage = new Management(async (agent, method, params) =>
    agent === null ? this.call(method, params) : (await this.pool.get(agent)).callGateway(method, params),
  );
  readonly seen = new SeenSessions();
  private readonly inbox = new Inbox((id, result) => this.call("inbox/answer", { id, result }));

  private readonly pool = new ConnectionPool(this);
  private readonly openSessions = new Map<string, Session>();
  /** Changes whenever `openSessions` does. */
  private readonly openSessionsRevision = signal(0);
  /** Updates for unknown sessions: an agent can send them before the response that names the session. */
  private readonly earlyUpdates = new Map<string, (acp.SessionUpdate | SessionEvent)[]>();
  private readonly terminalWatchers = new Map<string, Set<() => void>>();
  private mainConnection: AgentConnection | null = null;
  private closing = false;
  private loadingSessions = false;
  /** Sessions whose connection was closed and that are to be loaded again. */
  private readonly detachedSessions = new Set<Session>();
  private reconnecting = false;
  /** Sessions that changed while the list is being read: what we know of them is newer. Null otherwise. */
  private changedSessions: extension.ListedSession[] | null = null;

  /** All requests that wait for the user, from the inbox and from our own connections. */
  readonly requests = computed<readonly PendingRequest[]>(() => {
    void this.openSessionsRevision.value;
    return this.inbox.merge([...this.openSessions.values()].flatMap((session) => session.requests.value));
  });

  /** Logs in with the token, if there is one, and connects. */
  async start(token: string | null): Promise<void> {
    this.phase.value = "starting";
    this.error.value = null;
    try {
      if (token !== null) {
        await login(token);
        // The new token may have other rights. Reload, so that nothing of the old token remains.
        if (this.mainConnection !== null || this.openSessions.size > 0) {
          this.close();
          location.reload();
          return;
        }
      }
      await this.connect();
      this.phase.value = "ready";
    } catch (error) {
      const denied = error instanceof AccessDenied ? error : deniedCause(error);
      if (denied) {
        this.phase.value = "login";
        // Without a token the user has not tried to log in yet, so there is no error to show.
        this.error.value = token === null ? null : extension.errorReport(denied);
      } else {
        this.phase.value = "failed";
        this.error.value = extension.errorReport(error);
      }
    }
  }

  async signOut(): Promise<void> {
    await this.notifications.signOut();
    await logout().catch(() => undefined);
    clearStoredTexts();
    location.hash = "";
    location.reload();
  }

  announce = (text: string): void => {
    this.announcement.value = text;
  };

  /** The request with this id in the inbox, also if it came by our own connection. */
  findRequest(inboxId: string): PendingRequest | undefined {
    const key = this.inbox.keyOf(inboxId);
    return this.requests.value.find((request) => request.key === key);
  }

  /** Returns the open session at an address. Opens and attaches to it first if necessary. */
  openSession(address: SessionAddress): Session {
    let session = this.findOpenSession(address.agent, address.sessionId);
    if (!session) {
      session = this.addSession(address);
      void this.attach(session);
    }
    return session;
  }

  findOpenSession(agent: string, sessionId: string): Session | undefined {
    return this.openSessions.get(sessionKey(agent, sessionId));
  }

  findListedSession(agent: string, sessionId: string): extension.ListedSession | undefined {
    const find = (items: readonly extension.ListedSession[]) =>
      items.find((item) => item.agent === agent && item.sessionId === sessionId);
    return find(this.sessions.value) ?? find(this.otherSessions.value);
  }

  /** Keeps sessions that are not in the list, such as archived ones, so that they can be opened. */
  remember(items: readonly extension.ListedSession[]): void {
    const isSame = (one: extension.ListedSession) =>
      items.some((item) => item.agent === one.agent && item.sessionId === one.sessionId);
    const others = this.otherSessions.value.filter((one) => !isSame(one)).slice(-MAX_OTHER_SESSIONS);
    this.otherSessions.value = [...others, ...items];
  }

  async createSession(agent: string, cwd: string): Promise<Session> {
    const connection = await this.pool.get(agent);
    const response = await connection.request("session/new", { cwd, mcpServers: [] });
    const session = this.addSession({ agent: connection.agent, sessionId: response.sessionId, cwd });
    session.attachNew(connection, response);
    this.applyEarlyUpdates(session);
    return session;
  }

  async deleteSession(listed: extension.ListedSession): Promise<void> {
    const connection = await this.pool.get(listed.agent);
    await connection.request("session/delete", { sessionId: listed.sessionId });
    this.sessionRemoved(listed.agent, listed.sessionId);
  }

  async attach(session: Session): Promise<void> {
    const { agent, sessionId } = session.address;
    try {
      const connection = await this.pool.get(agent);
      await session.load(connection, this.findListedSession(agent, sessionId)?.state ?? "idle");
    } catch (error) {
      session.fail(extension.errorReport(error));
    }
  }

  /** Loads the next sessions of the list. */
  async loadMoreSessions(): Promise<void> {
    const cursor = this.moreSessions.value;
    if (cursor === null || this.loadingSessions) return;
    this.loadingSessions = true;
    try {
      const page = await this.call("sessions", { limit: MAX_SESSION_PAGE, cursor });
      this.addSessions(page, this.sessions.value);
    } catch {
      // The connection is lost: the list is loaded again with the next one.
    } finally {
      this.loadingSessions = false;
    }
  }

  /** Finds a session that the list may not have reached yet. */
  async findSession(agent: string, sessionId: string): Promise<extension.ListedSession | undefined> {
    while (!this.findListedSession(agent, sessionId)) {
      const before = this.moreSessions.value;
      await this.loadMoreSessions();
      if (before === null || this.moreSessions.value === before) break;
    }
    return this.findListedSession(agent, sessionId);
  }

  /** The sessions whose title, agent or folder contains all words; at most one page of them. */
  async searchSessions(query: string): Promise<extension.ListedSession[]> {
    const page = await this.call("sessions", { limit: SESSION_PAGE, query });
    return extension.readList(page["sessions"], extension.readSession);
  }

  /** Starts a session as a copy of another one, if its agent can do that. */
  async forkSession(session: Session): Promise<Session> {
    const { agent, sessionId, cwd } = session.address;
    const connection = await this.pool.get(agent);
    const params = { sessionId, cwd, mcpServers: [] };
    const response = extension.asRecord(await connection.request<unknown>("session/fork", params));
    const address = { agent, sessionId: String(response["sessionId"]), cwd };
    this.sessionForked(address, this.findListedSession(agent, sessionId));
    return this.openSession(address);
  }

  /** Lists a fork until the gateway reports it. */
  private sessionForked(address: SessionAddress, source: extension.ListedSession | undefined): void {
    if (!source || this.findListedSession(address.agent, address.sessionId)) return;
    this.sessionChanged({ ...source, ...address, state: "idle", updatedAt: new Date().toISOString() });
  }

  /** Starts a session with the same agent and folder, whose first prompt tells what happened in another one. */
  async continueInNewSession(session: Session): Promise<Session> {
    const transcript = session.conversation.value.transcript();
    const next = await this.createSession(session.address.agent, session.address.cwd);
    next.draft.value = `${t("newSession.continues")}\n\n${transcript}\n\n---\n\n`;
    return next;
  }

  /** Tells the agent what to do instead of what was just rejected: at once, or as the next prompt. */
  sayInstead(session: Session, prompt: Prompt): void {
    const text = prompt.blocks.map((block) => (block.type === "text" ? block.text : "")).join("");
    if (session.connection !== null && session.canSteer(text)) void session.steer(prompt);
    else this.openSession(session.address).submit(prompt);
  }

  async listFolders(path: string | null): Promise<extension.FolderList> {
    return extension.readFolderList(await this.call("folders", path === null ? {} : { path }));
  }

  /** The files that match best. `incomplete` while a large folder is read for the first time. */
  async findFiles(
    session: Session,
    query: string,
  ): Promise<{ files: extension.PathEntry[]; incomplete: boolean }> {
    const { agent, sessionId } = session.address;
    const connection = await this.pool.get(agent);
    const result = await connection.callGateway("files", { sessionId, query, limit: 20 });
    return {
      files: extension.readList(result["files"], extension.readPathEntry),
      incomplete: result["incomplete"] === true,
    };
  }

  async terminalOutput(session: Session, terminalId: string): Promise<extension.TerminalOutput> {
    const { agent, sessionId } = session.address;
    const connection = await this.pool.get(agent);
    return extension.readTerminalOutput(
      await connection.callGateway("terminal/output", { sessionId, terminalId }),
    );
  }

  /** Calls back whenever a terminal has new output. Returns a function that stops this. */
  watchTerminal(session: Session, terminalId: string, callback: () => void): () => void {
    const key = terminalKey(session.address.agent, session.address.sessionId, terminalId);
    const callbacks = this.terminalWatchers.get(key) ?? new Set();
    this.terminalWatchers.set(key, callbacks.add(callback));
    return () => {
      callbacks.delete(callback);
      if (callbacks.size === 0) this.terminalWatchers.delete(key);
    };
  }

  async authenticate(agent: string, methodId: string): Promise<void> {
    await (await this.pool.get(agent)).request("authenticate", { methodId });
  }

  async authMethods(agent: string): Promise<acp.AuthMethod[]> {
    return (await this.pool.get(agent)).authMethods;
  }

  /** Checks the connections, for example after the device slept. */
  checkConnections(): void {
    this.pool.checkAll();
  }

  /** Closes all connections for good, because the user leaves the page. */
  close(): void {
    this.closing = true;
    this.pool.closeAll();
  }

  sessionUpdated(
    connection: AgentConnection,
    sessionId: string,
    update: acp.SessionUpdate | SessionEvent,
  ): void {
    const session = this.findOpenSession(connection.agent, sessionId);
    if (session) {
      session.applyUpdate(update);
      if (update.sessionUpdate === "_accord/terminal_changed")
        this.terminalChanged(connection, sessionId, update.terminalId);
      return;
    }
    const updates = this.earlyUpdates.get(sessionId) ?? [];
    if (this.earlyUpdates.size < 64 && updates.length < 256) {
      this.earlyUpdates.set(sessionId, [...updates, update]);
    }
  }

  turnChanged(connection: AgentConnection, change: extension.TurnChange): void {
    this.findOpenSession(connection.agent, change.sessionId)?.applyTurnChange(change);
  }

  terminalChanged(connection: AgentConnection, sessionId: string, terminalId: string): void {
    const key = terminalKey(connection.agent, sessionId, terminalId);
    for (const callback of this.terminalWatchers.get(key) ?? []) callback();
  }

  sessionChanged(changed: extension.ListedSession): void {
    this.changedSessions?.push(changed);
    const others = this.sessions.value.filter(
      (item) => item.agent !== changed.agent || item.sessionId !== changed.sessionId,
    );
    this.sessions.value = changed.archived ? others : latestFirst([changed, ...others]);
    if (changed.archived) this.remember([changed]);
    this.findOpenSession(changed.agent, changed.sessionId)?.applyActivity(changed.state);
  }

  sessionRemoved(agent: string, sessionId: string): void {
    this.sessions.value = this.sessions.value.filter(
      (item) => item.agent !== agent || item.sessionId !== sessionId,
    );
    if (this.openSessions.delete(sessionKey(agent, sessionId))) this.openSessionsRevision.value += 1;
  }

  inboxAdded(item: extension.InboxItem): void {
    const summary = this.inbox.add(item);
    this.announce(t("inbox.announcement", { agent: item.agent, summary }));
    if (!this.notifications.events.value.includes("waits")) notify(item, summary);
  }

  inboxRemoved(id: string): void {
    this.inbox.remove(id);
    void closeAnswered((open) => this.inbox.has(open));
  }

  permissionRequested(
    connection: AgentConnection,
    params: acp.RequestPermissionRequest,
    signal: AbortSignal,
  ): Promise<acp.RequestPermissionResponse> {
    const content = { kind: "permission", method: "session/request_permission", params } as const;
    return this.addRequest(connection, params.sessionId, content, signal);
  }

  elicitationRequested(
    connection: AgentConnection,
    params: acp.CreateElicitationRequest,
    signal: AbortSignal,
  ): Promise<acp.CreateElicitationResponse> {
    const sessionId = "sessionId" in params && typeof params.sessionId === "string" ? params.sessionId : "";
    const content = { kind: "elicitation", method: "elicitation/create", params } as const;
    return this.addRequest(connection, sessionId, content, signal);
  }

  questionAsked(
    connection: AgentConnection,
    params: Record<string, unknown>,
    signal: AbortSignal,
  ): Promise<Record<string, unknown>> {
    const content = { kind: "extension", method: extension.ASK_USER, params } as const;
    return this.addRequest(connection, String(params["sessionId"] ?? ""), content, signal);
  }

  elicitationCompleted(connection: AgentConnection, elicitationId: string): void {
    for (const session of this.openSessions.values()) {
      if (session.connection !== connection) continue;
      session.openedLinks.value = session.openedLinks.value.filter((link) => link.id !== elicitationId);
    }
  }

  stateChanged(connection: AgentConnection, state: ConnectionState): void {
    if (state === "closed") return;
    if (this.mainConnection === null || connection === this.mainConnection)
      this.connectionState.value = state;
    if (state === "waiting") this.announce(t("connection.lostAnnouncement"));
  }

  connectionClosed(connection: AgentConnection, reason: Error | undefined): void {
    if (connection.agent === "" || !this.pool.remove(connection) || this.closing) return;
    const sessions = [...this.openSessions.values()].filter((session) => session.connection === connection);
    for (const session of sessions) {
      session.detach();
      this.detachedSessions.add(session);
    }
    if (deniedCause(reason)) {
      this.showLogin();
      return;
    }
    if (connection === this.mainConnection) {
      this.mainConnection = null;
      this.connectionState.value = "waiting";
    }
    void this.reconnect();
  }

  /** Replaces connections that could not be resumed, and loads their sessions again. */
  private async reconnect(): Promise<void> {
    if (this.reconnecting) return;
    this.reconnecting = true;
    while (!this.closing && (this.mainConnection === null || this.detachedSessions.size > 0)) {
      try {
        if (this.mainConnection === null) await this.connect();
        else await this.call("agents", {}); // its socket may have been lost too
        for (const session of this.detachedSessions) await this.attachAgain(session);
      } catch (error) {
        if (deniedCause(error)) {
          this.showLogin();
          break;
        }
        await new Promise((resolve) => setTimeout(resolve, RECONNECT_MS));
      }
    }
    this.reconnecting = false;
  }

  /** Loads a session again. Throws if there is no connection; an error of the agent is shown. */
  private async attachAgain(session: Session): Promise<void> {
    const { agent, sessionId } = session.address;
    try {
      const connection = await this.pool.get(agent);
      await session.load(connection, this.findListedSession(agent, sessionId)?.state ?? "idle");
    } catch (error) {
      if (!(error instanceof RequestError)) throw error;
      session.fail(extension.errorReport(error));
    }
    if (session.connection !== null && session.connection.state !== "closed")
      this.detachedSessions.delete(session);
  }

  private showLogin(): void {
    this.phase.value = "login";
    this.error.value = extension.errorReport(t("login.signedOut"));
  }

  private async connect(): Promise<void> {
    const connection = await this.pool.getDefault();
    this.mainConnection = connection;
    this.readOnly.value = connection.readOnly;
    this.sharedSession.value = connection.sharedSession;
    this.connectionState.value = connection.state;
    this.changedSessions = [];
    const [agents, sessions, inbox] = await Promise.all([
      this.callOptional("agents"),
      this.callOptional("sessions", { subscribe: true, limit: SESSION_PAGE }),
      this.callOptional("inbox", { subscribe: true }),
    ]);
    this.agents.value = extension.readList(agents["agents"], extension.readAgent);
    if (this.agents.value.length === 0) {
      const { agent: name, agentTitle: title } = connection;
      this.agents.value = [{ name, title, description: null, default: true, state: "ready", reason: null }];
    }
    this.addSessions(sessions, this.changedSessions ?? []);
    this.changedSessions = null;
    for (const session of this.openSessions.values()) {
      const listed = this.findListedSession(session.address.agent, session.address.sessionId);
      if (listed || this.moreSessions.value === null) session.applyActivity(listed?.state ?? "idle");
    }
    this.inbox.replace(extension.readList(inbox["items"], extension.readInboxItem));
    void closeAnswered((open) => this.inbox.has(open));
    void this.notifications.load();
  }

  /** Adds a page of the list to the sessions that are known; those are newer. */
  private addSessions(
    page: Record<string, unknown>,
    known: readonly extension.ListedSession[],
  ): void {
    const sessions = new Map<string, extension.ListedSession>();
    for (const item of extension.readList(page["sessions"], extension.readSession))
      sessions.set(sessionKey(item.agent, item.sessionId), item);
    for (const item of known) sessions.set(sessionKey(item.agent, item.sessionId), item);
    this.sessions.value = latestFirst([...sessions.values()]);
    this.moreSessions.value = extension.nonEmptyText(page["nextCursor"]);
  }

  private call(method: string, params: Record<string, unknown>): Promise<Record<string, unknown>> {
    if (!this.mainConnection)
      return Promise.reject(new Error(t("connection.missing")));
    return this.mainConnection.callGateway(method, params);
  }

  /** Calls a method that the server may not have. Returns an empty result if the call fails. */
  private async callOptional(
    method: string,
    params: Record<string, unknown> = {},
  ): Promise<Record<string, unknown>> {
    try {
      return await this.call(method, params);
    } catch (error) {
      if (this.mainConnection?.state === "closed") throw error;
      return {};
    }
  }

  /** Adds a request to its session and waits for the user's answer. */
  private addRequest<Result>(
    connection: AgentConnection,
    sessionId: string,
    content: RequestContent,
    signal: AbortSignal,
  ): Promise<Result> {
    const session =
      this.findOpenSession(connection.agent, sessionId) ??
      [...this.openSessions.values()].find((one) => one.connection === connection);
    return new Promise((resolve, reject) => {
      const request = {
        ...content,
        key: requestKey(content.method, sessionId, content.params as Record<string, unknown>),
        agent: connection.agent,
        sessionId,
        since: Date.now(),
        answer: (result: unknown) => {
          remove();
          this.inbox.markAnswered(request.key);
          resolve(result as Result);
          return Promise.resolve();
        },
      } as PendingRequest;
      const remove = () => {
        if (session) session.requests.value = session.requests.value.filter((one) => one !== request);
      };
      signal.addEventListener("abort", () => {
        remove();
        reject(signal.reason);
      });
      if (session) {
        session.requests.value = [...session.requests.value, request];
        this.inbox.unmarkAnswered(request.key);
      }
      if (this.inbox.empty)
        this.announce(
          t("inbox.announcement", { agent: connection.agent, summary: requestSummary(request) }),
        );
    });
  }

  private addSession(address: SessionAddress): Session {
    const session = new Session(address, this.announce);
    this.openSessions.set(sessionKey(address.agent, address.sessionId), session);
    this.openSessionsRevision.value += 1;
    return session;
  }

  private applyEarlyUpdates(session: Session): void {
    const { sessionId } = session.address;
    for (const update of this.earlyUpdates.get(sessionId) ?? []) session.applyUpdate(update);
    this.earlyUpdates.delete(sessionId);
  }
}

export const GatewayContext = createContext<Gateway | null>(null);

/** The gateway of the page, for components. */
export function useGateway(): Gateway {
  const gateway = useContext(GatewayContext);
  if (!gateway) throw new Error("this component needs a GatewayContext around it");
  return gateway;
}

type RequestContent =
  | { kind: "permission"; method: string; params: acp.RequestPermissionRequest }
  | { kind: "elicitation"; method: string; params: acp.CreateElicitationRequest }
  | { kind: "extension"; method: string; params: Record<string, unknown> };

/** The `AccessDenied` that caused an error, if there is one. */
function deniedCause(error: unknown): AccessDenied | null {
  return error instanceof Error && error.cause instanceof AccessDenied ? error.cause : null;
}

function sessionKey(agent: string, sessionId: string): string {
  return `${agent}\n${sessionId}`;
}

function terminalKey(agent: string, sessionId: string, terminalId: string): string {
  return `${sessionKey(agent, sessionId)}\n${terminalId}`;
}

function latestFirst(sessions: extension.ListedSession[]): extension.ListedSession[] {
  return sessions.sort((one, other) => (other.updatedAt ?? "").localeCompare(one.updatedAt ?? ""));
}
