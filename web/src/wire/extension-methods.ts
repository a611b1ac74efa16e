/**
 * The gateway's `_accord/*` methods and error data: types, and parsers that ignore what they do not
 * understand.
 */
import { RequestError } from "@agentclientprotocol/sdk";
import { t } from "../messages/messages.ts";

/** An extension method of Agentao's: agents use it to ask the user a plain question. */
export const ASK_USER = "_agentao.cn/ask_user";

/** The JSON-RPC error code with which an agent asks for a sign-in. */
export const AUTH_REQUIRED = -32000;

const STDERR_LINES = 12;

/** `lost`: the node that ran its turn does not answer. */
export type SessionActivity = "running" | "waiting" | "idle" | "lost";

export interface ListedSession {
  agent: string;
  sessionId: string;
  cwd: string;
  title: string | null;
  updatedAt: string | null;
  state: SessionActivity;
  clients: number;
  live: boolean;
  /** Where it is open, if another process than this gateway has it open. */
  owner: string | null;
  /** The node of the cluster that has it. */
  node: string | null;
  archived: boolean;
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

/**
 * A turn of any client started or ended; or, just after we attached to a session, whether one runs and how the
 * latest one ended.
 */
export interface TurnChange {
  sessionId: string;
  state: "started" | "ended" | "running" | "idle";
  stopReason: string | null;
  error: ErrorReport | null;
  /** The agent cannot open the session: it can only be read. */
  readOnly: boolean;
}

export interface PathEntry {
  path: string;
  name: string;
}

export interface FolderList {
  path: string;
  parent: string | null;
  folders: PathEntry[];
}

export interface TerminalOutput {
  output: string;
  truncated: boolean;
  exitCode: number | null;
  signal: string | null;
  ended: boolean;
}

/** An error as the page shows it. */
export class ErrorReport extends Error {
  readonly code: number | null;
  /** The last lines that the agent wrote to stderr. They usually say why it failed. */
  readonly stderrTail: string | null;

  constructor(message: string, code: number | null = null, stderrTail: string | null = null) {
    super(message);
    this.code = code;
    this.stderrTail = stderrTail;
  }
}

export function errorReport(error: unknown): ErrorReport {
  if (error instanceof ErrorReport) return error;
  if (error instanceof RequestError) return readErrorReport(error.code, error.message, error.data);
  return new ErrorReport(error instanceof Error ? error.message : String(error));
}

/** Reads the fields of a JSON-RPC error. */
export function readErrorReport(code: number | null, message: string, data: unknown): ErrorReport {
  const fields = asRecord(data);
  const detail = [data, fields["message"], fields["details"], fields["detail"]].find(
    (item): item is string => typeof item === "string" && item.trim() !== "",
  );
  const whole = detail === undefined || message.includes(detail) ? message : `${message}: ${detail}`;
  return new ErrorReport(whole, code, lastLines(fields["stderr"]));
}

/** The value if it is a JSON object, otherwise an empty object. */
export function asRecord(value: unknown): Record<string, unknown> {
  const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
  return isObject ? (value as Record<string, unknown>) : {};
}

/** Reads the items of an array and drops those that `read` rejects with null. */
export function readList<T>(value: unknown, read: (item: unknown) => T | null): T[] {
  if (!Array.isArray(value)) return [];
  return value.map(read).filter((item): item is T => item !== null);
}

export function readSession(value: unknown): ListedSession | null {
  const item = asRecord(value);
  const agent = nonEmptyText(item["agent"]);
  const sessionId = nonEmptyText(item["sessionId"]);
  if (agent === null || sessionId === null) return null;
  const state = item["state"];
  return {
    agent,
    sessionId,
    cwd: nonEmptyText(item["cwd"]) ?? "",
    title: nonEmptyText(item["title"]),
    updatedAt: nonEmptyText(item["updatedAt"]),
    state: state === "running" || state === "waiting" || state === "lost" ? state : "idle",
    clients: typeof item["clients"] === "number" ? item["clients"] : 0,
    live: item["live"] === true,
    owner: readOwner(item["owner"]),
    node: nonEmptyText(item["node"]),
    archived: item["archived"] === true,
  };
}

function readOwner(value: unknown): string | null {
  const { url, pid } = asRecord(value);
  return nonEmptyText(url) ?? (typeof pid === "number" ? t("sessions.process", { pid }) : null);
}

export function readAgent(value: unknown): ListedAgent | null {
  const item = asRecord(value);
  const name = nonEmptyText(item["name"]);
  if (name === null) return null;
  const state = item["state"];
  return {
    name,
    title: nonEmptyText(item["title"]),
    description: nonEmptyText(item["description"]),
    default: item["default"] === true,
    state: state === "ready" || state === "starting" || state === "failed" ? state : "stopped",
    reason: nonEmptyText(item["reason"]),
  };
}

export function readInboxItem(value: unknown): InboxItem | null {
  const item = asRecord(value);
  const id = typeof item["id"] === "number" ? String(item["id"]) : nonEmptyText(item["id"]);
  const agent = nonEmptyText(item["agent"]);
  const method = nonEmptyText(item["method"]);
  if (id === null || agent === null || method === null) return null;
  return {
    id,
    agent,
    method,
    sessionId: nonEmptyText(item["sessionId"]) ?? "",
    cwd: nonEmptyText(item["cwd"]) ?? "",
    title: nonEmptyText(item["title"]),
    params: asRecord(item["params"]),
    since: nonEmptyText(item["since"]),
  };
}

export function readTurnChange(value: unknown): TurnChange | null {
  const item = asRecord(value);
  const sessionId = nonEmptyText(item["sessionId"]);
  const state = item["state"];
  if (sessionId === null || !isTurnState(state)) return null;
  const error = asRecord(item["error"]);
  const code = typeof error["code"] === "number" ? error["code"] : null;
  const message = nonEmptyText(item["error"]) ?? nonEmptyText(error["message"]);
  return {
    sessionId,
    state,
    stopReason: nonEmptyText(item["stopReason"]),
    error: message === null ? null : readErrorReport(code, message, error["data"]),
    readOnly: item["readOnly"] === true,
  };
}

function isTurnState(value: unknown): value is TurnChange["state"] {
  return value === "started" || value === "ended" || value === "running" || value === "idle";
}

export function readPathEntry(value: unknown): PathEntry | null {
  const item = asRecord(value);
  const path = nonEmptyText(item["path"]);
  return path === null ? null : { path, name: nonEmptyText(item["name"]) ?? path };
}

export function readFolderList(value: unknown): FolderList {
  const item = asRecord(value);
  return {
    path: nonEmptyText(item["path"]) ?? "",
    parent: nonEmptyText(item["parent"]),
    folders: readList(item["folders"], readPathEntry),
  };
}

export function readTerminalOutput(value: unknown): TerminalOutput {
  const item = asRecord(value);
  const exit = asRecord(item["exitStatus"]);
  return {
    output: nonEmptyText(item["output"]) ?? "",
    truncated: item["truncated"] === true,
    exitCode: typeof exit["exitCode"] === "number" ? exit["exitCode"] : null,
    signal: nonEmptyText(exit["signal"]),
    ended: typeof item["exitStatus"] === "object" && item["exitStatus"] !== null,
  };
}

/** The value if it is a string that is not empty, otherwise null. */
export function nonEmptyText(value: unknown): string | null {
  return typeof value === "string" && value !== "" ? value : null;
}

function lastLines(text: unknown): string | null {
  if (typeof text !== "string") return null;
  const lines = text.trimEnd().split(/\r?\n/).slice(-STDERR_LINES);
  return lines.join("\n").trim() === "" ? null : lines.join("\n");
}
