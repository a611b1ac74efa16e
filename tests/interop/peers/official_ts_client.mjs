// The scripted client on the official TypeScript SDK: plays every scene of script.json and prints what it observes.
// Usage: official_ts_client.mjs FOLDER AGENT [ARGUMENT ...]. One JSON line for each observation, in order. The variable SCRIPT
// names another script. AGENT may be an address; the variable TOKEN is for it.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync, writeSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { setImmediate as turnOfTheLoop } from "node:timers/promises";

import { acp, official } from "./official_ts_sdk.mjs";
import { Terminal } from "./official_ts_terminal.mjs";

const script = JSON.parse(readFileSync(new URL(process.env.SCRIPT ?? "script.json", import.meta.url), "utf8"));
const [folder, command, ...args] = process.argv.slice(2);
const methods = acp.methods;

const waiting = { content: { type: "text", text: "waiting" } };

let scene = "initialize";
let decision;
let forms = [];
let sessions = {};
const terminals = new Map();

// Long texts by their length and hash.
function short(_, value) {
  if (typeof value !== "string" || value.length <= 10_000) return value;
  return { length: value.length, sha256: createHash("sha256").update(value).digest("hex") };
}

function tell(what, more) {
  const line = Buffer.from(JSON.stringify({ scene, what, ...more }, short) + "\n");
  for (let sent = 0; sent < line.length; ) sent += writeSync(1, line, sent);
}

// Whether a value has these members, and those of its members theirs.
const fits = (value, wanted) =>
  typeof wanted === "object"
    ? Object.entries(wanted).every(([name, member]) => fits(value?.[name], member))
    : value === wanted;

// Whatever the SDK reports as a fault is an observation.
console.error = (...words) => tell("complaint", { text: words.map((word) => JSON.stringify(word)).join(" ") });

function request(method, { params }) {
  const { sessionId, ...told } = params;
  tell("request", { method, ...told });
  return params;
}

const client = acp
  .client({ name: "official-typescript" })
  .onNotification(methods.client.session.update, ({ params }) => {
    // A session that is attached has a queue of its own; this is for all others.
    const attached = Object.values(sessions).find(({ sessionId }) => sessionId === params.sessionId)?.active;
    if (!attached) tell("update", { session: params.sessionId, update: params.update });
  })
  .onRequest(methods.client.session.requestPermission, async ({ params, agent }) => {
    tell("permission", { tool_call: params.toolCall, options: params.options });
    if (decision === "cancel") {
      await agent.notify(methods.agent.session.cancel, { sessionId: params.sessionId });
      return { outcome: { outcome: "cancelled" } };
    }
    return { outcome: { outcome: "selected", optionId: decision } };
  })
  .onRequest(methods.client.fs.readTextFile, (context) => {
    const { path, line, limit } = request("fs/read_text_file", context);
    let text;
    try {
      text = readFileSync(path, "utf8");
    } catch {
      throw acp.RequestError.resourceNotFound(path);
    }
    const lines = text.split(/(?<=\n)/);
    const start = (line ?? 1) - 1;
    return { content: lines.slice(start, limit == null ? undefined : start + limit).join("") };
  })
  .onRequest(methods.client.fs.writeTextFile, (context) => {
    const { path, content } = request("fs/write_text_file", context);
    writeFileSync(path, content);
  })
  .onRequest(methods.client.terminal.create, (context) => {
    const params = request("terminal/create", context);
    const terminalId = `terminal-${terminals.size + 1}`;
    terminals.set(terminalId, new Terminal(params));
    return { terminalId };
  })
  .onRequest(methods.client.terminal.output, ({ params }) => terminals.get(params.terminalId).output())
  .onRequest(methods.client.terminal.waitForExit, ({ params }) => terminals.get(params.terminalId).ended)
  .onRequest(methods.client.terminal.kill, ({ params }) => terminals.get(params.terminalId).kill())
  .onRequest(methods.client.terminal.release, (context) => {
    terminals.get(request("terminal/release", context).terminalId).kill();
  })
  .onRequest(methods.client.elicitation.create, ({ params }) => {
    tell("form", { message: params.message, schema: params.requestedSchema });
    const content = forms.shift();
    return content === null ? { action: "decline" } : { action: "accept", content };
  })
  .onRequest("_interop/reverse", (params) => params, ({ params }) => ({ text: [...params.text].reverse().join("") }));

// How the steps of a scene are taken.
function player(agent) {
  const idOf = (step) => sessions[step.session ?? "main"]?.sessionId ?? step.session;
  const call = (method, params) => agent.request(method, params);
  const folders = { cwd: folder, mcpServers: [] };

  const actions = {
    async new(step) {
      const session = await agent.buildSession(folder).start();
      sessions[step.as ?? "main"] = { sessionId: session.sessionId, active: session };
      return session.newSessionResponse;
    },

    async prompt(step) {
      const prompt = [{ type: "text", text: step.text }, ...(step.with ?? []).map((name) => script[name])];
      if (step.bulk) prompt.push({ type: "text", text: script.bulk.repeat(step.bulk / script.bulk.length) });
      const { active, sessionId } = sessions[step.session ?? "main"];
      if (!active) return await settled(call(methods.agent.session.prompt, { sessionId, prompt }));
      let meanwhile;
      const answer = active.prompt(prompt);
      answer.catch(() => {}); // comes up in the queue as well
      while (true) {
        const message = await active.nextUpdate();
        if (message.kind === "stop") break;
        tell("update", { session: sessionId, update: message.update });
        if (step.once_waiting && fits(message.update, step.once ?? waiting)) meanwhile ??= play(step.once_waiting);
      }
      await meanwhile;
      return await answer;
    },

    async together(step) {
      await Promise.all(step.prompts.map((prompt) => play([{ do: "prompt", ...prompt }])));
    },

    cancel: (step) => agent.notify(methods.agent.session.cancel, { sessionId: idOf(step) }),
    set_mode: (step) => call(methods.agent.session.setMode, { sessionId: idOf(step), modeId: step.mode }),
    set_config: (step) =>
      call(methods.agent.session.setConfigOption, { sessionId: idOf(step), configId: step.option, value: step.value }),

    async list() {
      const found = [];
      let cursor;
      do {
        const page = await call(methods.agent.session.list, { cwd: folder, cursor });
        found.push(...page.sessions);
        cursor = page.nextCursor;
      } while (cursor != null);
      return { sessions: found };
    },

    async load(step) {
      detach(sessions.main);
      return await settled(call(methods.agent.session.load, { sessionId: idOf(step), ...folders }));
    },

    resume: (step) => call(methods.agent.session.resume, { sessionId: idOf(step), ...folders }),
    close: (step) => call(methods.agent.session.close, { sessionId: idOf(step) }),

    async delete(step) {
      if (!offers.sessionCapabilities?.delete) return tell("not-offered", { to: "delete" });
      return await call(methods.agent.session.delete, { sessionId: idOf(step) });
    },

    async leave() {
      child.stdin.end();
    },

    authenticate: (step) => call(methods.agent.authenticate, { methodId: step.method }),
    extension: (step) => call(step.method, step.params),
  };

  let offers;

  // From here on the session's updates come to the notification handler.
  function detach(session) {
    session.active?.dispose();
    session.active = undefined;
  }

  // An answer may overtake the notification handler; those that came before it are through after one turn of the loop.
  const settled = (answer) => answer.finally(turnOfTheLoop);

  async function play(steps) {
    for (const step of steps) {
      try {
        const result = await actions[step.do](step);
        if (result !== undefined) tell("answer", { to: step.do, result });
      } catch (error) {
        const { code = null, message, data } = error;
        tell("error", { to: step.do, code, type: error.name, message, data });
      }
    }
  }

  return async () => {
    const answer = await call(methods.agent.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: {
        fs: { readTextFile: true, writeTextFile: true },
        terminal: true,
        elicitation: { form: {} },
      },
      clientInfo: { name: "official-typescript", version: "1" },
    });
    offers = answer.agentCapabilities ?? {};
    tell("answer", { to: "initialize", result: answer });
    for (const [name, { permission, steps }] of Object.entries(script.scenes)) {
      scene = name;
      sessions = {};
      decision = permission;
      forms = [script.filled_in, null];
      await play(steps);
      Object.values(sessions).forEach(detach);
    }
  };
}

// The agent behind an address.
async function afar(url) {
  const headers = { Authorization: `Bearer ${process.env.TOKEN}` };
  if (url.startsWith("http")) {
    const { createHttpStream } = await official("@agentclientprotocol/sdk/experimental/http-client");
    return createHttpStream(url, { headers });
  }
  const { createWebSocketStream } = await official("@agentclientprotocol/sdk/experimental/ws-client");
  const { default: WebSocket } = await official("ws");
  return createWebSocketStream(url, { headers, WebSocket });
}

let child;
if (command.includes("://")) {
  await player(client.connect(await afar(command)).agent)();
  process.exit(0);
}
child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((resolve) => child.on("exit", (code, signal) => resolve({ code, signal })));
const connection = client.connect(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));
await player(connection.agent)();
scene = "end";
const { code } = await exited;
tell("exit", { code });
