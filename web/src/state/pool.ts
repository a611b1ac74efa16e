/** The connections to the agents: one for each that is in use, made when it is first needed. */
import { RequestError } from "@agentclientprotocol/sdk";
import { AgentConnection, type Listener } from "../wire/connection.ts";
import { record } from "../wire/vendor.ts";

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

  /** To whichever agent is the gateway's default; where that one cannot start, to the first of the others that can. */
  async toDefault(): Promise<AgentConnection> {
    const connection = await this.first();
    this.waiting.set(connection.agent, Promise.resolve(connection));
    return connection;
  }

  private async first(): Promise<AgentConnection> {
    try {
      return await AgentConnection.open(null, this.listener);
    } catch (error) {
      const named = error instanceof RequestError ? record(error.data)["agents"] : [];
      for (const name of Array.isArray(named) ? named.map(String) : []) {
        try {
          return await AgentConnection.open(name, this.listener);
        } catch {
          // What is said in the end is why the default one did not start.
        }
      }
      throw error;
    }
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
