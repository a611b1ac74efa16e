/** The rows of the session list: waiting sessions first, then those of each folder; and which are unread. */
import { signal } from "@preact/signals";
import { folderName } from "../text/format.ts";
import { asRecord, type ListedSession } from "../wire/extension-methods.ts";

export type SessionRow =
  | { kind: "heading"; key: string; label: string; title: string; waiting: boolean }
  | { kind: "session"; key: string; session: ListedSession; position: number };

/** The rows in the order of the list. `waitingLabel` is the heading of the sessions that wait for the user. */
export function sessionRows(sessions: readonly ListedSession[], waitingLabel: string): SessionRow[] {
  const waiting = sessions.filter((session) => session.state === "waiting");
  const folders = new Map<string, ListedSession[]>();
  for (const session of sessions) {
    if (session.state === "waiting") continue;
    const group = folders.get(session.cwd);
    if (group) group.push(session);
    else folders.set(session.cwd, [session]);
  }
  const rows: SessionRow[] = [];
  let position = 0;
  const add = (group: readonly ListedSession[]) => {
    for (const session of group) {
      position += 1;
      rows.push({ kind: "session", key: sessionKey(session), session, position });
    }
  };
  if (waiting.length > 0) {
    rows.push({ kind: "heading", key: "waiting", label: waitingLabel, title: "", waiting: true });
    add(waiting);
  }
  for (const [cwd, group] of folders) {
    rows.push({ kind: "heading", key: `folder ${cwd}`, label: folderName(cwd) || cwd, title: cwd, waiting: false });
    add(group);
  }
  return rows;
}

export function sessionKey({ agent, sessionId }: { agent: string; sessionId: string }): string {
  return `${agent}/${sessionId}`;
}

const STORED = "accord.seen";
const MAX_SEEN = 500;

interface Seen {
  /** Sessions that were last used before this count as read: the page was not used here before. */
  since: string;
  /** When each session was last used as far as the user has seen it. */
  sessions: Record<string, string>;
}

/** Which sessions the user has seen in this browser. */
export class SeenSessions {
  private readonly seen = signal<Seen>(readSeen());

  constructor() {
    // What is read in one tab is read in all.
    addEventListener("storage", (event) => {
      if (event.key === STORED) this.seen.value = readSeen();
    });
  }

  isUnread(session: ListedSession): boolean {
    const { since, sessions } = this.seen.value;
    const updated = session.updatedAt ?? "";
    return session.state === "idle" && updated > (sessions[sessionKey(session)] ?? since);
  }

  markRead(session: ListedSession): void {
    const { since, sessions } = this.seen.peek();
    const key = sessionKey(session);
    const updated = session.updatedAt ?? "";
    if (updated <= (sessions[key] ?? since)) return;
    const { [key]: _, ...others } = sessions;
    const latest = [...Object.entries(others), [key, updated] as const].slice(-MAX_SEEN);
    this.seen.value = { since, sessions: Object.fromEntries(latest) };
    try {
      localStorage.setItem(STORED, JSON.stringify(this.seen.peek()));
    } catch {
      // The storage is disabled. The marks then last until a reload.
    }
  }
}

function readSeen(): Seen {
  try {
    const stored = asRecord(JSON.parse(localStorage.getItem(STORED) ?? "null"));
    const sessions = Object.entries(asRecord(stored["sessions"])).filter(
      (entry): entry is [string, string] => typeof entry[1] === "string",
    );
    if (typeof stored["since"] === "string")
      return { since: stored["since"], sessions: Object.fromEntries(sessions) };
  } catch {
    // The storage is disabled or its value damaged.
  }
  const fresh = { since: new Date().toISOString(), sessions: {} };
  try {
    localStorage.setItem(STORED, JSON.stringify(fresh));
  } catch {
    // As above.
  }
  return fresh;
}
