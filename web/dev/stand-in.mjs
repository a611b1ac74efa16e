/**
 * A gateway to develop against: the page's server, `/api`, and `/acp` with the vendor methods, resuming included.
 * One agent, played by scenes.mjs. It lets everyone in, so it listens on loopback only.
 *
 *   npm run build && npm run stand-in -- --port 8790
 */
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { readdirSync } from "node:fs";
import { dirname, extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { WebSocketServer } from "ws";
import * as acp from "@agentclientprotocol/sdk";
import { ServedLine } from "./line.mjs";
import { OUTPUT, SCENES } from "./scenes.mjs";

const PAGE = join(dirname(fileURLToPath(import.meta.url)), "../../src/accord/gateway/page");
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
  "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml" };
const AGENT = "stand-in";
const MODES = [
  { value: "ask", name: "Ask" },
  { value: "code", name: "Code" },
];

export function serve(port = 0) {
  const sessions = new Map();
  const visitors = new Set();
  const lines = new Map();
  let counter = 0;

  const listed = (session) => ({
    agent: AGENT,
    sessionId: session.id,
    cwd: session.cwd,
    title: session.title,
    updatedAt: session.updatedAt,
    state: session.turn ? (session.asking > 0 ? "waiting" : "running") : "idle",
    clients: session.attached.size,
    live: true,
  });
  const tell = (method, params) => {
    for (const visitor of visitors) if (visitor.subscribed.has(method)) void visitor.client.notify(`_accord/${method}`, params);
  };
  const changed = (session) => tell("sessions", { changed: listed(session) });
  const inbox = new Map();

  function update(session, item, except) {
    session.log.push(item);
    for (const visitor of session.attached) {
      if (visitor !== except) void visitor.client.notify("session/update", { sessionId: session.id, update: item });
    }
  }

  /** Asks everyone who is attached, and the inbox; the first answer counts. */
  function ask(session, method, params) {
    return new Promise((resolve) => {
      const id = `q${++counter}`;
      const given = new AbortController();
      const item = { id, agent: AGENT, sessionId: session.id, cwd: session.cwd, title: session.title, method, params, since: new Date().toISOString() };
      const answer = (result) => {
        if (!inbox.delete(id)) return false;
        session.asking -= 1;
        given.abort();
        tell("inbox", { removed: { id, reason: "answered" } });
        changed(session);
        resolve(result);
        return true;
      };
      inbox.set(id, { item, answer });
      session.asking += 1;
      changed(session);
      tell("inbox", { added: item });
      for (const visitor of session.attached) {
        visitor.client.request(method, params, { cancellationSignal: given.signal }).then(answer, () => undefined);
      }
    });
  }

  async function turn(session, prompt, visitor) {
    const said = prompt.map((block) => (block.type === "text" ? block.text : "")).join("");
    const words = said.trim().split(/\s+/);
    session.title ??= said.slice(0, 60);
    const play = SCENES[words[0]] ?? (async (part) => part.update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: `You said: ${said}` } }));
    for (const block of prompt) update(session, { sessionUpdate: "user_message_chunk", content: block }, visitor);
    const part = {
      cwd: session.cwd,
      number: ++counter,
      cancelled: false,
      update: (item) => update(session, item),
      permission: (params) => ask(session, "session/request_permission", { sessionId: session.id, ...params }),
      elicitation: (params) => ask(session, "elicitation/create", { sessionId: session.id, ...params }),
    };
    session.turn = part;
    session.updatedAt = new Date().toISOString();
    changed(session);
    await play(part, words);
    session.turn = null;
    const stopReason = part.cancelled ? "cancelled" : "end_turn";
    for (const other of session.attached) {
      if (other !== visitor) void other.client.notify("_accord/turn", { sessionId: session.id, state: "ended", stopReason });
    }
    changed(session);
    return { stopReason };
  }

  const any = (params) => params ?? {};
  const find = (sessionId) => {
    const session = sessions.get(sessionId);
    if (!session) throw new acp.RequestError(-32002, "there is no such session", { sessionId });
    return session;
  };

  function app(line) {
    const visitor = { client: null, subscribed: new Set() };
    const subscribe = (name, params) => {
      if (params.subscribe) visitor.subscribed.add(name);
    };
    const options = (session) => [
      { id: "mode", name: "Mode", category: "mode", type: "select", currentValue: session.mode, options: MODES },
      { id: "effort", name: "Think hard", type: "boolean", currentValue: session.effort },
    ];
    return acp
      .agent({ name: AGENT })
      .onConnect((connection) => {
        visitor.client = connection.client;
        visitors.add(visitor);
      })
      .onRequest("initialize", () => ({
        protocolVersion: 1,
        agentInfo: { name: AGENT, title: "Stand-in", version: "1" },
        authMethods: [],
        agentCapabilities: {
          loadSession: true,
          promptCapabilities: { image: true, embeddedContext: true },
          sessionCapabilities: { list: {}, delete: {} },
          _meta: { accord: { gateway: { version: 1, agent: AGENT }, resume: { version: 1, connectionId: line.id }, inbox: {}, sessions: {}, files: {} } },
        },
      }))
      .onRequest("session/new", ({ params }) => {
        const session = { id: `s${++counter}`, cwd: params.cwd, title: null, updatedAt: new Date().toISOString(), log: [], attached: new Set([visitor]), turn: null, asking: 0, mode: "ask", effort: false };
        sessions.set(session.id, session);
        changed(session);
        update(session, { sessionUpdate: "available_commands_update", availableCommands: Object.keys(SCENES).map((name) => ({ name, description: `Play the scene “${name}”`, input: name === "long" ? { hint: "lines" } : null })) });
        return { sessionId: session.id, configOptions: options(session) };
      })
      .onRequest("session/load", async ({ params }) => {
        const session = find(params.sessionId);
        session.attached.add(visitor);
        for (const item of [...session.log]) await visitor.client.notify("session/update", { sessionId: session.id, update: item });
        for (const { item, answer } of inbox.values()) {
          if (item.sessionId === session.id) visitor.client.request(item.method, item.params).then(answer, () => undefined);
        }
        changed(session);
        return { configOptions: options(session) };
      })
      .onRequest("session/delete", ({ params }) => {
        sessions.delete(params.sessionId);
        tell("sessions", { removed: { agent: AGENT, sessionId: params.sessionId } });
        return {};
      })
      .onRequest("session/prompt", ({ params }) => {
        const session = find(params.sessionId);
        if (session.turn) throw new acp.RequestError(-32600, "a turn is running in this session");
        return turn(session, params.prompt, visitor);
      })
      .onRequest("session/set_config_option", ({ params }) => {
        const session = find(params.sessionId);
        session[params.configId] = params.value;
        return { configOptions: options(session) };
      })
      .onRequest("_accord/agents", any, () => ({ agents: [{ name: AGENT, title: "Stand-in", description: "Plays scenes for the page", default: true, state: "ready" }] }))
      .onRequest("_accord/sessions", any, ({ params }) => {
        subscribe("sessions", params);
        return { sessions: [...sessions.values()].map(listed) };
      })
      .onRequest("_accord/inbox", any, ({ params }) => {
        subscribe("inbox", params);
        return { items: [...inbox.values()].map((entry) => entry.item) };
      })
      .onRequest("_accord/inbox/answer", any, ({ params }) => {
        if (!inbox.get(params.id)?.answer(params.result)) throw new acp.RequestError(-32002, "this is no longer waiting");
        return {};
      })
      .onRequest("_accord/files", any, ({ params }) => {
        const { cwd } = find(params.sessionId);
        const names = ["src/greet.py", "src/reader.py", "tests/test_reader.py", "README.md"].filter((name) => name.includes(params.query));
        return { files: names.map((name) => ({ path: `${cwd}/${name}`, name })) };
      })
      .onRequest("_accord/folders", any, ({ params }) => {
        const path = params.path ?? process.cwd();
        const folders = readdirSync(path, { withFileTypes: true }).filter((entry) => entry.isDirectory() && !entry.name.startsWith("."));
        return { path, parent: path === "/" ? undefined : dirname(path), folders: folders.map((entry) => ({ path: join(path, entry.name), name: entry.name })) };
      })
      .onRequest("_accord/terminal/output", any, () => ({ output: OUTPUT, truncated: false, exitStatus: { exitCode: 1 } }))
      .onNotification("session/cancel", ({ params }) => {
        const session = sessions.get(params.sessionId);
        if (session?.turn) session.turn.cancelled = true;
      });
  }

  const server = createServer(async (request, response) => {
    const path = new URL(request.url, "http://x").pathname;
    if (request.method === "POST" && path === "/api/ticket") {
      response.writeHead(200, { "content-type": "application/json" }).end('{"ticket":"anyone"}');
      return;
    }
    if (request.method === "POST") {
      response.writeHead(204).end();
      return;
    }
    const file = normalize(join(PAGE, path === "/" ? "index.html" : path));
    try {
      if (!file.startsWith(PAGE)) throw new Error("outside");
      const body = await readFile(file);
      response.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream", "content-security-policy": CSP }).end(body);
    } catch {
      response.writeHead(404).end("not found");
    }
  });
  const sockets = new WebSocketServer({ server });
  sockets.on("connection", (socket) => {
    socket.once("message", (data) => {
      const first = JSON.parse(String(data));
      if (first.method === "_accord/resume") {
        const line = lines.get(first.params.connectionId);
        if (line) line.resume(socket, first);
        else socket.send(JSON.stringify({ jsonrpc: "2.0", id: first.id, error: { code: -32002, message: "no such connection" } }));
        return;
      }
      const line = new ServedLine(`c${++counter}`);
      lines.set(line.id, line);
      line.take(socket);
      app(line).connect(line);
      line.came(String(data));
    });
  });
  return new Promise((resolve) => {
    server.listen(port, "127.0.0.1", () => {
      const close = () => {
        for (const socket of sockets.clients) socket.terminate();
        server.closeAllConnections();
        server.close();
      };
      resolve({ port: server.address().port, lines, sockets: () => sockets.clients, close });
    });
  });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const index = process.argv.indexOf("--port");
  const { port } = await serve(index < 0 ? 8790 : Number(process.argv[index + 1]));
  console.log(`http://127.0.0.1:${port}/`);
}
