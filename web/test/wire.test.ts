/** The page's connection, by the official SDK, against the stand-in: real sockets, cut in mid-turn. */
import type * as acp from "@agentclientprotocol/sdk";
import { afterEach, beforeEach, expect, test } from "vitest";
import { WebSocket as NodeSocket } from "ws";
import { AgentConnection, type Listener } from "../src/wire/connection.ts";
import type { Socket } from "../src/wire/line.ts";
import { serve } from "../dev/stand-in.mjs";

interface Served {
  close(): void;
  port: number;
  lines: Map<string, unknown>;
}

let served: Served;
let sockets: NodeSocket[] = [];
const open: AgentConnection[] = [];

beforeEach(async () => {
  served = (await serve(0)) as unknown as Served;
  sockets = [];
});
afterEach(() => {
  for (const connection of open.splice(0)) connection.close();
  for (const socket of sockets) socket.terminate();
  served.close();
});

class Ear implements Listener {
  readonly lines: string[] = [];
  readonly states: string[] = [];
  readonly turns: string[] = [];
  onLine: (() => void) | undefined;
  ending: (() => void) | undefined;

  update(_: AgentConnection, __: string, update: acp.SessionUpdate): void {
    if (update.sessionUpdate === "agent_message_chunk" && update.content.type === "text") {
      this.lines.push(update.content.text.trim());
      this.onLine?.();
    }
  }
  turn(_: AgentConnection, news: { state: string }): void {
    this.turns.push(news.state);
  }
  printed(): void {}
  sessionChanged(): void {}
  sessionRemoved(): void {}
  inboxAdded(): void {}
  inboxRemoved(): void {}
  permission = (): Promise<acp.RequestPermissionResponse> => Promise.resolve({ outcome: { outcome: "selected", optionId: "no" } });
  elicitation = (): Promise<acp.CreateElicitationResponse> => Promise.resolve({ action: "decline" });
  question = (): Promise<Record<string, unknown>> => Promise.resolve({ answer: "x" });
  elicitationDone(): void {}
  state(_: AgentConnection, state: string): void {
    this.states.push(state);
  }
  ended(): void {
    this.ending?.();
  }
}

function dial(): Promise<Socket> {
  const socket = new NodeSocket(`ws://127.0.0.1:${served.port}/acp`);
  sockets.push(socket);
  return Promise.resolve(socket as unknown as Socket);
}

async function connect(ear: Ear): Promise<AgentConnection> {
  const connection = await AgentConnection.open(null, ear, dial);
  open.push(connection);
  return connection;
}

async function begin(connection: AgentConnection): Promise<string> {
  return (await connection.request("session/new", { cwd: "/tmp", mcpServers: [] })).sessionId;
}

const told = (count: number) => Array.from({ length: count }, (_, index) => `Line ${index + 1} of the story.`);

test("a turn over three cut sockets loses nothing, doubles nothing, and ends", async () => {
  const ear = new Ear();
  const connection = await connect(ear);
  const sessionId = await begin(connection);
  ear.onLine = () => {
    if ([5, 20, 33].includes(ear.lines.length)) sockets.at(-1)?.terminate();
  };
  const answer = await connection.request("session/prompt", { sessionId, prompt: [{ type: "text", text: "long 40 1" }] });
  expect(answer.stopReason).toBe("end_turn");
  expect(ear.lines).toEqual(told(40));
  expect(sockets).toHaveLength(4);
  expect(ear.states).toContain("waiting");
});

test("a gateway that forgot the connection ends it, and the session can be loaded on a new one", async () => {
  const ear = new Ear();
  const connection = await connect(ear);
  const sessionId = await begin(connection);
  await connection.request("session/prompt", { sessionId, prompt: [{ type: "text", text: "long 3 0" }] });
  const over = new Promise<void>((resolve) => (ear.ending = resolve));
  served.lines.clear();
  sockets.at(-1)?.terminate();
  await over;
  const again = new Ear();
  const next = await connect(again);
  await next.request("session/load", { sessionId, cwd: "/tmp", mcpServers: [] });
  expect(again.lines).toEqual(told(3));
});

test("two clients on one session see the same; the other is told the end of the turn", async () => {
  const [mine, theirs] = [new Ear(), new Ear()];
  const connection = await connect(mine);
  const sessionId = await begin(connection);
  const other = await connect(theirs);
  await other.request("session/load", { sessionId, cwd: "/tmp", mcpServers: [] });
  await connection.request("session/prompt", { sessionId, prompt: [{ type: "text", text: "long 5 0" }] });
  await other.ask("agents");
  expect(theirs.lines).toEqual(mine.lines);
  expect(theirs.turns).toEqual(["ended"]);
});
