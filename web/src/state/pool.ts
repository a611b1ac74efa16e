/** The connections to the agents: one for each that is in use, made when it is first needed. */
import { AgentConnection, type Listener } from "../wire/connection.ts";

export class Pool {
  private readonly waiting = new Map<string, Promise<AgentConnection>>();
  private readonly listener: Listener;

  constructor(listener: Listener) {
    this.listener = listener;
  }

  to(agent: string): Promise<AgentConnection> {
    let waiting = this.waiting.get(agent);
    if (!waiting) {
      waiting = AgentConnection.open(agent, this.listener);
      this.waiting.set(agent, waiting);
      waiting.catch(() => this.waiting.delete(agent));
    }
    return waiting;
  }

  /** To whichever agent is the gateway's default. */
  async toDefault(): Promise<AgentConnection> {
    const connection = await AgentConnection.open(null, this.listener);
    this.waiting.set(connection.agent, Promise.resolve(connection));
    return connection;
  }

  /** Whether it was one of these, which it is no longer. */
  drop(connection: AgentConnection): boolean {
    return this.waiting.delete(connection.agent);
  }

  /** After sleep or a change of network: finds out at once whether the connections still are what they seem. */
  wake(): void {
    this.each((connection) => void connection.prove());
  }

  close(): void {
    this.each((connection) => connection.close());
  }

  private each(call: (connection: AgentConnection) => void): void {
    for (const waiting of this.waiting.values()) void waiting.then(call).catch(() => undefined);
  }
}
