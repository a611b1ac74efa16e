/**
 * A gateway for development and tests: serves the page, `/api`, and `/acp` with the `_accord/*` methods and
 * resuming. Its only agent runs the scenarios of agent-scenarios.mjs. It accepts every client, so it listens
 * on loopback only.
 *
 *   npm run build && npm run mock-gateway -- --port 8790
 */
import { readdirSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import * as acp from "@agentclientprotocol/sdk";
import { WebSocketServer } from "ws";
import { SCENARIOS, TERMINAL_OUTPUT } from "./agent-scenarios.mjs";
import { ResumableConnection } from "./resumable-connection.mjs";

const PAGE_FOLDER = join(dirname(fileURLToPath(import.meta.url)), "../../src/accord/gateway/page");
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
  "connect-src 'self'; font-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const DIAGRAM_CSP =
  "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; " +
  "frame-ancestors 'self'";
const CONTENT_TYPES = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript",
  ".css": "text/css",
  ".svg": "image/svg+xml",
};
const AGENT = "mock";
const MODES = [
  { value: "ask", name: "Ask" },
  { value: "code", name: "Code" },
];
const FILES = ["src/greet.py", "src/reader.py", "tests/test_reader.py", "README.md"];

/** Starts a mock gateway. Port 0 chooses a free port. */
export function serve(port = 0) {
  const gateway = new MockGateway();
  const connections = new Map();
  const server = createServer(serveHttp);
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket) => {
    socket.once("message", (data) => openConnection(gateway, connections, socket, String(data)));
  });
  const close = () => {
    for (const socket of sockets.clients) socket.terminate();
    server.closeAllConnections();
    server.close();
  };
  return new Promise((resolve) => {
    server.listen(port, "127.0.0.1", () =>
      resolve({ port: server.address().port, connections, sockets: () => sockets.clients, close }),
    );
  });
}

/** Opens or resumes a connection, depending on the first message of its socket. */
function openConnection(gateway, connections, socket, text) {
  const message = JSON.parse(text);
  if (message.method === "_accord/resume") {
    const connection = connections.get(message.params.connectionId);
    const error = { code: -32002, message: "no such connection" };
    if (connection) connection.resume(socket, message);
    else socket.send(JSON.stringify({ jsonrpc: "2.0", id: message.id, error }));
    return;
  }
  const connection = new ResumableConnection(`c${gateway.nextNumber()}`);
  connections.set(connection.id, connection);
  connection.attach(socket);
  new MockClient(gateway).app(connection.id).connect(connection);
  connection.receive(text);
}

async function serveHttp(request, response) {
  const path = new URL(request.url, "http://x").pathname;
  if (request.method === "POST" && path === "/api/ticket") {
    response.writeHead(200, { "content-type": "application/json" }).end('{"ticket":"mock"}');
    return;
  }
  if (request.method === "POST") {
    response.writeHead(204).end();
    return;
  }
  const file = normalize(join(PAGE_FOLDER, path === "/" ? "index.html" : path));
  const type = CONTENT_TYPES[extname(file)] ?? "application/octet-stream";
  try {
    if (!file.startsWith(PAGE_FOLDER)) throw new Error("outside the page's folder");
    const body = await readFile(file);
    const policy = path === "/diagram.html" ? DIAGRAM_CSP : CSP;
    response.writeHead(200, { "content-type": type, "content-security-policy": policy, "access-control-allow-origin": "*" }).end(body);
  } catch {
    response.writeHead(404).end("not found");
  }
}

/** Sessions, pending requests and clients. */
class MockGateway {
  sessions = new Map();
  inbox = new Map();
  clients = new Set();
  lastNumber = 0;

  nextNumber() {
    this.lastNumber += 1;
    return this.lastNumber;
  }

  createSession(cwd) {
    const session = {
      id: `s${this.nextNumber()}`,
      cwd,
      title: null,
      updatedAt: new Date().toISOString(),
      log: [],
      clients: new Set(),
      turn: null,
      pendingRequests: 0,
      mode: "ask",
      effort: false,
    };
    this.sessions.set(session.id, session);
    return session;
  }

  findSession(sessionId) {
    const session = this.sessions.get(sessionId);
    if (!session) throw new acp.RequestError(-32002, "session not found", { sessionId });
    return session;
  }

  /** A session as `_accord/sessions` lists it. */
  sessionInfo(session) {
    return {
      agent: AGENT,
      sessionId: session.id,
      cwd: session.cwd,
      title: session.title,
      updatedAt: session.updatedAt,
      state: session.turn ? (session.pendingRequests > 0 ? "waiting" : "running") : "idle",
      clients: session.clients.size,
      live: true,
    };
  }

  notifySubscribers(method, params) {
    for (const client of this.clients) {
      if (client.subscriptions.has(method)) void client.peer.notify(`_accord/${method}`, params);
    }
  }

  notifyChanged(session) {
    this.notifySubscribers("sessions", { changed: this.sessionInfo(session) });
  }

  update(session, update, exceptClient) {
    session.log.push(update);
    for (const client of session.clients) {
      if (client !== exceptClient)
        void client.peer.notify("session/update", { sessionId: session.id, update });
    }
  }

  /** Sends a request to all attached clients and to the inbox. The first answer counts. */
  request(session, method, sessionParams) {
    const params = { sessionId: session.id, ...sessionParams };
    const id = `q${this.nextNumber()}`;
    const { id: sessionId, cwd, title } = session;
    const item = { id, agent: AGENT, sessionId, cwd, title, method, params, since: new Date().toISOString() };
    const answered = new AbortController();
    return new Promise((resolve) => {
      const answer = (result) => {
        if (!this.inbox.delete(id)) return false;
        session.pendingRequests -= 1;
        answered.abort();
        this.notifySubscribers("inbox", { removed: { id, reason: "answered" } });
        this.notifyChanged(session);
        resolve(result);
        return true;
      };
      this.inbox.set(id, { item, answer });
      session.pendingRequests += 1;
      this.notifyChanged(session);
      this.notifySubscribers("inbox", { added: item });
      for (const { peer } of session.clients) {
        peer.request(method, params, { cancellationSignal: answered.signal }).then(answer, () => undefined);
      }
    });
  }

  /** Runs the scenario that the first word of the prompt names, or repeats the prompt. */
  async runTurn(session, prompt, client) {
    const text = prompt.map((block) => (block.type === "text" ? block.text : "")).join("");
    const words = text.trim().split(/\s+/);
    session.title ??= text.slice(0, 60);
    for (const content of prompt) {
      this.update(session, { sessionUpdate: "user_message_chunk", content }, client);
    }
    const turn = {
      cwd: session.cwd,
      text,
      number: this.nextNumber(),
      cancelled: false,
      update: (update) => this.update(session, update),
      permission: (params) => this.request(session, "session/request_permission", params),
      elicitation: (params) => this.request(session, "elicitation/create", params),
    };
    session.turn = turn;
    session.updatedAt = new Date().toISOString();
    this.notifyChanged(session);
    const repeat = async () => {
      const content = { type: "text", text: `You said: ${text}` };
      turn.update({ sessionUpdate: "agent_message_chunk", content });
    };
    await (SCENARIOS[words[0]] ?? repeat)(turn, words);
    session.turn = null;
    const stopReason = turn.cancelled ? "cancelled" : "end_turn";
    for (const other of session.clients) {
      if (other === client) continue;
      void other.peer.notify("_accord/turn", { sessionId: session.id, state: "ended", stopReason });
    }
    this.notifyChanged(session);
    return { stopReason };
  }
}

/** One connected client: the handlers of its messages. */
class MockClient {
  subscriptions = new Set();
  /** The SDK's handle of the client. */
  peer = null;

  constructor(gateway) {
    this.gateway = gateway;
  }

  app(connectionId) {
    return this.addGatewayMethods(this.addSessionMethods(acp.agent({ name: AGENT })))
      .onConnect(({ client }) => {
        this.peer = client;
        this.gateway.clients.add(this);
      })
      .onRequest("initialize", () => initializeResponse(connectionId));
  }

  addSessionMethods(app) {
    const { gateway } = this;
    return app
      .onRequest("session/new", ({ params }) => {
        const session = gateway.createSession(params.cwd);
        session.clients.add(this);
        gateway.notifyChanged(session);
        const availableCommands = Object.keys(SCENARIOS).map((name) => ({
          name,
          description: `Run the scenario “${name}”`,
          input: name === "long" ? { hint: "lines" } : null,
        }));
        gateway.update(session, { sessionUpdate: "available_commands_update", availableCommands });
        return { sessionId: session.id, configOptions: configOptions(session) };
      })
      .onRequest("session/load", async ({ params }) => {
        const session = gateway.findSession(params.sessionId);
        session.clients.add(this);
        for (const update of [...session.log]) {
          await this.peer.notify("session/update", { sessionId: session.id, update });
        }
        for (const { item, answer } of gateway.inbox.values()) {
          if (item.sessionId !== session.id) continue;
          this.peer.request(item.method, item.params).then(answer, () => undefined);
        }
        gateway.notifyChanged(session);
        return { configOptions: configOptions(session) };
      })
      .onRequest("session/delete", ({ params: { sessionId } }) => {
        gateway.sessions.delete(sessionId);
        gateway.notifySubscribers("sessions", { removed: { agent: AGENT, sessionId } });
        return {};
      })
      .onRequest("session/prompt", ({ params }) => {
        const session = gateway.findSession(params.sessionId);
        if (session.turn) throw new acp.RequestError(-32600, "a turn is running in this session");
        return gateway.runTurn(session, params.prompt, this);
      })
      .onRequest("session/set_config_option", ({ params }) => {
        const session = gateway.findSession(params.sessionId);
        session[params.configId] = params.value;
        return { configOptions: configOptions(session) };
      })
      .onRequest(
        "_session/steering",
        (params) => params,
        ({ params }) =>
          gateway.findSession(params.sessionId).turn
            ? { outcome: "injected" }
            : { outcome: "promptRequired", reason: "noRunningTurn" },
      )
      .onNotification("session/cancel", ({ params }) => {
        const session = gateway.sessions.get(params.sessionId);
        if (session?.turn) session.turn.cancelled = true;
      });
  }

  addGatewayMethods(app) {
    const { gateway } = this;
    const anyParams = (params) => params ?? {};
    return app
      .onRequest("_accord/agents", anyParams, () => {
        const description = "Runs scenarios for the page";
        return { agents: [{ name: AGENT, title: "Mock agent", description, default: true, state: "ready" }] };
      })
      .onRequest("_accord/sessions", anyParams, ({ params }) => {
        if (params.subscribe) this.subscriptions.add("sessions");
        return { sessions: [...gateway.sessions.values()].map((session) => gateway.sessionInfo(session)) };
      })
      .onRequest("_accord/inbox", anyParams, ({ params }) => {
        if (params.subscribe) this.subscriptions.add("inbox");
        return { items: [...gateway.inbox.values()].map((entry) => entry.item) };
      })
      .onRequest("_accord/inbox/answer", anyParams, ({ params }) => {
        const accepted = gateway.inbox.get(params.id)?.answer(params.result);
        if (!accepted) throw new acp.RequestError(-32002, "this request is no longer pending");
        return {};
      })
      .onRequest("_accord/files", anyParams, ({ params }) => {
        const { cwd } = gateway.findSession(params.sessionId);
        const names = FILES.filter((name) => name.includes(params.query));
        return { files: names.map((name) => ({ path: `${cwd}/${name}`, name })) };
      })
      .onRequest("_accord/folders", anyParams, ({ params }) => listFolders(params.path ?? process.cwd()))
      .onRequest("_accord/terminal/output", anyParams, () => {
        return { output: TERMINAL_OUTPUT, truncated: false, exitStatus: { exitCode: 1 } };
      });
  }
}

function initializeResponse(connectionId) {
  const gateway = { version: 1, agent: AGENT };
  const resume = { version: 1, connectionId };
  return {
    protocolVersion: 1,
    agentInfo: { name: AGENT, title: "Mock agent", version: "1" },
    authMethods: [],
    _meta: { steering: { supported: true } },
    agentCapabilities: {
      loadSession: true,
      promptCapabilities: { image: true, embeddedContext: true },
      sessionCapabilities: { list: {}, delete: {} },
      _meta: { accord: { gateway, resume, inbox: {}, sessions: {}, files: {} } },
    },
  };
}

function configOptions(session) {
  const mode = { id: "mode", name: "Mode", category: "mode", type: "select", options: MODES };
  return [
    { ...mode, currentValue: session.mode },
    { id: "effort", name: "Think hard", type: "boolean", currentValue: session.effort },
  ];
}

function listFolders(path) {
  const entries = readdirSync(path, { withFileTypes: true });
  const names = entries.filter((entry) => entry.isDirectory() && !entry.name.startsWith("."));
  return {
    path,
    parent: path === "/" ? undefined : dirname(path),
    folders: names.map(({ name }) => ({ path: join(path, name), name })),
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const index = process.argv.indexOf("--port");
  const { port } = await serve(index < 0 ? 8790 : Number(process.argv[index + 1]));
  console.log(`http://127.0.0.1:${port}/`);
}
