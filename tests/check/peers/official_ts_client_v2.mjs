// A client of the draft of version 2 on the official TypeScript SDK: one turn, whose text it prints.
// Usage: node official_ts_client_v2.mjs FOLDER PROMPT COMMAND..., or an address instead of the command.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

import { official } from "../../interop/peers/official_ts_sdk.mjs";

const acp = await official("@agentclientprotocol/sdk/experimental/v2");
const { agent: served, client: called } = acp.methods;
const [folder, prompt, command, ...words] = process.argv.slice(2).filter((word) => word !== "--");

let child;

async function open() {
  if (command.startsWith("ws:")) {
    const { createWebSocketStream } = await official("@agentclientprotocol/sdk/experimental/ws-client");
    return createWebSocketStream(command, { WebSocket: (await official("ws")).default });
  }
  if (command.startsWith("http:")) {
    const { createHttpStream } = await official("@agentclientprotocol/sdk/experimental/http-client");
    return createHttpStream(command);
  }
  child = spawn(command, words, { stdio: ["pipe", "pipe", "inherit"] });
  return acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
}

let text = "";
let finish;
const finished = new Promise((resolve) => (finish = resolve));

const app = acp
  .client({ name: "ts-v2-client" })
  .onRequest(called.session.requestPermission, ({ params }) => {
    const option = params.options.find(({ kind }) => kind === "allow_once") ?? params.options[0];
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onNotification(called.session.update, ({ params: { sessionId, update } }) => {
    if (sessionId !== opened) return;
    if (update.sessionUpdate === "agent_message_chunk" && update.content?.type === "text") text += update.content.text;
    if (update.sessionUpdate === "state_update" && update.state === "idle") finish(update);
  });

let opened;
let code = 0;
await app.connectWith(
  await open(),
  async (agent) => {
    await agent.request(served.initialize, {
      protocolVersion: 2,
      info: { name: "ts-v2-client", version: "1.0.0" },
      capabilities: {},
    });
    const { sessionId } = await agent.request(served.session.new, { cwd: folder });
    opened = sessionId;
    await agent.request(served.session.prompt, { sessionId, prompt: [{ type: "text", text: prompt }] });
    const idle = await finished;
    console.log(text);
    code = idle.stopReason === "error" ? 1 : 0;
  },
).catch((error) => {
  console.error(String(error?.message ?? error));
  code = 2;
});
child?.kill();
process.exit(code);
