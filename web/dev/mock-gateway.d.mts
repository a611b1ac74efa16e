/** A gateway for development and tests; see mock-gateway.mjs. */
export function serve(port?: number): Promise<{
  port: number;
  /** Resumable connections by id. Clear it to make the gateway forget them. */
  connections: Map<string, unknown>;
  sockets(): Iterable<{ terminate(): void }>;
  close(): void;
}>;
