/** Connections to the mock gateway over real sockets, which the tests terminate during turns. */
import type * as acp from "@agentclientprotocol/sdk";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocket as NodeSocket } from "ws";
import { serve } from "../dev/mock-gateway.mjs";
import { AgentConnection, type ConnectionListener } from "../src/wire/agent-connection.ts";
import type { Socket } from "../src/wire/resumable-socket.ts";

let gateway: Awaited<ReturnType<typeof serve>>;
let sockets: NodeSocket[] = [];
const connections: AgentConnection[] = [];

beforeEach(async () => {
  gateway = await serve(0);
  sockets = [];
});
afterEach(() => {
  for (const connection of connections.splice(0)) connection.close();
  for (const socket of sockets) socket.terminate();
  gateway.close();
});

class RecordingListener implements ConnectionListener {
  readonly lines: string[] = [];
  readonly states: string[] = [];
  readonly turns: string[] = [];
  onLine: (() => void) | undefined;
  onClosed: (() => void) | undefined;

  sessionUpdated(_: AgentConnection, __: string, update: acp.SessionUpdate): void {
    if (update.sessionUpdate === "agent_message_chunk" && update.content.type === "text") {
      this.lines.push(update.content.text.trim());
      this.onLine?.();
    }
  }
  turnChanged(_: AgentConnection, change: { state: string }): void {
    this.turns.push(change.state);
  }
  terminalChanged(): void {}
  sessionChanged(): void {}
  sessionRemoved(): void {}
  inboxAdded(): void {}
  inboxRemoved(): void {}
  permissionRequested = (): Promise<acp.RequestPermissionResponse> =>
    Promise.resolve({ outcome: { outcome: "selected", optionId: "no" } });
  elicitationRequested = (): Promise<acp.CreateElicitationResponse> => Promise.resolve({ action: "decline" });
  questionAsked = (): Promise<Record<string, unknown>> => Promise.resolve({ answer: "x" });
  elicitationCompleted(): void {}
  stateChanged(_: AgentConnection, state: string): void {
    this.states.push(state);
  }
  connectionClosed(): void {
    this.onClosed?.();
  }
}

function openSocket(): Promise<Socket> {
  const socket = new NodeSocket(`ws://127.0.0.1:${gateway.port}/acp`);
  sockets.push(socket);
  return Promise.resolve(socket as unknown as Socket);
}

async function connect(listener: RecordingListener): Promise<AgentConnection> {
  const connection = await AgentConnection.open(null, listener, openSocket);
  connections.push(connection);
  return connection;
}

async function createSession(connection: AgentConnection): Promise<string> {
  return (await connection.request("session/new", { cwd: "/tmp", mcpServers: [] })).sessionId;
}

const storyLines = (count: number) =>
  Array.from({ length: count }, (_, index) => `Line ${index + 1} of the story.`);

test("completes a turn over three lost sockets without losing or repeating updates", async () => {
  const listener = new RecordingListener();
  const connection = await connect(listener);
  const sessionId = await createSession(connection);
  listener.onLine = () => {
    if ([5, 20, 33].includes(listener.lines.length)) sockets.at(-1)?.terminate();
  };
  const response = await connection.request("session/prompt", {
    sessionId,
    prompt: [{ type: "text", text: "long 40 1" }],
  });
  expect(response.stopReason).toBe("end_turn");
  expect(listener.lines).toEqual(storyLines(40));
  expect(sockets).toHaveLength(4);
  expect(listener.states).toContain("waiting");
});

test("closes when the gateway forgot the connection; a new connection can load the session", async () => {
  const listener = new RecordingListener();
  const connection = await connect(listener);
  const sessionId = await createSession(connection);
  await connection.request("session/prompt", { sessionId, prompt: [{ type: "text", text: "long 3 0" }] });
  const closed = new Promise<void>((resolve) => (listener.onClosed = resolve));
  gateway.connections.clear();
  sockets.at(-1)?.terminate();
  await closed;
  const newListener = new RecordingListener();
  const newConnection = await connect(newListener);
  await newConnection.request("session/load", { sessionId, cwd: "/tmp", mcpServers: [] });
  expect(newListener.lines).toEqual(storyLines(3));
});

test("sends the same updates to two clients, and the end of the turn to the other one", async () => {
  const [ownListener, otherListener] = [new RecordingListener(), new RecordingListener()];
  const connection = await connect(ownListener);
  const sessionId = await createSession(connection);
  const other = await connect(otherListener);
  await other.request("session/load", { sessionId, cwd: "/tmp", mcpServers: [] });
  await connection.request("session/prompt", { sessionId, prompt: [{ type: "text", text: "long 5 0" }] });
  await other.callGateway("agents");
  expect(otherListener.lines).toEqual(ownListener.lines);
  expect(otherListener.turns).toEqual(["ended"]);
});

test("sends a message to the running turn, and learns that none runs", async () => {
  const listener = new RecordingListener();
  const connection = await connect(listener);
  expect(connection.canSteer).toBe(true);
  const sessionId = await createSession(connection);
  const message: acp.ContentBlock[] = [{ type: "text", text: "use tabs" }];
  expect(await connection.steer(sessionId, message)).toBe(false);
  const steered = new Promise<boolean>((resolve, reject) => {
    listener.onLine = () => {
      listener.onLine = undefined;
      connection.steer(sessionId, message).then(resolve, reject);
    };
  });
  await connection.request("session/prompt", { sessionId, prompt: [{ type: "text", text: "long 20 1" }] });
  expect(await steered).toBe(true);
});
