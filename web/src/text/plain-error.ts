/** Says in plain words what failed. The words of the agent or the gateway are the details. */
import { t, type PlainKey } from "../messages/messages.ts";

/** What is known of an error. */
export interface Failure {
  message: string;
  code: number | null;
}

const CODES: Record<number, PlainKey> = {
  [-32000]: "error.signIn",
  [-32003]: "error.notAllowed",
  [-32029]: "error.limit",
  [-32601]: "error.notSupported",
};

/** The first that matches counts. */
const PATTERNS: readonly (readonly [RegExp, PlainKey])[] = [
  [/before initialize|cannot be started|could not be started|cannot find the program/i, "error.noStart"],
  [/was not answered:|ended with|exited with|was killed|keeps ending/i, "turnEnd.crashed"],
  [/\b(?:invalid|incorrect|missing|no) (?:x-)?api[ _-]?key|\bunauthorized\b|\bHTTP(?: status)? 401\b/i, "error.key"],
  [/\brate[ _-]?limit|\boverloaded\b|\bquota\b|\bHTTP(?: status)? (?:429|529)\b/i, "error.busy"],
  [/\btimed? ?out\b|\btook too long\b/i, "error.timeout"],
  [/\bcannot connect\b|\bconnection (?:refused|reset|error)\b|\bnot reachable\b|\bname resolution\b/i, "error.network"],
];

/** A text that is a sentence for users already: short, and without the syntax of programs. */
const PLAIN = /^[\p{L}\p{N} ,.;:'’“”"!?()%/@-]{1,160}$/u;
const TECHNICAL = /\b(?:error|exception|traceback|errno|null|undefined|rpc|json)\b|-32\d{3}|[a-z]\.[a-z]+\(|\w+Error\b/i;

/** What failed, in words for users. `fallback` if nothing better is known. */
export function plainError({ message, code }: Failure, fallback: PlainKey = "error.other"): string {
  const byText = PATTERNS.find(([pattern]) => pattern.test(message))?.[1];
  const key = (code === null ? undefined : CODES[code]) ?? byText;
  if (key) return t(key);
  if (PLAIN.test(message) && !TECHNICAL.test(message)) return message;
  return t(fallback);
}
