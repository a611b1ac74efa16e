/** The stand-in's end of a line: frames are counted and kept, so that a client that lost its socket can go on. */

export class ServedLine {
  constructor(id) {
    this.id = id;
    this.received = 0;
    this.sent = 0;
    this.kept = [];
    this.socket = null;
    this.readable = new ReadableStream({ start: (controller) => void (this.controller = controller) });
    this.writable = new WritableStream({ write: (message) => this.send(JSON.stringify(message)) });
  }

  take(socket) {
    this.socket = socket;
    socket.on("message", (data, binary) => {
      if (!binary) this.came(String(data));
    });
    socket.on("close", () => {
      if (this.socket === socket) this.socket = null;
    });
  }

  came(text) {
    const message = JSON.parse(text);
    if (message.method === "_accord/ack") {
      this.forget(message.params.received);
      return;
    }
    this.received += 1;
    this.controller.enqueue(message);
  }

  send(text) {
    this.sent += 1;
    this.kept.push(text);
    this.socket?.send(text);
  }

  forget(count) {
    this.kept.splice(0, Math.max(0, count - (this.sent - this.kept.length)));
  }

  resume(socket, request) {
    this.socket?.close();
    this.take(socket);
    this.forget(request.params.received);
    socket.send(JSON.stringify({ jsonrpc: "2.0", id: request.id, result: { received: this.received } }));
    for (const frame of this.kept) socket.send(frame);
  }
}
