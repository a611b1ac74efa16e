/**
 * A line to the gateway that outlives its sockets.
 *
 * To the SDK's WebSocket transport it is one WebSocket. Below, each lost socket is replaced by a new one, which begins with
 * `_accord/resume`: both sides say how many frames they have, and each sends again what the other lacks, once, in order.
 * Without a connection id (the gateway does not know resuming), a lost socket is the end of the line.
 */

export interface Socket {
  readonly readyState: number;
  send(data: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: string, listener: (event: never) => void): void;
}

/** Opens a socket; rejects with `Refused` when trying again is of no use. */
export type Dial = () => Promise<Socket>;

export class Refused extends Error {}

export type LineState = "connecting" | "open" | "waiting" | "closed";

export interface Timer {
  after(milliseconds: number, call: () => void): () => void;
}

export const browserTimer: Timer = {
  after(milliseconds, call) {
    const id = setTimeout(call, milliseconds);
    return () => clearTimeout(id);
  },
};

const OPEN = 1;
const ACK_FRAMES = 64;
const ACK_BYTES = 1 << 20;
const RESUME_ID = "accord-resume";
const LONGEST_WAIT = 15_000;

type Listener = (event: unknown) => void;

export class Line {
  state: LineState = "connecting";
  /** Why the line ended, when the gateway or the network said so. */
  reason: Error | undefined;
  onState: ((state: LineState) => void) | undefined;

  private readonly listeners = new Map<string, Set<Listener>>();
  private socket: Socket | undefined;
  private connectionId: string | undefined;
  private received = 0;
  private acked = 0;
  private unackedBytes = 0;
  private sent = 0;
  private kept: string[] = [];
  private resuming = false;
  private attempts = 0;
  private dialing = false;
  private stopWaiting: (() => void) | undefined;
  private stopTrying: (() => void) | undefined;

  private readonly dial: Dial;
  private readonly timer: Timer;

  constructor(dial: Dial, timer: Timer = browserTimer) {
    this.dial = dial;
    this.timer = timer;
    void this.connect();
  }

  /** As the SDK's transport asks: 1 only while frames may be given to `send`. */
  get readyState(): number {
    if (this.state === "closed") return 3;
    // Before the first socket is open the transport must wait; afterwards frames are kept here until they can leave.
    return this.state === "connecting" ? 0 : OPEN;
  }

  /** The gateway knows resuming: this is the name of the connection there. */
  resumable(connectionId: string): void {
    this.connectionId = connectionId;
    this.ack();
  }

  send(data: string): void {
    if (this.state === "closed") return;
    this.sent += 1;
    this.kept.push(data);
    if (this.state === "open" && this.socket?.readyState === OPEN) this.socket.send(data);
  }

  close(): void {
    this.end(undefined);
  }

  addEventListener(type: string, listener: Listener): void {
    let all = this.listeners.get(type);
    if (!all) this.listeners.set(type, (all = new Set()));
    all.add(listener);
  }

  removeEventListener(type: string, listener: Listener): void {
    this.listeners.get(type)?.delete(listener);
  }

  /** Drops the socket, as one does that may be dead without knowing it, and takes a new one at once. */
  renew(): void {
    if (this.state === "open") this.lost(this.socket);
    this.hurry();
  }

  /** Ends a wait for the next attempt, because something suggests that it would succeed now. */
  hurry(): void {
    if (this.state !== "waiting" || this.dialing) return;
    this.stopWaiting?.();
    void this.connect();
  }

  private async connect(): Promise<void> {
    this.stopWaiting = undefined;
    this.dialing = true;
    let socket: Socket;
    try {
      socket = await this.dial();
    } catch (error) {
      this.dialing = false;
      if (this.state === "closed") return;
      const reason = error instanceof Error ? error : new Error(String(error));
      if (reason instanceof Refused || this.state === "connecting") this.end(reason);
      else this.wait();
      return;
    }
    if (this.state === "closed") {
      socket.close();
      return;
    }
    this.socket = socket;
    // A network may swallow the handshake without a word.
    this.stopTrying = this.timer.after(LONGEST_WAIT, () => this.failed(socket));
    socket.addEventListener("open", () => this.opened(socket));
    socket.addEventListener("message", (event: MessageEvent) => this.came(socket, event.data));
    socket.addEventListener("close", (event: CloseEvent) => this.failed(socket, event));
    socket.addEventListener("error", () => undefined);
  }

  private opened(socket: Socket): void {
    if (socket !== this.socket) return;
    if (this.connectionId === undefined) {
      this.settled("open");
      this.emit("open", {});
      return;
    }
    this.resuming = true;
    const params = { connectionId: this.connectionId, received: this.received };
    socket.send(JSON.stringify({ jsonrpc: "2.0", id: RESUME_ID, method: "_accord/resume", params }));
  }

  private came(socket: Socket, data: unknown): void {
    if (socket !== this.socket || typeof data !== "string") return;
    if (this.resuming) {
      this.resumed(socket, data);
      return;
    }
    if (isAck(data)) {
      const count: unknown = JSON.parse(data).params?.received;
      if (typeof count === "number") this.forget(count);
      return;
    }
    this.received += 1;
    this.unackedBytes += data.length;
    if (this.connectionId !== undefined && (this.received - this.acked >= ACK_FRAMES || this.unackedBytes >= ACK_BYTES)) {
      this.ack();
    }
    this.emit("message", { data });
  }

  private resumed(socket: Socket, data: string): void {
    let answer: { id?: unknown; result?: { received?: unknown }; error?: { message?: unknown } };
    try {
      answer = JSON.parse(data);
    } catch {
      return;
    }
    if (answer.id !== RESUME_ID) return;
    const count = answer.result?.received;
    if (typeof count !== "number") {
      this.end(new Error(`the gateway no longer has this connection: ${String(answer.error?.message ?? "no reason given")}`));
      return;
    }
    this.resuming = false;
    this.forget(count);
    this.settled("open");
    this.acked = this.received;
    this.unackedBytes = 0;
    for (const frame of this.kept) socket.send(frame);
  }

  /** Frames that the gateway has need not be kept any longer. */
  private forget(count: number): void {
    const base = this.sent - this.kept.length;
    if (count > base) this.kept.splice(0, Math.min(count - base, this.kept.length));
  }

  private ack(): void {
    this.acked = this.received;
    this.unackedBytes = 0;
    if (this.state !== "open" || this.socket?.readyState !== OPEN) return;
    this.socket.send(JSON.stringify({ jsonrpc: "2.0", method: "_accord/ack", params: { received: this.received } }));
  }

  private failed(socket: Socket, event?: { code?: number; reason?: string }): void {
    if (socket !== this.socket || this.state === "closed") return;
    if (this.connectionId === undefined) {
      this.end(new Error(event?.reason || "the connection to the gateway was lost"));
      return;
    }
    this.lost(socket);
  }

  private lost(socket: Socket | undefined): void {
    this.stopTrying?.();
    this.socket = undefined;
    this.resuming = false;
    this.dialing = false;
    // No normal closure: that would tell the gateway that we do not come back.
    socket?.close(4000, "taking another socket");
    this.wait();
  }

  private wait(): void {
    const pause = this.attempts === 0 ? 0 : Math.min(LONGEST_WAIT, 250 * 2 ** this.attempts);
    this.attempts += 1;
    this.become("waiting");
    this.stopWaiting = this.timer.after(pause, () => void this.connect());
  }

  private settled(state: "open"): void {
    this.stopTrying?.();
    this.dialing = false;
    this.attempts = 0;
    this.become(state);
  }

  private end(reason: Error | undefined): void {
    if (this.state === "closed") return;
    this.reason = reason;
    this.stopWaiting?.();
    this.stopTrying?.();
    const socket = this.socket;
    this.socket = undefined;
    this.kept = [];
    this.become("closed");
    socket?.close(1000);
    this.emit("close", {});
  }

  private become(state: LineState): void {
    if (this.state === state) return;
    this.state = state;
    this.onState?.(state);
  }

  private emit(type: string, event: unknown): void {
    for (const listener of [...(this.listeners.get(type) ?? [])]) listener(event);
  }
}

/** Acks are few and short; the text is looked at before it is parsed, because every frame comes through here. */
function isAck(data: string): boolean {
  if (data.length > 200 || !data.includes('"_accord/ack"')) return false;
  try {
    return JSON.parse(data).method === "_accord/ack";
  } catch {
    return false;
  }
}
