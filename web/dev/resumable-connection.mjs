/**
 * The mock gateway's side of a resumable connection: counts frames and keeps them until the client has them.
 */

export class ResumableConnection {
  constructor(id) {
    this.id = id;
    this.received = 0;
    this.sent = 0;
    this.unconfirmed = [];
    this.socket = null;
    this.readable = new ReadableStream({ start: (controller) => void (this.controller = controller) });
    this.writable = new WritableStream({ write: (message) => this.send(JSON.stringify(message)) });
  }

  attach(socket) {
    this.socket = socket;
    socket.on("message", (data, binary) => {
      if (!binary) this.receive(String(data));
    });
    socket.on("close", () => {
      if (this.socket === socket) this.socket = null;
    });
  }

  receive(text) {
    const message = JSON.parse(text);
    if (message.method === "_accord/ack") {
      this.discardConfirmed(message.params.received);
      return;
    }
    this.received += 1;
    this.controller.enqueue(message);
  }

  send(text) {
    this.sent += 1;
    this.unconfirmed.push(text);
    this.socket?.send(text);
  }

  discardConfirmed(count) {
    this.unconfirmed.splice(0, Math.max(0, count - (this.sent - this.unconfirmed.length)));
  }

  resume(socket, request) {
    this.socket?.close();
    this.attach(socket);
    this.discardConfirmed(request.params.received);
    socket.send(JSON.stringify({ jsonrpc: "2.0", id: request.id, result: { received: this.received } }));
    for (const frame of this.unconfirmed) socket.send(frame);
  }
}
