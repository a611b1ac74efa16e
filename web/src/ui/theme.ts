/** Light, dark, or as the system says; and the other choices about looks that this browser remembers. */
import { effect, signal } from "@preact/signals";

export type Theme = "system" | "light" | "dark";
export type DiffLayout = "auto" | "unified";

function kept(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function keep(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // A browser that keeps nothing still shows everything.
  }
}

const before = kept("accord.theme");
export const theme = signal<Theme>(before === "light" || before === "dark" ? before : "system");
export const diffLayout = signal<DiffLayout>(kept("accord.diff") === "unified" ? "unified" : "auto");

effect(() => {
  keep("accord.theme", theme.value);
  if (theme.value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
});

effect(() => keep("accord.diff", diffLayout.value));

export function nextTheme(): void {
  theme.value = theme.value === "system" ? "light" : theme.value === "light" ? "dark" : "system";
}
