// An agent of the draft of version 2 on the official TypeScript SDK. The first word of a prompt selects what it does.
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";

import { official } from "../../interop/peers/official_ts_sdk.mjs";

const acp = await official("@agentclientprotocol/sdk/experimental/v2");
const { agent: served, client: called } = acp.methods;
const sessions = new Map();
let opened = 0;

function find(sessionId) {
  const session = sessions.get(sessionId);
  if (!session) throw new acp.RequestError(-32002, "unknown session", { sessionId });
  return session;
}

const optionsOf = (session) => [
  {
    type: "select",
    configId: "color",
    name: "Color",
    currentValue: session.color,
    options: ["red", "blue"].map((value) => ({ value, name: value })),
  },
];
const text = (value) => ({ type: "text", text: value });

async function ask(client, session, signal, file) {
  const send = (update) => client.notify(called.session.update, { sessionId: session.id, update });
  await send({ sessionUpdate: "state_update", state: "requires_action" });
  const options = [
    { optionId: "allow", name: "Allow", kind: "allow_once" },
    { optionId: "reject", name: "Reject", kind: "reject_once" },
  ];
  const { outcome } = await client.request(
    called.session.requestPermission,
    { sessionId: session.id, title: `write ${file}`, options },
    { cancellationSignal: signal },
  );
  await send({ sessionUpdate: "state_update", state: "running" });
  if (outcome.outcome === "selected" && outcome.optionId === "allow") await writeFile(join(session.cwd, file), "made\n");
}

async function work(client, session, words) {
  const send = (update) => client.notify(called.session.update, { sessionId: session.id, update });
  const { signal } = (session.stopping = new AbortController());
  await send({ sessionUpdate: "state_update", state: "running" });
  switch (words[0]) {
    case "busy":
      await send({ sessionUpdate: "tool_call_update", toolCallId: "b", title: "busy", status: "in_progress" });
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      break;
    case "ask":
      await ask(client, session, signal, words[1]).catch(() => {});
      break;
    default: {
      const messageId = `${session.id}-${session.messages.length}`;
      session.messages.push({ sessionUpdate: "agent_message", messageId, content: [text("hello")] });
      await send({ sessionUpdate: "agent_message_chunk", messageId, content: text("hello") });
    }
  }
  session.stopping = undefined;
  await send({
    sessionUpdate: "state_update",
    state: "idle",
    stopReason: signal.aborted ? "cancelled" : "end_turn",
  });
  session.held.shift()?.resolve();
}

export const agent = acp
  .agent({ name: "ts-v2" })
  .onRequest(served.initialize, () => ({
    protocolVersion: 2,
    info: { name: "ts-v2", version: "1.0.0" },
    capabilities: { session: { prompt: {}, mcp: { stdio: {} }, delete: {}, additionalDirectories: {} } },
  }))
  .onRequest(served.session.new, ({ params }) => {
    acp.assertSupportedMcpServers(params.mcpServers, { stdio: {} });
    const session = { id: `s${++opened}`, cwd: params.cwd, color: "red", messages: [], held: [] };
    sessions.set(session.id, session);
    return { sessionId: session.id, configOptions: optionsOf(session) };
  })
  .onRequest(served.session.list, ({ params }) => ({
    sessions: [...sessions.values()]
      .filter(({ cwd }) => cwd === (params.cwd ?? cwd))
      .map(({ id, cwd }) => ({ sessionId: id, cwd })),
  }))
  .onRequest(served.session.resume, async ({ params, client }) => {
    const session = find(params.sessionId);
    const send = (update) => client.notify(called.session.update, { sessionId: session.id, update });
    if (params.replayFrom && params.replayFrom.type !== "start") throw acp.RequestError.invalidParams();
    for (const update of params.replayFrom ? session.messages : []) await send(update);
    await send({ sessionUpdate: "state_update", state: "idle" });
    return { configOptions: optionsOf(session) };
  })
  .onRequest(served.session.close, async ({ params }) => {
    const session = find(params.sessionId);
    session.stopping?.abort();
    while (session.stopping) await new Promise(setImmediate);
    return {};
  })
  .onRequest(served.session.delete, ({ params }) => {
    sessions.delete(params.sessionId);
    return {};
  })
  .onRequest(served.session.setConfigOption, ({ params }) => {
    const session = find(params.sessionId);
    if (params.configId !== "color" || !["red", "blue"].includes(params.value)) throw acp.RequestError.invalidParams();
    session.color = params.value;
    return { configOptions: optionsOf(session) };
  })
  .onRequest(served.session.prompt, async ({ params, client, signal }) => {
    const session = find(params.sessionId);
    if (params.prompt.some(({ type }) => !["text", "resource_link"].includes(type))) throw acp.RequestError.invalidParams();
    if (session.stopping) {
      const held = {};
      const inserted = new Promise((resolve, reject) => Object.assign(held, { resolve, reject }));
      session.held.push(held);
      signal?.addEventListener("abort", () => held.reject(new acp.RequestError(-32800, "withdrawn")));
      try {
        await inserted;
      } finally {
        session.held = session.held.filter((one) => one !== held);
      }
    }
    const messageId = `${session.id}-${session.messages.length}`;
    const message = { sessionUpdate: "user_message", messageId, content: params.prompt };
    session.messages.push(message);
    await client.notify(called.session.update, { sessionId: session.id, update: message });
    work(client, session, params.prompt[0].text.split(" "));
    return { messageId };
  })
  .onNotification(served.session.cancel, ({ params }) => {
    const session = sessions.get(params.sessionId);
    for (const held of session?.held ?? []) held.reject(new acp.RequestError(-32800, "cancelled"));
    session?.stopping?.abort();
  });

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  agent.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
}
