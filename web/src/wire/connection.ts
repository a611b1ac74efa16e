/** One ACP connection to one agent, by the official SDK over its WebSocket transport on a line that outlives sockets. */
import * as acp from "@agentclientprotocol/sdk";
import { createWebSocketStream, type WebSocketConstructor } from "@agentclientprotocol/sdk/experimental/ws-client";
import { Line, Refused, type Dial, type LineState, type Socket } from "./line.ts";
import { NotLetIn, socketAddress } from "./door.ts";
import { ASK_USER, readInboxItem, readSession, readTurn, record, type InboxItem, type ListedSession, type TurnNews } from "./vendor.ts";

export interface Listener {
  update(connection: AgentConnection, sessionId: string, update: acp.SessionUpdate): void;
  turn(connection: AgentConnection, news: TurnNews): void;
  printed(connection: AgentConnection, sessionId: string, terminalId: string): void;
  sessionChanged(session: ListedSession): void;
  sessionRemoved(agent: string, sessionId: string): void;
  inboxAdded(item: InboxItem): void;
  inboxRemoved(id: string): void;
  permission(connection: AgentConnection, params: acp.RequestPermissionRequest, signal: AbortSignal): Promise<acp.RequestPermissionResponse>;
  elicitation(connection: AgentConnection, params: acp.CreateElicitationRequest, signal: AbortSignal): Promise<acp.CreateElicitationResponse>;
  question(connection: AgentConnection, params: Record<string, unknown>, signal: AbortSignal): Promise<Record<string, unknown>>;
  elicitationDone(connection: AgentConnection, elicitationId: string): void;
  state(connection: AgentConnection, state: LineState): void;
  ended(connection: AgentConnection, reason: Error | undefined): void;
}

const CAPABILITIES: acp.ClientCapabilities = {
  session: { configOptions: { boolean: {} }, compaction: {}, notices: {} },
  elicitation: { form: {}, url: {} },
  _meta: { accord: { turn: true, terminal: true }, [ASK_USER]: true },
};

export class AgentConnection {
  agent = "";
  agentTitle = "";
  capabilities: acp.AgentCapabilities = {};
  authMethods: acp.AuthMethod[] = [];
  /** The token lets its holder look on, and nothing else. */
  readOnly = false;

  private readonly line: Line;
  private readonly connection: acp.ClientConnection;

  private constructor(dial: Dial, listener: Listener) {
    this.line = new Line(dial);
    this.line.onState = (state) => listener.state(this, state);
    const line = this.line;
    // The transport makes its socket itself; the one it gets is the line.
    const socket = function () {
      return line;
    } as unknown as WebSocketConstructor;
    const stream = createWebSocketStream("ws://gateway.invalid/", { WebSocket: socket, cookies: "omit" });
    this.connection = this.app(listener).connect(stream);
    void this.connection.closed.then(() => listener.ended(this, this.line.reason));
  }

  /** Connects to `/acp/AGENT`, or to the gateway's default agent, and shakes hands. */
  static async open(agent: string | null, listener: Listener, dial: Dial = browserDial(agent)): Promise<AgentConnection> {
    const self = new AgentConnection(dial, listener);
    try {
      await self.initialize(agent);
    } catch (error) {
      const reason = self.line.reason;
      self.close();
      throw reason ?? error;
    }
    return self;
  }

  get state(): LineState {
    return this.line.state;
  }

  get resumed(): boolean {
    return record(record(this.capabilities._meta)["accord"])["resume"] !== undefined;
  }

  request: acp.ClientContext["request"] = ((method: string, params: unknown, options?: acp.SendRequestOptions) =>
    this.connection.agent.request(method, params, options)) as acp.ClientContext["request"];

  /** A method of the gateway's own. */
  async ask(method: string, params: Record<string, unknown> = {}): Promise<Record<string, unknown>> {
    return record(await this.connection.agent.request<unknown>(`_accord/${method}`, params));
  }

  cancel(sessionId: string): void {
    void this.connection.agent.notify("session/cancel", { sessionId }).catch(() => undefined);
  }

  close(): void {
    this.connection.close();
    this.line.close();
  }

  /** The page may have slept, or the network changed: a socket that does not answer soon is replaced. */
  async prove(patience = 4000): Promise<void> {
    if (this.line.state !== "open") {
      this.line.hurry();
      return;
    }
    const late = setTimeout(() => this.line.renew(), patience);
    try {
      await this.ask("agents");
    } catch {
      // A refusal is a sign of life, too; an ended connection is told by `ended`.
    } finally {
      clearTimeout(late);
    }
  }

  private async initialize(agent: string | null): Promise<void> {
    const answer = await this.connection.agent.request("initialize", {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: CAPABILITIES,
      clientInfo: { name: "accord-page", title: "Accord in a browser", version: "1" },
    });
    if (answer.protocolVersion !== acp.PROTOCOL_VERSION) {
      throw new Error(`the agent speaks version ${answer.protocolVersion} of the protocol, this page version ${acp.PROTOCOL_VERSION}`);
    }
    this.capabilities = answer.agentCapabilities ?? {};
    this.authMethods = answer.authMethods ?? [];
    const ours = record(record(this.capabilities._meta)["accord"]);
    const name = record(ours["gateway"])["agent"];
    this.readOnly = record(ours["gateway"])["readOnly"] === true;
    this.agent = typeof name === "string" ? name : (agent ?? answer.agentInfo?.name ?? "agent");
    this.agentTitle = answer.agentInfo?.title ?? answer.agentInfo?.name ?? this.agent;
    const id = record(ours["resume"])["connectionId"];
    if (typeof id === "string") this.line.resumable(id);
  }

  private app(listener: Listener): acp.ClientApp {
    // Updates come first in the table, because the SDK tries the handlers one after the other, a tick for each.
    return acp
      .client({ name: "accord-page" })
      .onNotification("session/update", ({ params }) => listener.update(this, params.sessionId, params.update))
      .onNotification("_accord/turn", record, ({ params }) => {
        const news = readTurn(params);
        if (news) listener.turn(this, news);
      })
      .onNotification("_accord/terminal", record, ({ params }) => {
        listener.printed(this, String(params["sessionId"]), String(params["terminalId"]));
      })
      .onNotification("_accord/sessions", record, ({ params }) => {
        const changed = readSession(params["changed"]);
        if (changed) listener.sessionChanged(changed);
        const removed = record(params["removed"]);
        if (removed["sessionId"]) listener.sessionRemoved(String(removed["agent"]), String(removed["sessionId"]));
      })
      .onNotification("_accord/inbox", record, ({ params }) => {
        const added = readInboxItem(params["added"]);
        if (added) listener.inboxAdded(added);
        const removed = record(params["removed"])["id"];
        if (removed !== undefined) listener.inboxRemoved(String(removed));
      })
      .onNotification("elicitation/complete", ({ params }) => listener.elicitationDone(this, params.elicitationId))
      .onRequest("session/request_permission", ({ params, signal }) => listener.permission(this, params, signal))
      .onRequest("elicitation/create", ({ params, signal }) => listener.elicitation(this, params, signal))
      .onRequest(ASK_USER, record, ({ params, signal }) => listener.question(this, params, signal));
  }
}

function browserDial(agent: string | null): Dial {
  return async () => {
    let address: string;
    try {
      address = await socketAddress(agent);
    } catch (error) {
      if (error instanceof NotLetIn) throw Object.assign(new Refused(error.message), { cause: error });
      throw error;
    }
    return new WebSocket(address) as Socket;
  };
}
