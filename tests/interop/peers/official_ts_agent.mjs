// The scripted agent on the official TypeScript SDK: the first word of the prompt selects what it does.
// The words and their data are in script.json; all scripted agents know the same words.
import { createHash } from "node:crypto";
import { readFileSync, writeSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";

import { acp } from "./official_ts_sdk.mjs";

const script = JSON.parse(readFileSync(new URL("script.json", import.meta.url), "utf8"));
const methods = acp.methods;
const sessions = new Map();
let opened = 0;

const modesOf = (session) => ({ currentModeId: session.mode, availableModes: script.modes });
const optionsOf = (session) => [
  {
    type: "select",
    id: "model",
    name: "Model",
    category: "model",
    currentValue: session.model,
    options: script.models,
  },
];

function findSession(sessionId) {
  const session = sessions.get(sessionId);
  if (!session) throw acp.RequestError.sessionNotFound(sessionId);
  return session;
}

function open(sessionId) {
  const session = findSession(sessionId);
  if (!session.open) throw acp.RequestError.sessionNotFound(sessionId);
  return session;
}

class Turn {
  constructor(client, session, blocks) {
    this.client = client;
    this.session = session;
    this.blocks = blocks;
    const space = blocks[0].text.indexOf(" ");
    this.word = space < 0 ? blocks[0].text : blocks[0].text.slice(0, space);
    this.rest = space < 0 ? "" : blocks[0].text.slice(space + 1);
  }

  sendUpdate(update) {
    return this.client.notify(methods.client.session.update, { sessionId: this.session.id, update });
  }

  say(text) {
    const update = { sessionUpdate: "agent_message_chunk", content: { type: "text", text } };
    this.session.history.push(update);
    return this.sendUpdate(update);
  }

  sayJson(value) {
    return this.say(JSON.stringify(value));
  }

  call(method, params) {
    return this.client.request(method, { sessionId: this.session.id, ...params });
  }

  path(name) {
    return `${this.session.cwd}/${name}`;
  }
}

const codeOf = (promise) => promise.then(() => null, (error) => error.code ?? String(error));

const words = {
  async text(turn) {
    await turn.sendUpdate({
      sessionUpdate: "agent_thought_chunk",
      content: { type: "text", text: script.thought },
    });
    await turn.sendUpdate({ sessionUpdate: "plan", entries: script.plan });
    for (const piece of script.pieces) await turn.say(piece);
    await turn.sendUpdate({ sessionUpdate: "usage_update", ...script.usage });
    await turn.sendUpdate({ sessionUpdate: "session_info_update", title: script.title });
  },

  async tool(turn) {
    const { title, file, line, old, new: newText, input, output } = script.edit;
    const path = turn.path(file);
    const toolCallId = "edit-1";
    await turn.sendUpdate({
      sessionUpdate: "tool_call",
      toolCallId,
      title,
      kind: "edit",
      status: "pending",
      locations: [{ path, line }],
      rawInput: input,
    });
    await turn.sendUpdate({ sessionUpdate: "tool_call_update", toolCallId, status: "in_progress" });
    const diff = { type: "diff", path, oldText: old, newText };
    await turn.sendUpdate({ sessionUpdate: "tool_call_update", toolCallId, content: [diff] });
    await turn.sendUpdate({
      sessionUpdate: "tool_call_update",
      toolCallId,
      status: "completed",
      rawOutput: output,
    });
  },

  async permission(turn) {
    const { title, options } = script.danger;
    const toolCallId = "danger-1";
    const change = (status) => turn.sendUpdate({ sessionUpdate: "tool_call_update", toolCallId, status });
    await turn.sendUpdate({
      sessionUpdate: "tool_call",
      toolCallId,
      title,
      kind: "delete",
      status: "pending",
    });
    const { outcome } = await turn.call(methods.client.session.requestPermission, {
      toolCall: { toolCallId, title },
      options,
    });
    if (outcome.outcome === "cancelled") {
      await change("failed");
      return turn.session.cancelled.aborted ? "cancelled" : "end_turn";
    }
    if (outcome.optionId === options[0].optionId) {
      await change("in_progress");
      await change("completed");
      await turn.say("allowed");
    } else {
      await change("failed");
      await turn.say("rejected");
    }
  },

  async files(turn) {
    const { read, line, limit, write, text, missing } = script.files;
    const one = await turn.call(methods.client.fs.readTextFile, { path: turn.path(read), line, limit });
    await turn.call(methods.client.fs.writeTextFile, { path: turn.path(write), content: text });
    const written = await turn.call(methods.client.fs.readTextFile, { path: turn.path(write) });
    const code = await codeOf(turn.call(methods.client.fs.readTextFile, { path: turn.path(missing) }));
    await turn.sayJson({ line: one.content, written: written.content, missing: code });
  },

  async terminal(turn) {
    const create = (name) => {
      const { command, args, env = {}, limit } = script.commands_to_run[name];
      return turn.client.createTerminal({
        sessionId: turn.session.id,
        command,
        args,
        env: Object.entries(env).map(([name, value]) => ({ name, value })),
        cwd: turn.session.cwd,
        ...(limit === undefined ? {} : { outputByteLimit: limit }),
      });
    };
    const failing = await create("failing");
    await turn.sendUpdate({
      sessionUpdate: "tool_call",
      toolCallId: "run-1",
      title: "Run",
      kind: "execute",
      status: "in_progress",
      content: [{ type: "terminal", terminalId: failing.id }],
    });
    const status = await failing.waitForExit();
    const printed = await failing.currentOutput();
    await failing.release();
    await turn.sendUpdate({ sessionUpdate: "tool_call_update", toolCallId: "run-1", status: "completed" });

    const wordy = await create("wordy");
    await wordy.waitForExit();
    const cut = await wordy.currentOutput();
    await wordy.release();

    const endless = await create("endless");
    const running = await endless.currentOutput();
    await endless.kill();
    const killed = await endless.waitForExit();
    const atLast = await endless.currentOutput();
    await endless.release();
    await turn.sayJson({
      exit_code: status.exitCode,
      output: printed.output,
      truncated: printed.truncated,
      exit_code_in_output: printed.exitStatus?.exitCode ?? null,
      cut: [cut.output, cut.truncated],
      still_running: (running.exitStatus ?? null) === null,
      killed: [killed.exitCode ?? null, killed.signal ?? null],
      over: (atLast.exitStatus ?? null) !== null,
    });
  },

  async "cancel-me"(turn) {
    const toolCallId = "long-1";
    const title = "A long job";
    await turn.sendUpdate({
      sessionUpdate: "tool_call",
      toolCallId,
      title,
      kind: "execute",
      status: "in_progress",
    });
    const cancelled = new Promise((resolve) => turn.session.cancelled.addEventListener("abort", resolve));
    await turn.say("waiting");
    await cancelled;
    await turn.sendUpdate({ sessionUpdate: "tool_call_update", toolCallId, status: "failed" });
    return "cancelled";
  },

  mode: (turn) => turn.say(turn.session.mode),

  async "change-mode"(turn) {
    turn.session.mode = "ask";
    await turn.sendUpdate({ sessionUpdate: "current_mode_update", currentModeId: "ask" });
  },

  model: (turn) => turn.say(turn.session.model),

  async "change-model"(turn) {
    turn.session.model = "small";
    await turn.sendUpdate({ sessionUpdate: "config_option_update", configOptions: optionsOf(turn.session) });
  },

  echo: (turn) => turn.say(turn.rest),

  async big(turn) {
    const bulk = turn.blocks[1].text;
    await turn.sayJson({ length: bulk.length, sha256: createHash("sha256").update(bulk).digest("hex") });
    await turn.say(script.bulk.repeat(bulk.length / script.bulk.length));
  },

  async blocks(turn) {
    const blocks = turn.blocks.slice(1);
    await turn.sayJson(blocks);
    for (const content of blocks) await turn.sendUpdate({ sessionUpdate: "agent_message_chunk", content });
  },

  async form(turn) {
    const { message, properties, required } = script.form;
    const ask = () =>
      turn.call(methods.client.elicitation.create, {
        mode: "form",
        message,
        requestedSchema: { type: "object", properties, required },
      });
    await turn.sayJson([await ask(), await ask()]);
  },

  async extensions(turn) {
    const { text } = await turn.client.request("_interop/reverse", { text: "abc" });
    await turn.sayJson({ reversed: text, unknown: await codeOf(turn.client.request("_interop/nope", {})) });
  },

  refuse() {
    const { code, message, data } = script.refusal;
    throw new acp.RequestError(code, message, data);
  },

  fail() {
    throw new Error("a fault in the agent");
  },

  async crash(turn) {
    await turn.say("going down");
    writeSync(2, script.stderr_text + "\n");
    process.exit(script.exit_code);
  },
};

export const scripted = acp
  .agent({ name: "scripted" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    agentCapabilities: {
      loadSession: true,
      promptCapabilities: { image: true, embeddedContext: true },
      sessionCapabilities: { list: {}, resume: {}, close: {}, delete: {} },
    },
    authMethods: [script.sign_in],
    agentInfo: script.agent,
  }))
  .onRequest(methods.agent.authenticate, ({ params }) => {
    if (params.methodId !== script.sign_in.id) {
      throw acp.RequestError.invalidParams({ methodId: params.methodId });
    }
  })
  .onRequest(methods.agent.session.new, ({ params, client }) => {
    const id = `session-${++opened}`;
    const session = { id, cwd: params.cwd, mode: "ask", model: "small", open: true, history: [] };
    sessions.set(id, session);
    // Sent after the response, in a later iteration of the event loop.
    setImmediate(() =>
      client.notify(methods.client.session.update, {
        sessionId: id,
        update: { sessionUpdate: "available_commands_update", availableCommands: script.commands },
      }),
    );
    return { sessionId: id, modes: modesOf(session), configOptions: optionsOf(session) };
  })
  .onRequest(methods.agent.session.load, async ({ params, client }) => {
    const session = findSession(params.sessionId);
    session.open = true;
    for (const update of session.history) {
      await client.notify(methods.client.session.update, { sessionId: session.id, update });
    }
    return { modes: modesOf(session), configOptions: optionsOf(session) };
  })
  .onRequest(methods.agent.session.resume, ({ params }) => {
    const session = findSession(params.sessionId);
    session.open = true;
    return { modes: modesOf(session), configOptions: optionsOf(session) };
  })
  .onRequest(methods.agent.session.list, ({ params }) => {
    // One session per page, so that clients have to read several pages.
    const stored = [...sessions.values()].filter(({ cwd }) => (params.cwd ?? cwd) === cwd);
    const start = Number(params.cursor ?? 0);
    const page = stored.slice(start, start + 1).map(({ id, cwd }) => ({ sessionId: id, cwd }));
    return start + 1 < stored.length ? { sessions: page, nextCursor: String(start + 1) } : { sessions: page };
  })
  .onRequest(methods.agent.session.close, ({ params }) => {
    open(params.sessionId).open = false;
  })
  .onRequest(methods.agent.session.delete, ({ params }) => {
    sessions.delete(params.sessionId);
  })
  .onRequest(methods.agent.session.setMode, ({ params }) => {
    open(params.sessionId).mode = params.modeId;
  })
  .onRequest(methods.agent.session.setConfigOption, ({ params }) => {
    const session = open(params.sessionId);
    session.model = params.value;
    return { configOptions: optionsOf(session) };
  })
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const session = open(params.sessionId);
    session.stopping = new AbortController();
    session.cancelled = session.stopping.signal;
    session.history.push({ sessionUpdate: "user_message_chunk", content: params.prompt[0] });
    const turn = new Turn(client, session, params.prompt);
    return { stopReason: (await words[turn.word](turn)) ?? "end_turn" };
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => open(params.sessionId).stopping?.abort())
  .onRequest(
    "_interop/reverse",
    (params) => params,
    ({ params }) => ({ text: [...params.text].reverse().join("") }),
  );

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  scripted.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
}
