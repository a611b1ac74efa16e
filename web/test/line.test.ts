/** A line that outlives its sockets: nothing lost, nothing twice, in order. */
import { expect, test } from "vitest";
import { Line, Refused, type Socket } from "../src/wire/line.ts";

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
  say(message: object): void {
    this.fire("message", { data: JSON.stringify(message) });
  }
  get methods(): string[] {
    return this.sent.map((text) => JSON.parse(text).method ?? "answer");
  }
}

class Stage {
  readonly sockets: FakeSocket[] = [];
  readonly got: string[] = [];
  readonly timers: (() => void)[] = [];
  refuse = false;
  readonly line = new Line(
    async () => {
      if (this.refuse) throw new Refused("no");
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
    this.line.addEventListener("message", (event) => this.got.push((event as { data: string }).data));
  }
  get socket(): FakeSocket {
    return this.sockets.at(-1) as FakeSocket;
  }
  async opened(): Promise<this> {
    await Promise.resolve();
    await Promise.resolve();
    this.socket.fire("open");
    return this;
  }
  /** Loses the socket and takes the next one. */
  async again(): Promise<this> {
    this.socket.fire("close", { code: 1006 });
    for (const call of this.timers.splice(0)) call();
    return this.opened();
  }
  resumed(received: number): void {
    this.socket.say({ jsonrpc: "2.0", id: "accord-resume", result: { received } });
  }
}

const frame = (n: number) => JSON.stringify({ jsonrpc: "2.0", id: n, method: "x" });

test("after a lost socket both sides send what the other lacks, once", async () => {
  const stage = await new Stage().opened();
  stage.line.resumable("c1");
  for (const n of [1, 2, 3]) stage.line.send(frame(n));
  stage.socket.say({ id: 1, result: {} });
  await stage.again();
  expect(JSON.parse(stage.socket.sent[0] ?? "")).toMatchObject({ method: "_accord/resume", params: { connectionId: "c1", received: 1 } });
  stage.line.send(frame(4));
  expect(stage.socket.sent).toHaveLength(1);
  stage.resumed(2);
  expect(stage.socket.sent.slice(1)).toEqual([frame(3), frame(4)]);
  stage.socket.say({ id: 2, result: {} });
  expect(stage.got).toHaveLength(2);
  expect(stage.line.state).toBe("open");
});

test("acks are not counted and free what was kept", async () => {
  const stage = await new Stage().opened();
  stage.line.resumable("c1");
  expect(stage.socket.methods).toEqual(["_accord/ack"]);
  for (const n of [1, 2, 3]) stage.line.send(frame(n));
  stage.socket.say({ jsonrpc: "2.0", method: "_accord/ack", params: { received: 3 } });
  await stage.again();
  stage.resumed(3);
  expect(stage.socket.methods).toEqual(["_accord/resume"]);
  expect(stage.got).toEqual([]);
});

test("every 64 frames are acknowledged", async () => {
  const stage = await new Stage().opened();
  stage.line.resumable("c1");
  for (let n = 0; n < 130; n += 1) stage.socket.say({ jsonrpc: "2.0", method: "session/update" });
  const acks = stage.socket.sent.map((text) => JSON.parse(text)).filter((message) => message.method === "_accord/ack");
  expect(acks.map((message) => message.params.received)).toEqual([0, 64, 128]);
});

test("several losses in a row, also before the answer to the resume", async () => {
  const stage = await new Stage().opened();
  stage.line.resumable("c1");
  stage.line.send(frame(1));
  await stage.again();
  await stage.again();
  await stage.again();
  stage.resumed(0);
  expect(stage.sockets).toHaveLength(4);
  expect(stage.socket.sent.slice(1)).toEqual([frame(1)]);
});

test("a refused resume ends the line, so that the session is loaded anew", async () => {
  const stage = await new Stage().opened();
  let closed = 0;
  stage.line.addEventListener("close", () => (closed += 1));
  stage.line.resumable("c1");
  await stage.again();
  stage.socket.say({ jsonrpc: "2.0", id: "accord-resume", error: { code: -32002, message: "No such connection" } });
  expect([stage.line.state, closed]).toEqual(["closed", 1]);
  expect(stage.line.reason?.message).toContain("No such connection");
});

test("who may not come back is not asked again and again", async () => {
  const stage = await new Stage().opened();
  stage.line.resumable("c1");
  stage.refuse = true;
  stage.socket.fire("close", {});
  for (const call of stage.timers.splice(0)) call();
  await Promise.resolve();
  await Promise.resolve();
  expect(stage.line.state).toBe("closed");
});

test("without resuming a lost socket is the end", async () => {
  const stage = await new Stage().opened();
  stage.socket.fire("close", { reason: "bye" });
  expect([stage.line.state, stage.line.reason?.message]).toEqual(["closed", "bye"]);
});

test("what an old socket still says is not heard", async () => {
  const stage = await new Stage().opened();
  stage.line.resumable("c1");
  const old = stage.socket;
  await stage.again();
  stage.resumed(0);
  old.say({ id: 9 });
  expect(stage.got).toEqual([]);
});
