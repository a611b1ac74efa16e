/** Color theme and diff layout, stored in this browser, and media queries. */
import { effect, signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";

export const THEMES = ["system", "light", "dark"] as const;
export const TEXT_SIZES = ["small", "normal", "large"] as const;
export const FONTS = ["sans", "serif", "mono"] as const;
export type Theme = (typeof THEMES)[number];
export type TextSize = (typeof TEXT_SIZES)[number];
export type Font = (typeof FONTS)[number];
export type DiffLayout = "auto" | "unified";

const storedTheme = readStored("accord.theme");
export const theme = signal<Theme>(
  storedTheme === "light" || storedTheme === "dark" ? storedTheme : "system",
);
export const textSize = signal<TextSize>(TEXT_SIZES.find(isStored("accord.size")) ?? "normal");
export const font = signal<Font>(FONTS.find(isStored("accord.font")) ?? "sans");
export const diffLayout = signal<DiffLayout>(readStored("accord.diff") === "unified" ? "unified" : "auto");

effect(() => {
  store("accord.theme", theme.value);
  if (theme.value === "system") delete document.documentElement.dataset["theme"];
  else document.documentElement.dataset["theme"] = theme.value;
});

effect(() => {
  store("accord.size", textSize.value);
  document.documentElement.dataset["size"] = textSize.value;
});

effect(() => {
  store("accord.font", font.value);
  document.documentElement.dataset["font"] = font.value;
});

effect(() => store("accord.diff", diffLayout.value));

export function switchTheme(): void {
  theme.value = theme.value === "system" ? "light" : theme.value === "light" ? "dark" : "system";
}

/** Whether the page is dark, by choice or as the system. */
export function useDarkTheme(): boolean {
  const dark = useMedia("(prefers-color-scheme: dark)");
  return theme.value === "system" ? dark : theme.value === "dark";
}

/** Whether the window is at least this wide, in pixels. */
export function useMinWidth(width: number): boolean {
  return useMedia(`(min-width: ${width}px)`);
}

function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const update = () => setMatches(list.matches);
    update();
    list.addEventListener("change", update);
    return () => list.removeEventListener("change", update);
  }, [query]);
  return matches;
}

/** Whether the device has a touch screen instead of a mouse. There, Enter inserts a new line. */
export function isTouchDevice(): boolean {
  return matchMedia("(pointer: coarse) and (hover: none)").matches;
}

function isStored(key: string): (value: string) => boolean {
  const stored = readStored(key);
  return (value) => value === stored;
}

function readStored(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function store(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // The storage is disabled. The setting then lasts until a reload.
  }
}
