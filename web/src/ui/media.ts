/** What kind of screen this is. */
import { useEffect, useState } from "preact/hooks";

export function useMedia(query: string): boolean {
  const [matches, setMatches] = useState(() => matchMedia(query).matches);
  useEffect(() => {
    const list = matchMedia(query);
    const changed = () => setMatches(list.matches);
    changed();
    list.addEventListener("change", changed);
    return () => list.removeEventListener("change", changed);
  }, [query]);
  return matches;
}

export function useWide(width: number): boolean {
  return useMedia(`(min-width: ${width}px)`);
}

/** Fingers, not a mouse and a keyboard: Enter makes a new line there. */
export function touch(): boolean {
  return matchMedia("(pointer: coarse) and (hover: none)").matches;
}
