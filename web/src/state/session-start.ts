/** Starts a session from what the user chose: agent, folder, perhaps a worktree, and the first prompt. */
import { signal } from "@preact/signals";
import type { Gateway } from "./gateway.ts";
import { newPrompt } from "./prompt-queue.ts";
import type { Session } from "./session.ts";

export interface SessionChoice {
  agent: string;
  folder: string;
  /** The name of a new worktree; empty for a name by the time; null to work in the folder itself. */
  worktree: string | null;
  prompt: string;
}

/** What the user should know about worktrees that were just created, by folder. */
export const worktreeNotes = signal<Readonly<Record<string, readonly string[]>>>({});

export async function startSession(gateway: Gateway, choice: SessionChoice): Promise<Session> {
  let cwd = choice.folder.trim();
  if (choice.worktree !== null) {
    const created = await gateway.manage.createWorktree(cwd, choice.worktree.trim());
    cwd = created.cwd;
    if (created.notes.length > 0) worktreeNotes.value = { ...worktreeNotes.value, [cwd]: created.notes };
  }
  const session = await gateway.createSession(choice.agent, cwd);
  const text = choice.prompt.trim();
  if (text !== "") session.submit(newPrompt([{ type: "text", text }]));
  return session;
}
