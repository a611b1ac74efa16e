// A client of version 2 on the official TypeScript SDK that provides an MCP server. Prints the text of one turn.
// Usage: node official_ts_mcp_client.mjs FOLDER PROMPT COMMAND...
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

import { official } from "./official_ts_sdk.mjs";

const acp = await official("@agentclientprotocol/sdk/experimental/v2/unstable");
const { agent: served, client: called } = acp.methods;
const [folder, prompt, command, ...words] = process.argv.slice(2);
const child = spawn(command, words, { stdio: ["pipe", "pipe", "inherit"] });

const tool = { name: "echo", description: "repeats a word", inputSchema: { type: "object" } };
const results = {
  "server/discover": {
    resultType: "complete",
    supportedVersions: [acp.MCP_PROTOCOL_VERSION],
    capabilities: { tools: {} },
    serverInfo: { name: "editor", version: "1" },
  },
  "tools/list": { resultType: "complete", ttlMs: 0, cacheScope: "private", tools: [tool] },
};
const handler = ({ method }) =>
  method in results ? { result: results[method] } : { error: { code: -32601, message: "Method not found" } };

let text = "";
let finish;
const finished = new Promise((resolve) => (finish = resolve));
const provider = new acp.McpOverAcpProvider();

await acp
  .client({ name: "ts-mcp-client" })
  .onRequest(called.mcp.message, provider.handleRequest)
  .onNotification(called.session.update, ({ params: { update } }) => {
    if (update.sessionUpdate === "agent_message_chunk") text += update.content.text;
    if (update.sessionUpdate === "state_update" && update.state === "idle") finish();
  })
  .connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (agent) => {
    const info = { name: "ts-mcp-client", version: "1.0.0" };
    await agent.request(served.initialize, { protocolVersion: 2, info, capabilities: {} });
    const { declaration } = provider.registerServer(agent, { name: "editor", handler });
    const { sessionId } = await agent.request(served.session.new, { cwd: folder, mcpServers: [declaration] });
    await agent.request(served.session.prompt, { sessionId, prompt: [{ type: "text", text: prompt }] });
    await finished;
  });
console.log(text);
child.kill();
process.exit(0);
