/**
 * ACP connections to agents: the official SDK's client over a resumable WebSocket, and a pool of connections.
 */
import * as acp from "@agentclientprotocol/sdk";
import {
  createWebSocketStream,
  type WebSocketConstructor,
} from "@agentclientprotocol/sdk/experimental/ws-client";
import { t } from "../messages/messages.ts";
import { AccessDenied, socketAddress } from "./browser-login.ts";
import {
  asRecord,
  nonEmptyText,
  ASK_USER,
  readInboxItem,
  readSession,
  readTurnChange,
  type InboxItem,
  type ListedSession,
  type TurnChange,
} from "./extension-methods.ts";
import {
  readRewindPoints,
  readRewindResult,
  type RewindPoint,
  type RewindResult,
  type RewindScope,
} from "./rewind-methods.ts";
import { readSessionUpdate, type SessionEvent } from "./session-events.ts";
import {
  ResumableSocket,
  SocketRefused,
  type ConnectionState,
  type Socket,
  type SocketOpener,
} from "./resumable-socket.ts";

/** Receives the notifications and requests of a connection. */
export interface ConnectionListener {
  sessionUpdated(
    connection: AgentConnection,
    sessionId: string,
    update: acp.SessionUpdate | SessionEvent,
  ): void;
  turnChanged(connection: AgentConnection, change: TurnChange): void;
  terminalChanged(connection: AgentConnection, sessionId: string, terminalId: string): void;
  sessionChanged(session: ListedSession): void;
  sessionRemoved(agent: string, sessionId: string): void;
  inboxAdded(item: InboxItem): void;
  inboxRemoved(id: string): void;
  permissionRequested(
    connection: AgentConnection,
    params: acp.RequestPermissionRequest,
    signal: AbortSignal,
  ): Promise<acp.RequestPermissionResponse>;
  elicitationRequested(
    connection: AgentConnection,
    params: acp.CreateElicitationRequest,
    signal: AbortSignal,
  ): Promise<acp.CreateElicitationResponse>;
  questionAsked(
    connection: AgentConnection,
    params: Record<string, unknown>,
    signal: AbortSignal,
  ): Promise<Record<string, unknown>>;
  elicitationCompleted(connection: AgentConnection, elicitationId: string): void;
  stateChanged(connection: AgentConnection, state: ConnectionState): void;
  connectionClosed(connection: AgentConnection, reason: Error | undefined): void;
}

const CAPABILITIES: acp.ClientCapabilities = {
  session: { configOptions: { boolean: {} }, compaction: {}, notices: {} },
  elicitation: { form: {}, url: {} },
  _meta: { accord: { turn: true, terminal: true, events: true }, [ASK_USER]: true },
};

/** The name of `session/update` between the socket and the SDK, which refuses updates that it does not know. */
const SESSION_UPDATE = "_accord/session_update";

function passUpdate(
  message: acp.AnyMessage,
  controller: TransformStreamDefaultController<acp.AnyMessage>,
): void {
  const isUpdate = "method" in message && message.method === "session/update";
  controller.enqueue(isUpdate ? { ...message, method: SESSION_UPDATE } : message);
}

export class AgentConnection {
  agent = "";
  agentTitle = "";
  capabilities: acp.AgentCapabilities = {};
  authMethods: acp.AuthMethod[] = [];
  /** The token allows reading only. */
  readOnly = false;
  /** The only session that a share link shows; null for a token. */
  sharedSession: string | null = null;
  /** The agent takes messages during a turn. */
  canSteer = false;
  /** Sessions of the agent can go back to earlier messages. */
  canRewind = false;

  private readonly socket: ResumableSocket;
  private readonly connection: acp.ClientConnection;

  private constructor(openSocket: SocketOpener, listener: ConnectionListener) {
    const socket = new ResumableSocket(openSocket);
    socket.onState = (state) => listener.stateChanged(this, state);
    this.socket = socket;
    // The transport constructs its own WebSocket, so it gets a constructor that returns this socket.
    const constructor = function () {
      return socket;
    } as unknown as WebSocketConstructor;
    const stream = createWebSocketStream("ws://gateway.invalid/", {
      WebSocket: constructor,
      cookies: "omit",
    });
    this.connection = this.clientApp(listener).connect({
      readable: stream.readable.pipeThrough(new TransformStream({ transform: passUpdate })),
      writable: stream.writable,
    });
    void this.connection.closed.then(() => listener.connectionClosed(this, socket.closeReason));
  }

  /** Connects to an agent (`null`: the gateway's default agent) and initializes the connection. */
  static async open(
    agent: string | null,
    listener: ConnectionListener,
    openSocket: SocketOpener = browserSocketOpener(agent),
  ): Promise<AgentConnection> {
    const connection = new AgentConnection(openSocket, listener);
    try {
      await connection.initialize(agent);
    } catch (error) {
      const reason = connection.socket.closeReason;
      connection.close();
      throw reason ?? error;
    }
    return connection;
  }

  get state(): ConnectionState {
    return this.socket.state;
  }

  request: acp.ClientContext["request"] = ((
    method: string,
    params: unknown,
    options?: acp.SendRequestOptions,
  ) => this.connection.agent.request(method, params, options)) as acp.ClientContext["request"];

  /** Calls a method of the gateway itself, `_accord/METHOD`. */
  async callGateway(method: string, params: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    return asRecord(await this.connection.agent.request<unknown>(`_accord/${method}`, params));
  }

  /** Sends a message to the running turn. Returns false if no turn was running. */
  async steer(sessionId: string, prompt: acp.ContentBlock[]): Promise<boolean> {
    const _meta = { steering: { idleBehavior: "promptRequired" } };
    const params = { sessionId, prompt, _meta };
    const response = await this.connection.agent.request<unknown>("_session/steering", params);
    return asRecord(response)["outcome"] === "injected";
  }

  /** Lists the messages that a session can go back to, the latest first. */
  async rewindPoints(sessionId: string): Promise<RewindPoint[]> {
    const response = await this.connection.agent.request<unknown>("_session/rewind_points", { sessionId });
    return readRewindPoints(asRecord(response));
  }

  /** Goes back to before a message, or takes the last rewind back. */
  async rewind(
    sessionId: string,
    target: { messageId: string; scope: RewindScope; dryRun?: boolean } | { redo: true },
  ): Promise<RewindResult> {
    const params = { sessionId, ...target };
    return readRewindResult(asRecord(await this.connection.agent.request<unknown>("_session/rewind", params)));
  }

  cancel(sessionId: string): void {
    void this.connection.agent.notify("session/cancel", { sessionId }).catch(() => undefined);
  }

  close(): void {
    this.connection.close();
    this.socket.close();
  }

  /** Replaces the socket if it does not answer in time, for example after the device slept. */
  async check(timeout = 4000): Promise<void> {
    if (this.socket.state !== "open") {
      this.socket.retryNow();
      return;
    }
    const timer = setTimeout(() => this.socket.replaceSocket(), timeout);
    try {
      await this.callGateway("agents");
    } catch {
      // An error response also shows that the socket works. `connectionClosed` reports a closed connection.
    } finally {
      clearTimeout(timer);
    }
  }

  private async initialize(agent: string | null): Promise<void> {
    const response = await this.connection.agent.request("initialize", {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: CAPABILITIES,
      clientInfo: { name: "accord-page", title: t("connection.name"), version: "1" },
    });
    const version = response.protocolVersion;
    if (version !== acp.PROTOCOL_VERSION) {
      throw new Error(
        t("connection.version", { version, own: acp.PROTOCOL_VERSION }),
      );
    }
    this.capabilities = response.agentCapabilities ?? {};
    this.authMethods = response.authMethods ?? [];
    this.canSteer = asRecord(asRecord(response._meta)["steering"])["supported"] === true;
    this.canRewind = asRecord(asRecord(response._meta)["rewind"])["supported"] === true;
    const extensions = asRecord(asRecord(this.capabilities._meta)["accord"]);
    const gateway = asRecord(extensions["gateway"]);
    const name = gateway["agent"];
    this.readOnly = gateway["readOnly"] === true;
    this.sharedSession = nonEmptyText(gateway["session"]);
    this.agent = typeof name === "string" ? name : (agent ?? response.agentInfo?.name ?? "agent");
    this.agentTitle = response.agentInfo?.title ?? response.agentInfo?.name ?? this.agent;
    const connectionId = asRecord(extensions["resume"])["connectionId"];
    if (typeof connectionId === "string") this.socket.enableResume(connectionId);
  }

  private clientApp(listener: ConnectionListener): acp.ClientApp {
    // Register updates first: the SDK tries the handlers one after another, one event loop tick each.
    return acp
      .client({ name: "accord-page" })
      .onNotification(SESSION_UPDATE, readSessionUpdate, ({ params }) => {
        if (params.update) listener.sessionUpdated(this, params.sessionId, params.update);
      })
      .onNotification("_accord/turn", asRecord, ({ params }) => {
        const change = readTurnChange(params);
        if (change) listener.turnChanged(this, change);
      })
      .onNotification("_accord/terminal", asRecord, ({ params }) => {
        listener.terminalChanged(this, String(params["sessionId"]), String(params["terminalId"]));
      })
      .onNotification("_accord/sessions", asRecord, ({ params }) => {
        const changed = readSession(params["changed"]);
        if (changed) listener.sessionChanged(changed);
        const removed = asRecord(params["removed"]);
        if (removed["sessionId"])
          listener.sessionRemoved(String(removed["agent"]), String(removed["sessionId"]));
      })
      .onNotification("_accord/inbox", asRecord, ({ params }) => {
        const added = readInboxItem(params["added"]);
        if (added) listener.inboxAdded(added);
        const removed = asRecord(params["removed"])["id"];
        if (removed !== undefined) listener.inboxRemoved(String(removed));
      })
      .onNotification("elicitation/complete", ({ params }) =>
        listener.elicitationCompleted(this, params.elicitationId),
      )
      .onRequest("session/request_permission", ({ params, signal }) =>
        listener.permissionRequested(this, params, signal),
      )
      .onRequest("elicitation/create", ({ params, signal }) =>
        listener.elicitationRequested(this, params, signal),
      )
      .onRequest(ASK_USER, asRecord, ({ params, signal }) => listener.questionAsked(this, params, signal));
  }
}

/** One connection for each agent in use, opened on demand. */
export class ConnectionPool {
  private readonly connections = new Map<string, Promise<AgentConnection>>();
  private readonly listener: ConnectionListener;

  constructor(listener: ConnectionListener) {
    this.listener = listener;
  }

  get(agent: string): Promise<AgentConnection> {
    let connection = this.connections.get(agent);
    if (!connection) {
      connection = AgentConnection.open(agent, this.listener);
      this.connections.set(agent, connection);
      connection.catch(() => this.connections.delete(agent));
    }
    return connection;
  }

  /**
   * Connects to the gateway's default agent. If it cannot start, connects to the first other agent that can.
   */
  async getDefault(): Promise<AgentConnection> {
    const connection = await this.openDefault();
    this.connections.set(connection.agent, Promise.resolve(connection));
    return connection;
  }

  private async openDefault(): Promise<AgentConnection> {
    try {
      return await AgentConnection.open(null, this.listener);
    } catch (error) {
      const others = error instanceof acp.RequestError ? asRecord(error.data)["agents"] : [];
      for (const name of Array.isArray(others) ? others.map(String) : []) {
        try {
          return await AgentConnection.open(name, this.listener);
        } catch {
          // If all agents fail, the user sees the error of the default agent.
        }
      }
      throw error;
    }
  }

  /** Returns whether the connection was in the pool. */
  remove(connection: AgentConnection): boolean {
    return this.connections.delete(connection.agent);
  }

  /** Checks all connections, for example after sleep or a change of network. */
  checkAll(): void {
    this.forEach((connection) => void connection.check());
  }

  closeAll(): void {
    this.forEach((connection) => connection.close());
  }

  private forEach(callback: (connection: AgentConnection) => void): void {
    for (const connection of this.connections.values()) void connection.then(callback).catch(() => undefined);
  }
}

function browserSocketOpener(agent: string | null): SocketOpener {
  return async () => {
    let address: string;
    try {
      address = await socketAddress(agent);
    } catch (error) {
      if (error instanceof AccessDenied) throw new SocketRefused(error.message, { cause: error });
      throw error;
    }
    return new WebSocket(address) as Socket;
  };
}
