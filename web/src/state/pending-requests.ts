/**
 * Requests of agents that wait for the user: from our own connections, from the gateway's inbox, and
 * notifications.
 */
import type * as acp from "@agentclientprotocol/sdk";
import { signal } from "@preact/signals";
import { t } from "../messages/messages.ts";
import { revealHidden } from "../text/untrusted-text.ts";
import { asRecord, type InboxItem } from "../wire/extension-methods.ts";

interface RequestBase {
  /** Equal for a request on our connection and its inbox item, so that the page shows one card for both. */
  key: string;
  agent: string;
  sessionId: string;
  since: number;
  answer(result: unknown): Promise<void>;
}

export interface PermissionRequest extends RequestBase {
  kind: "permission";
  params: acp.RequestPermissionRequest;
}

export interface ElicitationRequest extends RequestBase {
  kind: "elicitation";
  params: acp.CreateElicitationRequest;
}

/** A request by an extension method, such as a plain question. */
export interface ExtensionRequest extends RequestBase {
  kind: "extension";
  method: string;
  params: Record<string, unknown>;
}

export type PendingRequest = PermissionRequest | ElicitationRequest | ExtensionRequest;

export function requestKey(method: string, sessionId: string, params: Record<string, unknown>): string {
  const id = asRecord(params["toolCall"])["toolCallId"] ?? params["elicitationId"] ?? params["toolCallId"];
  return JSON.stringify([method, sessionId, id ?? null, params["message"] ?? params["question"] ?? null]);
}

/** The request in one line, for lists, notifications and screen readers. */
export function requestSummary(request: PendingRequest): string {
  if (request.kind === "permission") return request.params.toolCall.title || t("inbox.usesTool");
  if (request.kind === "elicitation") return request.params.message;
  const text = request.params["question"] ?? request.params["message"];
  return typeof text === "string" ? text : request.method;
}

/** The gateway's inbox: the pending requests of all sessions. */
export class Inbox {
  private readonly items = signal<ReadonlyMap<string, InboxItem>>(new Map());
  /** Keys of answered requests. They are hidden until the gateway reports that they are gone. */
  private readonly answeredKeys = signal<ReadonlySet<string>>(new Set());
  private readonly sendAnswer: (id: string, result: Record<string, unknown>) => Promise<unknown>;

  constructor(sendAnswer: (id: string, result: Record<string, unknown>) => Promise<unknown>) {
    this.sendAnswer = sendAnswer;
  }

  get empty(): boolean {
    return this.items.value.size === 0;
  }

  has(id: string): boolean {
    return this.items.value.has(id);
  }

  /** The key of the item with this id. */
  keyOf(id: string): string | undefined {
    const item = this.items.value.get(id);
    return item && itemKey(item);
  }

  replace(items: readonly InboxItem[]): void {
    this.items.value = new Map(items.map((item) => [item.id, item]));
    this.answeredKeys.value = new Set();
  }

  /** Adds an item and returns its summary. */
  add(item: InboxItem): string {
    this.items.value = new Map(this.items.value).set(item.id, item);
    return requestSummary(inboxRequest(item, () => Promise.resolve()));
  }

  remove(id: string): void {
    const items = new Map(this.items.value);
    const item = items.get(id);
    items.delete(id);
    this.items.value = items;
    if (item) this.unmarkAnswered(itemKey(item));
  }

  /** All pending requests without duplicates. A request on our own connection wins over its inbox item. */
  merge(direct: readonly PendingRequest[]): PendingRequest[] {
    const keys = new Set(direct.map((request) => request.key));
    const listed = [...this.items.value.values()]
      .map((item) => inboxRequest(item, (result) => this.answer(item, result)))
      .filter((request) => !keys.has(request.key));
    return [...direct, ...listed].filter((request) => !this.answeredKeys.value.has(request.key));
  }

  markAnswered(key: string): void {
    if ([...this.items.value.values()].some((item) => itemKey(item) === key)) {
      this.answeredKeys.value = new Set(this.answeredKeys.value).add(key);
    }
  }

  unmarkAnswered(key: string): void {
    if (!this.answeredKeys.value.has(key)) return;
    const keys = new Set(this.answeredKeys.value);
    keys.delete(key);
    this.answeredKeys.value = keys;
  }

  private async answer(item: InboxItem, result: unknown): Promise<void> {
    this.markAnswered(itemKey(item));
    try {
      await this.sendAnswer(item.id, asRecord(result));
    } catch (error) {
      this.unmarkAnswered(itemKey(item));
      throw error;
    }
  }
}

/** Shows a notification of the open page if it is hidden, for browsers that get none by Web Push. */
export function notify(item: InboxItem, text: string): void {
  if (!("Notification" in globalThis) || Notification.permission !== "granted" || !document.hidden) return;
  const title = revealHidden(item.title ?? t("inbox.waiting", { agent: item.agent }));
  try {
    const notification = new Notification(title, { body: revealHidden(text).slice(0, 200), tag: item.id });
    notification.onclick = () => {
      window.focus();
      location.hash = "#/inbox";
      notification.close();
    };
  } catch {
    // Some mobile browsers allow notifications only from service workers. The count in the title remains.
  }
}

function inboxRequest(item: InboxItem, answer: (result: unknown) => Promise<void>): PendingRequest {
  const base = {
    key: itemKey(item),
    agent: item.agent,
    sessionId: item.sessionId,
    since: item.since ? Date.parse(item.since) || Date.now() : Date.now(),
    answer,
  };
  if (item.method === "session/request_permission" && Array.isArray(item.params["options"])) {
    const params = item.params as unknown as acp.RequestPermissionRequest;
    return { ...base, kind: "permission", params };
  }
  if (item.method === "elicitation/create" && typeof item.params["mode"] === "string") {
    const params = item.params as unknown as acp.CreateElicitationRequest;
    return { ...base, kind: "elicitation", params };
  }
  return { ...base, kind: "extension", method: item.method, params: item.params };
}

function itemKey(item: InboxItem): string {
  return requestKey(item.method, item.sessionId, item.params);
}

const COMMAND_KEYS = ["command", "cmd", "argv", "script"];
const FOLDER_KEYS = ["cwd", "workdir", "working_directory", "workingDirectory"];
const PATH_KEYS = ["path", "file_path", "filePath", "abs_path", "absPath", "filename", "file"];
/** Values of `command` that are operations of an editor tool, not shell commands, if a path is given too. */
const EDITOR_COMMANDS = new Set(
  "view read write create edit str_replace insert append undo_edit undo delete".split(" "),
);

/** A command as a shell line, and the folder if the agent named one. */
export interface RequestedCommand {
  line: string;
  folder: string | null;
}

/** Returns the command in the input of a tool call; null if there is none. */
export function requestedCommand(rawInput: unknown): RequestedCommand | null {
  const input = asRecord(rawInput);
  const isText = (value: unknown): value is string => typeof value === "string" && value.trim() !== "";
  const folder = FOLDER_KEYS.map((key) => input[key]).find(isText) ?? null;
  const namesFile = PATH_KEYS.some((key) => isText(input[key]));
  for (const key of COMMAND_KEYS) {
    const value = input[key];
    if (isText(value)) {
      if (namesFile && EDITOR_COMMANDS.has(value)) return null;
      const args = input["args"];
      const words = Array.isArray(args) && args.length > 0 && args.every((word) => typeof word === "string");
      return { line: words ? joinWords([value, ...(args as string[])]) : value, folder };
    }
    if (Array.isArray(value) && value.length > 0 && value.every((word) => typeof word === "string")) {
      return { line: joinWords(value as string[]), folder };
    }
  }
  return null;
}

const ALLOW_WORDS = "accept allow approve continue grant ok permit proceed run yes".split(" ");
const REJECT_WORDS =
  "abort cancel decline deny disallow don't never no not refuse reject skip".split(" ");
const ALWAYS_WORDS = ["all", "always", "never", "session"];

/** The name of an option, which the agent wrote, with what it does if the name does not clearly say so. */
export function optionLabel({ name, kind, optionId }: acp.PermissionOption): string {
  const label = name || optionId;
  const words = new Set(label.toLowerCase().replaceAll("\u2019", "'").match(/[\p{L}\p{N}_']+/gu) ?? []);
  const has = (list: readonly string[]) => list.some((word) => words.has(word));
  const [own, other] = kind.startsWith("allow") ? [ALLOW_WORDS, REJECT_WORDS] : [REJECT_WORDS, ALLOW_WORDS];
  const isClear = has(own) && !has(other) && has(ALWAYS_WORDS) === kind.endsWith("always");
  return isClear ? label : `${label} (${kind.replaceAll("_", " ")})`;
}

/** Which options get a button of their own, by index; the others are in a menu. */
export interface OptionLayout {
  primary: number | null;
  reject: number | null;
  others: number[];
}

/** The main answer allows once, and one button rejects once. Without such options, those that always do. */
export function arrangeOptions(options: readonly acp.PermissionOption[]): OptionLayout {
  const find = (...kinds: acp.PermissionOptionKind[]) => {
    const found = kinds.map((kind) => options.findIndex((option) => option.kind === kind));
    return found.find((index) => index >= 0) ?? null;
  };
  const primary = find("allow_once", "allow_always");
  const reject = find("reject_once", "reject_always");
  const others = [...options.keys()].filter((index) => index !== primary && index !== reject);
  return { primary, reject, others };
}

/** The answer that rejects once; one that cancels if the agent offers no rejection. */
export function rejection(options: readonly acp.PermissionOption[]): acp.RequestPermissionResponse {
  const option = options.find((one) => one.kind === "reject_once");
  if (!option) return { outcome: { outcome: "cancelled" } };
  return { outcome: { outcome: "selected", optionId: option.optionId } };
}

function joinWords(words: readonly string[]): string {
  return words
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`))
    .join(" ");
}
