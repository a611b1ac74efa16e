/**
 * A WebSocket to the gateway that survives lost connections.
 *
 * The SDK's WebSocket transport uses it like one ordinary WebSocket. Underneath, each lost socket is replaced
 * by a new one whose first message is `_accord/resume`. Both sides report how many frames they have received,
 * and each side resends what the other has not received, once and in order. If the gateway gave no connection
 * id, it cannot resume connections, and the first lost socket closes this one as well.
 */
import { t } from "../messages/messages.ts";

/** The part of a browser WebSocket that `ResumableSocket` uses. */
export interface Socket {
  readonly readyState: number;
  send(data: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: string, listener: (event: never) => void): void;
}

/** Opens a new socket. Rejects with `SocketRefused` if a retry cannot help. */
export type SocketOpener = () => Promise<Socket>;

export class SocketRefused extends Error {}

/** `waiting`: the socket was lost, and a new one will be opened. */
export type ConnectionState = "connecting" | "open" | "waiting" | "closed";

export interface Timer {
  /** Calls `callback` later. Returns a function that cancels the call. */
  after(milliseconds: number, callback: () => void): () => void;
}

export const browserTimer: Timer = {
  after(milliseconds, callback) {
    const id = setTimeout(callback, milliseconds);
    return () => clearTimeout(id);
  },
};

const OPEN = 1;
const ACK_FRAMES = 64;
const ACK_BYTES = 1 << 20;
const RESUME_ID = "accord-resume";
const MAX_WAIT_MS = 15_000;

type Listener = (event: unknown) => void;

export class ResumableSocket {
  state: ConnectionState = "connecting";
  /** Why the connection closed, if the gateway or the network reported an error. */
  closeReason: Error | undefined;
  onState: ((state: ConnectionState) => void) | undefined;

  private readonly listeners = new Map<string, Set<Listener>>();
  private socket: Socket | undefined;
  private connectionId: string | undefined;
  private received = 0;
  private acknowledged = 0;
  private unacknowledgedBytes = 0;
  private sent = 0;
  /** Frames that the gateway has not acknowledged. */
  private unconfirmed: string[] = [];
  private resuming = false;
  private attempts = 0;
  private opening = false;
  private cancelRetry: (() => void) | undefined;
  private cancelOpenTimeout: (() => void) | undefined;

  private readonly openSocket: SocketOpener;
  private readonly timer: Timer;

  constructor(openSocket: SocketOpener, timer: Timer = browserTimer) {
    this.openSocket = openSocket;
    this.timer = timer;
    void this.connect();
  }

  /** As the SDK's transport expects it: 1 only while `send` accepts frames. */
  get readyState(): number {
    if (this.state === "closed") return 3;
    // The transport must wait for the first socket. Later frames are buffered here while there is no socket.
    return this.state === "connecting" ? 0 : OPEN;
  }

  /** Enables resuming, with the id that the gateway gave to this connection. */
  enableResume(connectionId: string): void {
    this.connectionId = connectionId;
    this.acknowledge();
  }

  send(data: string): void {
    if (this.state === "closed") return;
    this.sent += 1;
    this.unconfirmed.push(data);
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

  /** Replaces a socket that may be dead although the browser still reports it as open. */
  replaceSocket(): void {
    if (this.state === "open") this.retry(this.socket);
    this.retryNow();
  }

  /** Skips the rest of the wait before the next attempt. */
  retryNow(): void {
    if (this.state !== "waiting" || this.opening) return;
    this.cancelRetry?.();
    void this.connect();
  }

  private async connect(): Promise<void> {
    this.cancelRetry = undefined;
    this.opening = true;
    let socket: Socket;
    try {
      socket = await this.openSocket();
    } catch (error) {
      this.opening = false;
      if (this.state === "closed") return;
      const reason = error instanceof Error ? error : new Error(String(error));
      if (reason instanceof SocketRefused || this.state === "connecting") this.end(reason);
      else this.scheduleRetry();
      return;
    }
    if (this.state === "closed") {
      socket.close();
      return;
    }
    this.socket = socket;
    // Some networks drop the handshake without an error.
    this.cancelOpenTimeout = this.timer.after(MAX_WAIT_MS, () => this.handleClose(socket));
    socket.addEventListener("open", () => this.handleOpen(socket));
    socket.addEventListener("message", (event: MessageEvent) => this.handleMessage(socket, event.data));
    socket.addEventListener("close", (event: CloseEvent) => this.handleClose(socket, event));
    socket.addEventListener("error", () => undefined);
  }

  private handleOpen(socket: Socket): void {
    if (socket !== this.socket) return;
    if (this.connectionId === undefined) {
      this.setOpen();
      this.emit("open", {});
      return;
    }
    this.resuming = true;
    const params = { connectionId: this.connectionId, received: this.received };
    socket.send(JSON.stringify({ jsonrpc: "2.0", id: RESUME_ID, method: "_accord/resume", params }));
  }

  private handleMessage(socket: Socket, data: unknown): void {
    if (socket !== this.socket || typeof data !== "string") return;
    if (this.resuming) {
      this.handleResumeResponse(socket, data);
      return;
    }
    if (isAck(data)) {
      const count: unknown = JSON.parse(data).params?.received;
      if (typeof count === "number") this.discardConfirmed(count);
      return;
    }
    this.received += 1;
    this.unacknowledgedBytes += data.length;
    const unacknowledgedFrames = this.received - this.acknowledged;
    if (
      this.connectionId !== undefined &&
      (unacknowledgedFrames >= ACK_FRAMES || this.unacknowledgedBytes >= ACK_BYTES)
    ) {
      this.acknowledge();
    }
    this.emit("message", { data });
  }

  private handleResumeResponse(socket: Socket, data: string): void {
    let response: { id?: unknown; result?: { received?: unknown }; error?: { message?: unknown } };
    try {
      response = JSON.parse(data);
    } catch {
      return;
    }
    if (response.id !== RESUME_ID) return;
    const count = response.result?.received;
    if (typeof count !== "number") {
      const reason = String(response.error?.message ?? t("connection.noReason"));
      this.end(new Error(t("connection.notResumed", { reason })));
      return;
    }
    this.resuming = false;
    this.discardConfirmed(count);
    this.setOpen();
    this.acknowledged = this.received;
    this.unacknowledgedBytes = 0;
    for (const frame of this.unconfirmed) socket.send(frame);
  }

  /**
   * Drops the buffered frames that the gateway has received. `count` counts from the start of the connection.
   */
  private discardConfirmed(count: number): void {
    const confirmed = this.sent - this.unconfirmed.length;
    if (count > confirmed) this.unconfirmed.splice(0, Math.min(count - confirmed, this.unconfirmed.length));
  }

  private acknowledge(): void {
    this.acknowledged = this.received;
    this.unacknowledgedBytes = 0;
    if (this.state !== "open" || this.socket?.readyState !== OPEN) return;
    const params = { received: this.received };
    this.socket.send(JSON.stringify({ jsonrpc: "2.0", method: "_accord/ack", params }));
  }

  private handleClose(socket: Socket, event?: { code?: number; reason?: string }): void {
    if (socket !== this.socket || this.state === "closed") return;
    if (this.connectionId === undefined) {
      this.end(new Error(event?.reason || t("connection.lost")));
      return;
    }
    this.retry(socket);
  }

  private retry(socket: Socket | undefined): void {
    this.cancelOpenTimeout?.();
    this.socket = undefined;
    this.resuming = false;
    this.opening = false;
    // A normal closure (1000) would tell the gateway to end the connection.
    socket?.close(4000, "taking another socket");
    this.scheduleRetry();
  }

  private scheduleRetry(): void {
    const pause = this.attempts === 0 ? 0 : Math.min(MAX_WAIT_MS, 250 * 2 ** this.attempts);
    this.attempts += 1;
    this.setState("waiting");
    this.cancelRetry = this.timer.after(pause, () => void this.connect());
  }

  private setOpen(): void {
    this.cancelOpenTimeout?.();
    this.opening = false;
    this.attempts = 0;
    this.setState("open");
  }

  private end(reason: Error | undefined): void {
    if (this.state === "closed") return;
    this.closeReason = reason;
    this.cancelRetry?.();
    this.cancelOpenTimeout?.();
    const socket = this.socket;
    this.socket = undefined;
    this.unconfirmed = [];
    this.setState("closed");
    socket?.close(1000);
    this.emit("close", {});
  }

  private setState(state: ConnectionState): void {
    if (this.state === state) return;
    this.state = state;
    this.onState?.(state);
  }

  private emit(type: string, event: unknown): void {
    for (const listener of [...(this.listeners.get(type) ?? [])]) listener(event);
  }
}

/** Searches the text before it parses it, because this runs for every frame and acks are rare and short. */
function isAck(data: string): boolean {
  if (data.length > 200 || !data.includes('"_accord/ack"')) return false;
  try {
    return JSON.parse(data).method === "_accord/ack";
  } catch {
    return false;
  }
}
