/** Formats times, numbers, amounts of money and paths for display. */
import { languageCode, t } from "../messages/messages.ts";

export function relativeTime(iso: string | null, now = Date.now()): string {
  const time = iso ? Date.parse(iso) : Number.NaN;
  if (Number.isNaN(time)) return "";
  const seconds = Math.round((time - now) / 1000);
  const relative = new Intl.RelativeTimeFormat(languageCode(), { numeric: "auto", style: "short" });
  if (seconds > -45) return t("time.now");
  if (seconds > -3600) return relative.format(Math.round(seconds / 60), "minute");
  if (seconds > -86_400) return relative.format(Math.round(seconds / 3600), "hour");
  if (seconds > -86_400 * 30) return relative.format(Math.round(seconds / 86_400), "day");
  return new Date(time).toLocaleDateString();
}

export function shortNumber(value: number): string {
  if (value < 1000) return String(value);
  if (value < 1_000_000) return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

export function currencyAmount(amount: number, currency: string): string {
  const options = { style: "currency", currency, maximumFractionDigits: amount < 1 ? 4 : 2 } as const;
  try {
    return new Intl.NumberFormat(undefined, options).format(amount);
  } catch {
    return `${amount} ${currency}`;
  }
}

export function baseName(path: string): string {
  return path.split(/[/\\]/).filter(Boolean).at(-1) ?? path;
}

/** The name of a folder in lists. One of a worktree begins with the name of its repository. */
export function folderName(path: string): string {
  const worktree = /([^/\\]+)-worktrees[/\\]([^/\\]+)$/.exec(path);
  return worktree ? `${worktree[1]} · ${worktree[2]}` : baseName(path);
}

/** The path relative to the folder if it is inside, otherwise the path itself. */
export function relativePath(path: string, folder: string): string {
  const base = folder.endsWith("/") ? folder : `${folder}/`;
  return path.startsWith(base) ? path.slice(base.length) : path;
}

/** How long something takes, such as `12 s` or `3 min 5 s`; nothing for less than a second. */
export function duration(milliseconds: number): string {
  const seconds = Math.floor(milliseconds / 1000);
  if (seconds < 1) return "";
  if (seconds < 60) return t("time.seconds", { seconds });
  return t("time.minutes", { minutes: Math.floor(seconds / 60), seconds: seconds % 60 });
}

/** The time of day, with the date if it is not today. */
export function clockTime(time: number, now = Date.now()): string {
  const date = new Date(time);
  const today = date.toDateString() === new Date(now).toDateString();
  const day = today ? {} : ({ month: "short", day: "numeric" } as const);
  return date.toLocaleString(undefined, { ...day, hour: "numeric", minute: "2-digit" });
}
