/** Times, sizes and paths as people read them. */

const relative = new Intl.RelativeTimeFormat(undefined, { numeric: "auto", style: "short" });

export function ago(iso: string | null, now = Date.now()): string {
  const then = iso ? Date.parse(iso) : Number.NaN;
  if (Number.isNaN(then)) return "";
  const seconds = Math.round((then - now) / 1000);
  if (seconds > -45) return "now";
  if (seconds > -3600) return relative.format(Math.round(seconds / 60), "minute");
  if (seconds > -86_400) return relative.format(Math.round(seconds / 3600), "hour");
  if (seconds > -86_400 * 30) return relative.format(Math.round(seconds / 86_400), "day");
  return new Date(then).toLocaleDateString();
}

export function count(value: number): string {
  if (value < 1000) return String(value);
  if (value < 1_000_000) return `${(value / 1000).toFixed(value < 10_000 ? 1 : 0)}k`;
  return `${(value / 1_000_000).toFixed(1)}M`;
}

export function baseName(path: string): string {
  return path.split(/[/\\]/).filter(Boolean).at(-1) ?? path;
}

/** A path as it looks from a folder. */
export function within(path: string, folder: string): string {
  const base = folder.endsWith("/") ? folder : `${folder}/`;
  return path.startsWith(base) ? path.slice(base.length) : path;
}

export function money(amount: number, currency: string): string {
  try {
    return new Intl.NumberFormat(undefined, { style: "currency", currency, maximumFractionDigits: amount < 1 ? 4 : 2 }).format(amount);
  } catch {
    return `${amount} ${currency}`;
  }
}
