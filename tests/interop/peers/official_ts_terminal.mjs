// A command that the scripted client on the official TypeScript SDK runs for an agent, with its output.
import { spawn } from "node:child_process";

export class Terminal {
  printed = Buffer.alloc(0);
  exitStatus = null;

  constructor({ command, args = [], env = [], cwd, outputByteLimit }) {
    this.limit = outputByteLimit ?? Infinity;
    const variables = { ...process.env, ...Object.fromEntries(env.map(({ name, value }) => [name, value])) };
    // A separate process group, so that it can be killed with its children.
    const stdio = ["ignore", "pipe", "pipe"];
    this.child = spawn(command, args, { cwd, env: variables, stdio, detached: true });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream.on("data", (data) => (this.printed = Buffer.concat([this.printed, data])));
    }
    this.ended = new Promise((resolve) =>
      this.child.on("close", (exitCode, signal) => resolve((this.exitStatus = { exitCode, signal }))),
    );
  }

  output() {
    const truncated = this.printed.length > this.limit;
    let start = truncated ? this.printed.length - this.limit : 0;
    while (truncated && (this.printed[start] & 0xc0) === 0x80) start += 1; // not inside a character
    const output = this.printed.subarray(start).toString("utf8");
    return this.exitStatus ? { output, truncated, exitStatus: this.exitStatus } : { output, truncated };
  }

  kill() {
    if (this.exitStatus) return;
    try {
      process.kill(-this.child.pid, "SIGKILL");
    } catch {
      // the processes have just ended
    }
  }
}
