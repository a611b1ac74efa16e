/** The gateway's own methods: their shapes, and readings of them that survive what does not fit. */

/** An extension of others, by which some agents put a plain question to the user. */
export const ASK_USER = "_agentao.cn/ask_user";

export type SessionActivity = "running" | "waiting" | "idle";

export interface ListedSession {
  agent: string;
  sessionId: string;
  cwd: string;
  title: string | null;
  updatedAt: string | null;
  state: SessionActivity;
  clients: number;
  live: boolean;
}

export interface ListedAgent {
  name: string;
  title: string | null;
  description: string | null;
  default: boolean;
  state: "stopped" | "starting" | "ready" | "failed";
  reason: string | null;
}

export interface InboxItem {
  id: string;
  agent: string;
  sessionId: string;
  cwd: string;
  title: string | null;
  method: string;
  params: Record<string, unknown>;
  since: string | null;
}

export interface TurnNews {
  sessionId: string;
  state: "started" | "ended";
  stopReason: string | null;
  error: { code: number | null; message: string; data: unknown } | null;
}

export interface Place {
  path: string;
  name: string;
}

export interface Folders {
  path: string;
  parent: string | null;
  folders: Place[];
}

export interface TerminalOutput {
  output: string;
  truncated: boolean;
  exitCode: number | null;
  signal: string | null;
  ended: boolean;
}

type Json = Record<string, unknown>;

export function record(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

function text(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

export function list<T>(value: unknown, read: (item: unknown) => T | null): T[] {
  if (!Array.isArray(value)) return [];
  return value.map(read).filter((item): item is T => item !== null);
}

export function readSession(value: unknown): ListedSession | null {
  const item = record(value);
  const agent = text(item["agent"]);
  const sessionId = text(item["sessionId"]);
  if (agent === null || sessionId === null) return null;
  const state = item["state"];
  return {
    agent,
    sessionId,
    cwd: text(item["cwd"]) ?? "",
    title: text(item["title"]),
    updatedAt: text(item["updatedAt"]),
    state: state === "running" || state === "waiting" ? state : "idle",
    clients: typeof item["clients"] === "number" ? item["clients"] : 0,
    live: item["live"] === true,
  };
}

export function readAgent(value: unknown): ListedAgent | null {
  const item = record(value);
  const name = text(item["name"]);
  if (name === null) return null;
  const state = item["state"];
  return {
    name,
    title: text(item["title"]),
    description: text(item["description"]),
    default: item["default"] === true,
    state: state === "ready" || state === "starting" || state === "failed" ? state : "stopped",
    reason: text(item["reason"]),
  };
}

export function readInboxItem(value: unknown): InboxItem | null {
  const item = record(value);
  const id = typeof item["id"] === "number" ? String(item["id"]) : text(item["id"]);
  const agent = text(item["agent"]);
  const method = text(item["method"]);
  if (id === null || agent === null || method === null) return null;
  return {
    id,
    agent,
    method,
    sessionId: text(item["sessionId"]) ?? "",
    cwd: text(item["cwd"]) ?? "",
    title: text(item["title"]),
    params: record(item["params"]),
    since: text(item["since"]),
  };
}

export function readTurn(value: unknown): TurnNews | null {
  const item = record(value);
  const sessionId = text(item["sessionId"]);
  const state = item["state"];
  if (sessionId === null || (state !== "started" && state !== "ended")) return null;
  const error = record(item["error"]);
  const code = typeof error["code"] === "number" ? error["code"] : null;
  const message = text(item["error"]) ?? text(error["message"]);
  return { sessionId, state, stopReason: text(item["stopReason"]), error: message === null ? null : { code, message, data: error["data"] } };
}

export function readPlace(value: unknown): Place | null {
  const item = record(value);
  const path = text(item["path"]);
  return path === null ? null : { path, name: text(item["name"]) ?? path };
}

export function readFolders(value: unknown): Folders {
  const item = record(value);
  return { path: text(item["path"]) ?? "", parent: text(item["parent"]), folders: list(item["folders"], readPlace) };
}

export function readTerminal(value: unknown): TerminalOutput {
  const item = record(value);
  const exit = record(item["exitStatus"]);
  return {
    output: text(item["output"]) ?? "",
    truncated: item["truncated"] === true,
    exitCode: typeof exit["exitCode"] === "number" ? exit["exitCode"] : null,
    signal: text(exit["signal"]),
    ended: typeof item["exitStatus"] === "object" && item["exitStatus"] !== null,
  };
}
