// The throughput baseline: the WebSocket server of the official TypeScript SDK and a streaming agent
// in one process.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const home = createRequire(process.env.ACP_TS_HOME + "/package.json");
const official = (name) => import(pathToFileURL(home.resolve(name)).href);
const acp = await official("@agentclientprotocol/sdk");
const { AcpServer } = await official("@agentclientprotocol/sdk/experimental/server");
const { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } = await official(
  "@agentclientprotocol/sdk/experimental/node",
);
const { WebSocketServer } = (await official("ws")).default;

const update = acp.methods.client.session.update;
let sessions = 0;

async function prompt({ params, client }) {
  const { sessionId } = params;
  const job = JSON.parse(params.prompt[0].text);
  let last;
  for (let number = 0; number < job.count; number++) {
    const text = String(number).padEnd(40);
    const content = { type: "text", text };
    last = client.notify(update, { sessionId, update: { sessionUpdate: "agent_message_chunk", content } });
  }
  await last;
  return { stopReason: "end_turn" };
}

const agent = acp
  .agent({ name: "bench" })
  .onRequest(acp.methods.agent.initialize, () => ({ protocolVersion: 1, agentCapabilities: {} }))
  .onRequest(acp.methods.agent.session.new, () => ({ sessionId: `bench-${++sessions}` }))
  .onRequest(acp.methods.agent.session.prompt, prompt);
const server = new AcpServer({ agent });
const http = createServer(createNodeHttpHandler(server));
http.on("upgrade", createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
http.listen(0, "127.0.0.1", () => console.log(http.address().port));
