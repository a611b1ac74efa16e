// An agent of version 2 on the official TypeScript SDK that calls a tool of its client's MCP server for each prompt.
import { Readable, Writable } from "node:stream";

import { official } from "./official_ts_sdk.mjs";

const acp = await official("@agentclientprotocol/sdk/experimental/v2/unstable");
const { agent: served, client: called } = acp.methods;
const caller = new acp.McpOverAcpCaller();
let server;
let turns = 0;

async function work(client, prompt) {
  const send = (update) => client.notify(called.session.update, { sessionId: "s", update });
  await send({ sessionUpdate: "state_update", state: "running" });
  const call = { name: prompt, arguments: { word: prompt } };
  const outcome = await caller.request(client, server.serverId, "tools/call", call);
  const text = outcome.error ? `error ${outcome.error.code}` : outcome.result.content[0].text;
  await send({ sessionUpdate: "agent_message_chunk", messageId: `a${turns}`, content: { type: "text", text } });
  await send({ sessionUpdate: "state_update", state: "idle", stopReason: "end_turn" });
}

acp
  .agent({ name: "ts-mcp" })
  .onRequest(served.initialize, () => ({
    protocolVersion: 2,
    info: { name: "ts-mcp", version: "1.0.0" },
    capabilities: { session: { mcp: { acp: {} } } },
  }))
  .onRequest(served.session.new, ({ params }) => {
    [server] = params.mcpServers;
    return { sessionId: "s" };
  })
  .onRequest(served.session.prompt, ({ params, client }) => {
    const messageId = `u${++turns}`;
    work(client, params.prompt[0].text);
    return { messageId };
  })
  .onNotification(served.mcp.message, caller.handleNotification)
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
