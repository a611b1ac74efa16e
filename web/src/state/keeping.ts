/** What a tab remembers over a reload, and forgets when its user signs out: what was typed, and not yet sent. */

const OURS = "accord.";

export function kept(key: string): string | null {
  try {
    return sessionStorage.getItem(OURS + key);
  } catch {
    return null;
  }
}

/** Remembers it if the browser lets it; nothing is remembered of an empty text. */
export function keep(key: string, text: string): void {
  try {
    if (text === "") sessionStorage.removeItem(OURS + key);
    else sessionStorage.setItem(OURS + key, text);
  } catch {
    // Too large, or a browser that keeps nothing: it lives as long as the page.
  }
}

export function forgetAll(): void {
  try {
    for (const key of Object.keys(sessionStorage)) if (key.startsWith(OURS)) sessionStorage.removeItem(key);
  } catch {
    // A browser that keeps nothing has nothing to forget.
  }
}
