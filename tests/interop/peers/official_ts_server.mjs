// The scripted agent on the official TypeScript SDK, served over streamable HTTP and WebSocket.
// Usage: official_ts_server.mjs. Its first output line is the port.
import { createServer } from "node:http";

import { scripted } from "./official_ts_agent.mjs";
import { official } from "./official_ts_sdk.mjs";

const { AcpServer } = await official("@agentclientprotocol/sdk/experimental/server");
const { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } = await official(
  "@agentclientprotocol/sdk/experimental/node",
);
const { WebSocketServer } = (await official("ws")).default;

const server = new AcpServer({ agent: scripted });
const http = createServer(createNodeHttpHandler(server));
http.on("upgrade", createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
http.listen(0, "127.0.0.1", () => console.log(http.address().port));
process.on("SIGTERM", async () => {
  await server.close();
  http.close();
  http.closeAllConnections();
});
