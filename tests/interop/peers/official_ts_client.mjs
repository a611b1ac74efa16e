// The scripted client on the official TypeScript SDK: runs script.json and prints what it observes.
// Usage: official_ts_client.mjs FOLDER AGENT [ARGUMENT ...]. Prints one JSON line per observation, in order.
// SCRIPT names another script. AGENT may be a URL; TOKEN is used for it.
import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync, writeSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { setImmediate as nextLoopIteration } from "node:timers/promises";

import { acp, official } from "./official_ts_sdk.mjs";
import { Terminal } from "./official_ts_terminal.mjs";

const scriptFile = new URL(process.env.SCRIPT ?? "script.json", import.meta.url);
const script = JSON.parse(readFileSync(scriptFile, "utf8"));
const [folder, command, ...args] = process.argv.slice(2);
const methods = acp.methods;

const waiting = { content: { type: "text", text: "waiting" } };

let scenario = "initialize";
let decision;
let forms = [];
let sessions = {};
const terminals = new Map();

// Replaces long texts by their length and hash.
function shorten(_, value) {
  if (typeof value !== "string" || value.length <= 10_000) return value;
  return { length: value.length, sha256: createHash("sha256").update(value).digest("hex") };
}

function report(what, more) {
  const line = Buffer.from(JSON.stringify({ scenario, what, ...more }, shorten) + "\n");
  for (let sent = 0; sent < line.length; ) sent += writeSync(1, line, sent);
}

// Whether a value has these members, nested objects included.
const fits = (value, wanted) =>
  typeof wanted === "object"
    ? Object.entries(wanted).every(([name, member]) => fits(value?.[name], member))
    : value === wanted;

// Report every fault that the SDK logs.
console.error = (...words) =>
  report("complaint", { text: words.map((word) => JSON.stringify(word)).join(" ") });

function request(method, { params }) {
  const { sessionId, ...rest } = params;
  report("request", { method, ...rest });
  return params;
}

const client = acp
  .client({ name: "official-typescript" })
  .onNotification(methods.client.session.update, ({ params }) => {
    // An attached session has its own queue; this handles all other sessions.
    const attached = Object.values(sessions).find(({ sessionId }) => sessionId === params.sessionId)?.active;
    if (!attached) report("update", { session: params.sessionId, update: params.update });
  })
  .onRequest(methods.client.session.requestPermission, async ({ params, agent }) => {
    report("permission", { tool_call: params.toolCall, options: params.options });
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
    report("form", { message: params.message, schema: params.requestedSchema });
    const content = forms.shift();
    return content === null ? { action: "decline" } : { action: "accept", content };
  })
  .onRequest(
    "_interop/reverse",
    (params) => params,
    ({ params }) => ({ text: [...params.text].reverse().join("") }),
  );

// Runs the steps of the scenarios.
function scenarioRunner(agent) {
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
      answer.catch(() => {}); // the queue reports it too
      while (true) {
        const message = await active.nextUpdate();
        if (message.kind === "stop") break;
        report("update", { session: sessionId, update: message.update });
        if (step.once_waiting && fits(message.update, step.once ?? waiting)) {
          meanwhile ??= runSteps(step.once_waiting);
        }
      }
      await meanwhile;
      return await answer;
    },

    async together(step) {
      await Promise.all(step.prompts.map((prompt) => runSteps([{ do: "prompt", ...prompt }])));
    },

    cancel: (step) => agent.notify(methods.agent.session.cancel, { sessionId: idOf(step) }),
    set_mode: (step) => call(methods.agent.session.setMode, { sessionId: idOf(step), modeId: step.mode }),
    set_config: (step) =>
      call(methods.agent.session.setConfigOption, {
        sessionId: idOf(step),
        configId: step.option,
        value: step.value,
      }),

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
      if (!offers.sessionCapabilities?.delete) return report("not-offered", { to: "delete" });
      return await call(methods.agent.session.delete, { sessionId: idOf(step) });
    },

    async leave() {
      child.stdin.end();
    },

    authenticate: (step) => call(methods.agent.authenticate, { methodId: step.method }),
    extension: (step) => call(step.method, step.params),
  };

  let offers;

  // From now on the notification handler gets the session's updates.
  function detach(session) {
    session.active?.dispose();
    session.active = undefined;
  }

  // A response may be delivered before earlier notifications; one iteration of the event loop handles them.
  const settled = (answer) => answer.finally(nextLoopIteration);

  async function runSteps(steps) {
    for (const step of steps) {
      try {
        const result = await actions[step.do](step);
        if (result !== undefined) report("answer", { to: step.do, result });
      } catch (error) {
        const { code = null, message, data } = error;
        report("error", { to: step.do, code, type: error.name, message, data });
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
    report("answer", { to: "initialize", result: answer });
    for (const [name, { permission, steps }] of Object.entries(script.scenarios)) {
      scenario = name;
      sessions = {};
      decision = permission;
      forms = [script.filled_in, null];
      await runSteps(steps);
      Object.values(sessions).forEach(detach);
    }
  };
}

// Connects to an agent behind a URL.
async function connectRemote(url) {
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
  await scenarioRunner(client.connect(await connectRemote(command)).agent)();
  process.exit(0);
}
child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const exited = new Promise((resolve) => child.on("exit", (code, signal) => resolve({ code, signal })));
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const connection = client.connect(stream);
await scenarioRunner(connection.agent)();
scenario = "end";
const { code } = await exited;
report("exit", { code });
