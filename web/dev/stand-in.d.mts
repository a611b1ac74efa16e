/** A gateway to develop against; see stand-in.mjs. */
export function serve(port?: number): Promise<unknown>;
