// One turn with any agent, with a client on the official TypeScript SDK. Prints the agent's text.
// Usage: official_ts_client.mjs FOLDER PROMPT [--allow | --reject] [--session ID] -- AGENT [ARGUMENT ...]
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";

import { acp } from "../../interop/peers/official_ts_sdk.mjs";
import { Terminal } from "../../interop/peers/official_ts_terminal.mjs";

const words = process.argv.slice(2);
const place = words.indexOf("--");
const [folder, prompt, ...options] = words.slice(0, place);
const [command, ...args] = words.slice(place + 1);
const methods = acp.methods;
const terminals = new Map();

const client = acp
  .client({ name: "official-typescript" })
  .onNotification(methods.client.session.update, ({ params }) => {
    const { sessionUpdate, content } = params.update;
    if (sessionUpdate === "agent_message_chunk" && content.type === "text") process.stdout.write(content.text);
  })
  .onRequest(methods.client.session.requestPermission, ({ params }) => {
    const wanted = options.includes("--allow") ? "allow_once" : "reject_once";
    const option = params.options.find(({ kind }) => kind === wanted);
    if (!option) return { outcome: { outcome: "cancelled" } };
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .onRequest(methods.client.fs.readTextFile, ({ params: { path, line, limit } }) => {
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
  .onRequest(methods.client.fs.writeTextFile, ({ params: { path, content } }) => writeFileSync(path, content))
  .onRequest(methods.client.terminal.create, ({ params }) => {
    const terminalId = `terminal-${terminals.size + 1}`;
    terminals.set(terminalId, new Terminal(params));
    return { terminalId };
  })
  .onRequest(methods.client.terminal.output, ({ params }) => terminals.get(params.terminalId).output())
  .onRequest(methods.client.terminal.waitForExit, ({ params }) => terminals.get(params.terminalId).ended)
  .onRequest(methods.client.terminal.kill, ({ params }) => terminals.get(params.terminalId).kill())
  .onRequest(methods.client.terminal.release, ({ params }) => {
    terminals.get(params.terminalId).kill();
    terminals.delete(params.terminalId);
  })
  .onRequest(methods.client.elicitation.create, () => ({ action: "decline" }));

const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const { agent } = client.connect(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));

try {
  const begun = await agent.request(methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {
      fs: { readTextFile: true, writeTextFile: true },
      terminal: true,
      elicitation: { form: {} },
    },
    clientInfo: { name: "official-typescript", version: "1" },
  });
  if (begun.protocolVersion !== acp.PROTOCOL_VERSION) throw new Error(`it speaks version ${begun.protocolVersion}`);
  const folders = { cwd: folder, mcpServers: [] };
  const old = options.includes("--session") ? options[options.indexOf("--session") + 1] : undefined;
  let sessionId = old;
  if (old === undefined) ({ sessionId } = await agent.request(methods.agent.session.new, folders));
  else if (begun.agentCapabilities?.loadSession) await agent.request(methods.agent.session.load, { sessionId: old, ...folders });
  else throw new Error("it loads no sessions");
  const answer = await agent.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text: prompt }] });
  process.stdout.write(`\n${answer.stopReason}\n`);
  child.stdin.end();
} catch (error) {
  process.stderr.write(`the turn failed: ${error.message}\n`);
  child.kill();
  process.exitCode = 1;
}
