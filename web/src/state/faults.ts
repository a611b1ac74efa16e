/** What went wrong, in words; and the last that an agent said before it ended, which usually tells why. */
import { RequestError } from "@agentclientprotocol/sdk";
import { record } from "../wire/vendor.ts";

export const AUTH_REQUIRED = -32000;

const LAST_LINES = 12;

export class Fault extends Error {
  readonly code: number | null;
  /** The end of the agent's stderr. */
  readonly said: string | null;

  constructor(message: string, code: number | null = null, said: string | null = null) {
    super(message);
    this.code = code;
    this.said = said;
  }
}

export function asError(error: unknown): Fault {
  if (error instanceof Fault) return error;
  if (error instanceof RequestError) return readFault(error.code, error.message, error.data);
  return new Fault(error instanceof Error ? error.message : String(error));
}

/** An error as it stands in an answer or a notification. */
export function readFault(code: number | null, message: string, data: unknown): Fault {
  const facts = record(data);
  const more = [data, facts["message"], facts["details"], facts["detail"]].find((item): item is string => typeof item === "string" && item.trim() !== "");
  const whole = more === undefined || message.includes(more) ? message : `${message}: ${more}`;
  return new Fault(whole, code, lastLines(facts["stderr"]));
}

function lastLines(text: unknown): string | null {
  if (typeof text !== "string") return null;
  const lines = text.trimEnd().split(/\r?\n/).slice(-LAST_LINES);
  return lines.join("\n").trim() === "" ? null : lines.join("\n");
}
