/** Notifications of the browser, for questions that come while the page is out of sight. */
import { signal } from "@preact/signals";
import { visible } from "../text/visible.ts";
import type { InboxItem } from "../wire/vendor.ts";

type Permission = "granted" | "denied" | "default" | "unsupported";

export const permission = signal<Permission>("Notification" in globalThis ? Notification.permission : "unsupported");

export async function allow(): Promise<void> {
  if (permission.value !== "unsupported") permission.value = await Notification.requestPermission();
}

export function notify(item: InboxItem, text: string): void {
  if (permission.value !== "granted" || !document.hidden) return;
  try {
    const shown = new Notification(visible(item.title ?? `${item.agent} is waiting for you`), { body: visible(text).slice(0, 200), tag: item.id });
    shown.onclick = () => {
      window.focus();
      location.hash = `#/inbox`;
      shown.close();
    };
  } catch {
    // Some phones let only service workers notify; the count in the title remains.
  }
}
