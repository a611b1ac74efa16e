/** The gateway's methods for sessions in the list, tokens and worktrees: calls, and parsers of the answers. */
import {
  asRecord,
  nonEmptyText,
  readList,
  readSession,
  type ListedSession,
} from "./extension-methods.ts";

/** A passage of a session, with the ranges of the words that were searched for. */
export interface SearchMatch {
  role: string;
  text: string;
  marked: [number, number][];
}

export interface SearchHit extends ListedSession {
  matches: SearchMatch[];
}

export interface TokenEntry {
  id: string;
  name: string;
  created: string | null;
  lastUsed: string | null;
  expires: string | null;
  valid: boolean;
  rights: string;
  readOnly: boolean;
  /** The session that a share link shows. */
  session: string | null;
  agent: string | null;
  /** The page itself uses it. */
  current: boolean;
}

/** A link with a new token. It is shown only once. */
export interface CreatedLink {
  link: string;
  id: string;
  expires: string | null;
  /** Rows of 0 and 1; null if the gateway cannot make a QR code. */
  qr: string[] | null;
  /** The address of the gateway's computer in its network, if the link only works on that computer. */
  localAddress: string | null;
}

export interface RecentFolder {
  path: string;
  name: string;
  branch: string | null;
  worktree: string | null;
}

export interface WorktreeState {
  name: string;
  path: string;
  branch: string;
  changes: number;
  commits: number;
  mergeCommand: string;
}

export interface TokenOptions {
  name: string;
  readOnly: boolean;
  /** In seconds; null for a token without an end. */
  expiresIn: number | null;
}

type Call = (
  agent: string | null,
  method: string,
  params: Record<string, unknown>,
) => Promise<Record<string, unknown>>;

/** Calls of the page about more than one conversation. `call` goes to one agent's connection, or to any. */
export class Management {
  private readonly call: Call;

  constructor(call: Call) {
    this.call = call;
  }

  async rename({ agent, sessionId }: ListedSession, title: string): Promise<void> {
    await this.call(agent, "session/rename", { sessionId, title });
  }

  async archive({ agent, sessionId }: ListedSession, archived: boolean): Promise<void> {
    await this.call(agent, "session/archive", { sessionId, archived });
  }

  async archivedSessions(): Promise<ListedSession[]> {
    const page = await this.call(null, "sessions", { archived: true, limit: 500 });
    return readList(page["sessions"], readSession);
  }

  async search(query: string): Promise<SearchHit[]> {
    const result = await this.call(null, "session/search", { query });
    return readList(result["sessions"], readHit);
  }

  /** The conversation as a Markdown document. */
  async export({ agent, sessionId }: ListedSession): Promise<{ name: string; text: string }> {
    const result = await this.call(agent, "session/export", { sessionId });
    return { name: nonEmptyText(result["name"]) ?? "session.md", text: String(result["text"] ?? "") };
  }

  async share({ agent, sessionId }: ListedSession, expiresIn: number): Promise<CreatedLink> {
    return readLink(await this.call(agent, "share", { sessionId, expiresIn, url: pageAddress() }));
  }

  /** All tokens, or the share links that the page's own token created. */
  async tokens(): Promise<{ tokens: TokenEntry[]; manageable: boolean }> {
    const result = await this.call(null, "tokens", {});
    return { tokens: readList(result["tokens"], readToken), manageable: result["manageable"] === true };
  }

  async createToken({ expiresIn, ...options }: TokenOptions): Promise<CreatedLink> {
    const expiry = expiresIn === null ? {} : { expiresIn };
    return readLink(await this.call(null, "tokens/create", { ...options, ...expiry, url: pageAddress() }));
  }

  async revokeToken(id: string): Promise<void> {
    await this.call(null, "tokens/revoke", { id });
  }

  async recentFolders(): Promise<RecentFolder[]> {
    return readList((await this.call(null, "folders/recent", {}))["folders"], readFolder);
  }

  /** The branch of a folder, and the worktree that it is in. */
  async worktree(path: string): Promise<{ branch: string | null; worktree: WorktreeState | null }> {
    const result = await this.call(null, "worktree", { path });
    return { branch: nonEmptyText(result["branch"]), worktree: readWorktree(result["worktree"]) };
  }

  /** Creates a worktree, or finds the one with this name. */
  async createWorktree(path: string, name: string): Promise<{ cwd: string; notes: string[] }> {
    const result = await this.call(null, "worktree/create", { path, name });
    const notes = Array.isArray(result["notes"]) ? result["notes"].map(String) : [];
    return { cwd: String(result["cwd"] ?? path), notes };
  }

  /** Removes a worktree, and says what happened to its branch. */
  async removeWorktree(path: string, save: boolean): Promise<string> {
    return String((await this.call(null, "worktree/remove", { path, save }))["note"] ?? "");
  }
}

/** The address of the page, without the part that names what it shows. */
function pageAddress(): string {
  return location.origin + location.pathname.replace(/\/(?:index\.html)?$/, "");
}

function readHit(value: unknown): SearchHit | null {
  const session = readSession(value);
  if (session === null) return null;
  return { ...session, matches: readList(asRecord(value)["matches"], readMatch) };
}

function readMatch(value: unknown): SearchMatch | null {
  const { role, text, marked } = asRecord(value);
  if (typeof text !== "string") return null;
  const ranges = Array.isArray(marked) ? (marked as unknown[]) : [];
  return { role: String(role), text, marked: ranges.filter(isRange) };
}

function isRange(value: unknown): value is [number, number] {
  return Array.isArray(value) && value.length === 2 && value.every((one) => typeof one === "number");
}

function readToken(value: unknown): TokenEntry | null {
  const item = asRecord(value);
  const id = nonEmptyText(item["id"]);
  if (id === null) return null;
  return {
    id,
    name: nonEmptyText(item["name"]) ?? "",
    created: nonEmptyText(item["created"]),
    lastUsed: nonEmptyText(item["lastUsed"]),
    expires: nonEmptyText(item["expires"]),
    valid: item["valid"] !== false,
    rights: nonEmptyText(item["rights"]) ?? "",
    readOnly: item["readOnly"] === true,
    session: nonEmptyText(item["session"]),
    agent: nonEmptyText(item["agent"]),
    current: item["current"] === true,
  };
}

function readLink(result: Record<string, unknown>): CreatedLink {
  const token = asRecord(result["token"]);
  const rows = result["qr"];
  return {
    link: String(result["link"] ?? ""),
    id: String(token["id"] ?? ""),
    expires: nonEmptyText(token["expires"]),
    qr: Array.isArray(rows) && rows.length > 0 ? rows.map(String) : null,
    localAddress: nonEmptyText(result["localAddress"]),
  };
}

function readFolder(value: unknown): RecentFolder | null {
  const item = asRecord(value);
  const path = nonEmptyText(item["path"]);
  if (path === null) return null;
  const [branch, worktree] = [nonEmptyText(item["branch"]), nonEmptyText(item["worktree"])];
  return { path, name: nonEmptyText(item["name"]) ?? path, branch, worktree };
}

function readWorktree(value: unknown): WorktreeState | null {
  const item = asRecord(value);
  const [name, path] = [nonEmptyText(item["name"]), nonEmptyText(item["path"])];
  if (name === null || path === null) return null;
  return {
    name,
    path,
    branch: nonEmptyText(item["branch"]) ?? "",
    changes: Number(item["changes"] ?? 0),
    commits: Number(item["commits"] ?? 0),
    mergeCommand: nonEmptyText(item["mergeCommand"]) ?? "",
  };
}
