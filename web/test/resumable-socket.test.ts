/** A resumable socket loses no frame, repeats no frame and keeps the order. */
import { expect, test } from "vitest";
import { ResumableSocket, SocketRefused, type Socket } from "../src/wire/resumable-socket.ts";

class FakeSocket implements Socket {
  readyState = 0;
  readonly sent: string[] = [];
  private readonly listeners = new Map<string, ((event: never) => void)[]>();

  send(data: string): void {
    this.sent.push(data);
  }
  close(): void {
    this.readyState = 3;
  }
  addEventListener(type: string, listener: (event: never) => void): void {
    this.listeners.set(type, [...(this.listeners.get(type) ?? []), listener]);
  }
  fire(type: string, event: object = {}): void {
    if (type === "open") this.readyState = 1;
    if (type === "close") this.readyState = 3;
    for (const listener of this.listeners.get(type) ?? []) (listener as (event: object) => void)(event);
  }
  receive(message: object): void {
    this.fire("message", { data: JSON.stringify(message) });
  }
  get methods(): string[] {
    return this.sent.map((text) => JSON.parse(text).method ?? "response");
  }
}

/** A resumable socket over fake sockets, with a manual timer. */
class Connection {
  readonly sockets: FakeSocket[] = [];
  readonly receivedFrames: string[] = [];
  readonly timers: (() => void)[] = [];
  refuse = false;
  readonly resumable = new ResumableSocket(
    async () => {
      if (this.refuse) throw new SocketRefused("no");
      const socket = new FakeSocket();
      this.sockets.push(socket);
      return socket;
    },
    {
      after: (_, call) => {
        this.timers.push(call);
        return () => void this.timers.splice(this.timers.indexOf(call), 1);
      },
    },
  );

  constructor() {
    this.resumable.addEventListener("message", (event) =>
      this.receivedFrames.push((event as { data: string }).data),
    );
  }
  get socket(): FakeSocket {
    return this.sockets.at(-1) as FakeSocket;
  }
  async open(): Promise<this> {
    await Promise.resolve();
    await Promise.resolve();
    this.socket.fire("open");
    return this;
  }
  /** Loses the socket and opens the next one. */
  async reconnect(): Promise<this> {
    this.socket.fire("close", { code: 1006 });
    for (const call of this.timers.splice(0)) call();
    return this.open();
  }
  confirmResume(received: number): void {
    this.socket.receive({ jsonrpc: "2.0", id: "accord-resume", result: { received } });
  }
}

const frame = (n: number) => JSON.stringify({ jsonrpc: "2.0", id: n, method: "x" });

test("resends what the other side has not received, once", async () => {
  const connection = await new Connection().open();
  connection.resumable.enableResume("c1");
  for (const n of [1, 2, 3]) connection.resumable.send(frame(n));
  connection.socket.receive({ id: 1, result: {} });
  await connection.reconnect();
  expect(JSON.parse(connection.socket.sent[0] ?? "")).toMatchObject({
    method: "_accord/resume",
    params: { connectionId: "c1", received: 1 },
  });
  connection.resumable.send(frame(4));
  expect(connection.socket.sent).toHaveLength(1);
  connection.confirmResume(2);
  expect(connection.socket.sent.slice(1)).toEqual([frame(3), frame(4)]);
  connection.socket.receive({ id: 2, result: {} });
  expect(connection.receivedFrames).toHaveLength(2);
  expect(connection.resumable.state).toBe("open");
});

test("does not count acks, and discards acknowledged frames", async () => {
  const connection = await new Connection().open();
  connection.resumable.enableResume("c1");
  expect(connection.socket.methods).toEqual(["_accord/ack"]);
  for (const n of [1, 2, 3]) connection.resumable.send(frame(n));
  connection.socket.receive({ jsonrpc: "2.0", method: "_accord/ack", params: { received: 3 } });
  await connection.reconnect();
  connection.confirmResume(3);
  expect(connection.socket.methods).toEqual(["_accord/resume"]);
  expect(connection.receivedFrames).toEqual([]);
});

test("acknowledges every 64 frames", async () => {
  const connection = await new Connection().open();
  connection.resumable.enableResume("c1");
  for (let n = 0; n < 130; n += 1) connection.socket.receive({ jsonrpc: "2.0", method: "session/update" });
  const acks = connection.socket.sent
    .map((text) => JSON.parse(text))
    .filter((message) => message.method === "_accord/ack");
  expect(acks.map((message) => message.params.received)).toEqual([0, 64, 128]);
});

test("survives several losses in a row, also before the resume response", async () => {
  const connection = await new Connection().open();
  connection.resumable.enableResume("c1");
  connection.resumable.send(frame(1));
  await connection.reconnect();
  await connection.reconnect();
  await connection.reconnect();
  connection.confirmResume(0);
  expect(connection.sockets).toHaveLength(4);
  expect(connection.socket.sent.slice(1)).toEqual([frame(1)]);
});

test("closes when the gateway refuses to resume", async () => {
  const connection = await new Connection().open();
  let closed = 0;
  connection.resumable.addEventListener("close", () => (closed += 1));
  connection.resumable.enableResume("c1");
  await connection.reconnect();
  connection.socket.receive({
    jsonrpc: "2.0",
    id: "accord-resume",
    error: { code: -32002, message: "No such connection" },
  });
  expect([connection.resumable.state, closed]).toEqual(["closed", 1]);
  expect(connection.resumable.closeReason?.message).toContain("No such connection");
});

test("closes without a retry when access is denied", async () => {
  const connection = await new Connection().open();
  connection.resumable.enableResume("c1");
  connection.refuse = true;
  connection.socket.fire("close", {});
  for (const call of connection.timers.splice(0)) call();
  await Promise.resolve();
  await Promise.resolve();
  expect(connection.resumable.state).toBe("closed");
});

test("closes with the first lost socket if the gateway cannot resume", async () => {
  const connection = await new Connection().open();
  connection.socket.fire("close", { reason: "bye" });
  expect([connection.resumable.state, connection.resumable.closeReason?.message]).toEqual(["closed", "bye"]);
});

test("ignores messages of an old socket", async () => {
  const connection = await new Connection().open();
  connection.resumable.enableResume("c1");
  const oldSocket = connection.socket;
  await connection.reconnect();
  connection.confirmResume(0);
  oldSocket.receive({ id: 9 });
  expect(connection.receivedFrames).toEqual([]);
});
