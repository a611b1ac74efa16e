// The agent of version 2 on the official TypeScript SDK, served over streamable HTTP and WebSocket.
// Its first output line is the port.
import { createServer } from "node:http";

import { official } from "../../interop/peers/official_ts_sdk.mjs";
import { agent } from "./official_ts_agent_v2.mjs";

const { AcpServer } = await official("@agentclientprotocol/sdk/experimental/server");
const { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } = await official(
  "@agentclientprotocol/sdk/experimental/node",
);
const { WebSocketServer } = (await official("ws")).default;

const server = new AcpServer({ agent });
const http = createServer(createNodeHttpHandler(server));
http.on("upgrade", createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
http.listen(0, "127.0.0.1", () => console.log(http.address().port));
process.stdin.on("end", () => process.exit()).resume();
