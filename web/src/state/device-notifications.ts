/**
 * Notifications on this device: its subscription to Web Push, which events the user chose, the number on the
 * icon of the installed page, and the texts that the service worker shows.
 */
import { signal } from "@preact/signals";
import { t } from "../messages/messages.ts";
import { getApi, postApi } from "../wire/browser-login.ts";
import { asRecord } from "../wire/extension-methods.ts";

/** `waits`: an agent asks the user. `done`: a turn has ended. */
export type NotifiedEvent = "waits" | "done";
/** Why this browser cannot get notifications, or whether it does. */
export type PushState =
  "loading" | "insecure" | "unsupported" | "needsInstalling" | "notOffered" | "blocked" | "off" | "on";

const EVENTS: readonly NotifiedEvent[] = ["waits", "done"];
/** What the service worker reads: the texts, and the choice for a renewed subscription. */
const CACHE = "accord-notifications";
const SETTINGS = "./notifications.json";
const ENDPOINT_KEY = "accord.push";

export class DeviceNotifications {
  readonly state = signal<PushState>("loading");
  readonly events = signal<readonly NotifiedEvent[]>([]);
  readonly busy = signal(false);
  /** The result of the last test, or what went wrong; empty if there is nothing to say. */
  readonly message = signal("");
  readonly failed = signal(false);

  /** Finds out whether this browser is subscribed, and tells the gateway again. */
  async load(): Promise<void> {
    const state = hindrance();
    if (state !== null) {
      this.state.value = state;
      return;
    }
    try {
      const subscription = await (await registration()).pushManager.getSubscription();
      const events = subscription ? await storedEvents() : [];
      if (subscription && events.length > 0) {
        await storeSettings(events); // in the language of the page
        await sendSubscription(subscription, events);
      } else {
        await forgetEndpoint();
      }
      this.events.value = events;
      this.state.value = events.length > 0 ? "on" : "off";
    } catch {
      this.state.value = "off"; // the user is not logged in, or there is no connection
    }
  }

  /** Finds out whether the gateway offers notifications, before the user is asked for permission. */
  async checkOffer(): Promise<void> {
    await this.load();
    if (this.state.value !== "off") return;
    await this.run(async () => {
      await getApi("api/push/key");
    });
    if (this.failed.value) this.state.value = "notOffered";
  }

  /** Turns one kind of notification on or off. Called for a tap: only then may a page ask for permission. */
  async choose(event: NotifiedEvent, wanted: boolean): Promise<void> {
    const events = EVENTS.filter((one) => (one === event ? wanted : this.events.value.includes(one)));
    await this.run(async () => {
      if (events.length === 0) {
        await unsubscribe();
        this.state.value = "off";
      } else {
        if ((await Notification.requestPermission()) !== "granted") {
          this.state.value = Notification.permission === "denied" ? "blocked" : "off";
          return;
        }
        const subscription = await subscribe();
        await storeSettings(events);
        await sendSubscription(subscription, events);
        this.state.value = "on";
      }
      this.events.value = events;
    });
  }

  /** Lets the gateway send a notification to this device now. */
  async test(): Promise<void> {
    await this.run(async () => {
      const subscription = await (await registration()).pushManager.getSubscription();
      await postApi("api/push/test", { endpoint: subscription?.endpoint ?? "" });
      this.message.value = t("notifications.testSent");
    });
  }

  /** Ends the subscription, because the user signs out. */
  async signOut(): Promise<void> {
    if (this.state.value === "on") await unsubscribe().catch(() => undefined);
  }

  private async run(work: () => Promise<void>): Promise<void> {
    this.busy.value = true;
    this.failed.value = false;
    this.message.value = "";
    try {
      await work();
    } catch (error) {
      this.failed.value = true;
      this.message.value = error instanceof Error ? error.message : String(error);
    } finally {
      this.busy.value = false;
    }
  }
}

/** Shows the number of open questions on the icon of the installed page. */
export function showBadge(count: number): void {
  if (!("setAppBadge" in navigator)) return;
  const shown = count > 0 ? navigator.setAppBadge(count) : navigator.clearAppBadge();
  shown.catch(() => undefined);
}

/** Closes the notifications of questions that are not open any more. `isOpen` gets the id of a question. */
export async function closeAnswered(isOpen: (id: string) => boolean): Promise<void> {
  if (hindrance() !== null) return;
  const notifications = await (await registration()).getNotifications().catch(() => []);
  for (const notification of notifications) {
    const id = requestOf(asRecord(notification.data)["route"]);
    if (id !== null && !isOpen(id)) notification.close();
  }
}

/** The id of the question that a route leads to; null for another route. */
function requestOf(route: unknown): string | null {
  const match = typeof route === "string" ? /^#\/inbox\/(.+)$/.exec(route) : null;
  return match?.[1] ? decodeURIComponent(match[1]) : null;
}

/** Follows the service worker to the session or question of a notification. */
export function followNotifications(): void {
  if (!("serviceWorker" in navigator)) return;
  navigator.serviceWorker.addEventListener("message", (event) => {
    const route = asRecord(event.data)["route"];
    if (typeof route === "string" && route.startsWith("#/")) location.hash = route;
  });
}

/** Why this browser cannot be subscribed; null if it can. */
function hindrance(): PushState | null {
  if (!isSecureContext) return "insecure";
  if (!("serviceWorker" in navigator)) return "unsupported";
  if (!("PushManager" in globalThis) || !("Notification" in globalThis)) {
    // Safari on iOS offers notifications only to pages on the home screen.
    return "standalone" in navigator && navigator.standalone === false ? "needsInstalling" : "unsupported";
  }
  return Notification.permission === "denied" ? "blocked" : null;
}

async function registration(): Promise<ServiceWorkerRegistration> {
  if (!(await navigator.serviceWorker.getRegistration())) throw new Error(t("notifications.unsupported"));
  return navigator.serviceWorker.ready;
}

/** The subscription of this browser to the key of this gateway. */
async function subscribe(): Promise<PushSubscription> {
  const key = asRecord(await getApi("api/push/key"))["key"];
  const applicationServerKey = fromBase64(typeof key === "string" ? key : "");
  const { pushManager } = await registration();
  const known = await pushManager.getSubscription();
  if (known) {
    if (isSameKey(known.options.applicationServerKey, applicationServerKey)) return known;
    await known.unsubscribe(); // of another gateway, or one with a new key
  }
  return pushManager.subscribe({ userVisibleOnly: true, applicationServerKey });
}

async function unsubscribe(): Promise<void> {
  const subscription = await (await registration()).pushManager.getSubscription();
  await storeSettings([]);
  if (subscription) {
    await postApi("api/push/remove", { endpoint: subscription.endpoint });
    await subscription.unsubscribe();
  }
  localStorage.removeItem(ENDPOINT_KEY);
}

async function sendSubscription(
  subscription: PushSubscription,
  events: readonly NotifiedEvent[],
): Promise<void> {
  const previous = localStorage.getItem(ENDPOINT_KEY) ?? "";
  await postApi("api/push", { ...subscription.toJSON(), events, previous });
  localStorage.setItem(ENDPOINT_KEY, subscription.endpoint);
}

/** Removes a subscription that the browser has dropped, for example with its permission. */
async function forgetEndpoint(): Promise<void> {
  const endpoint = localStorage.getItem(ENDPOINT_KEY);
  if (endpoint === null) return;
  await postApi("api/push/remove", { endpoint });
  localStorage.removeItem(ENDPOINT_KEY);
}

async function storedEvents(): Promise<NotifiedEvent[]> {
  const response = await (await caches.open(CACHE)).match(SETTINGS);
  const stored: unknown = asRecord(await response?.json())["events"];
  return EVENTS.filter((event) => Array.isArray(stored) && stored.includes(event));
}

async function storeSettings(events: readonly NotifiedEvent[]): Promise<void> {
  const texts = {
    waits: t("notifications.waitsText"),
    asks: t("notifications.asksText"),
    done: t("notifications.doneText"),
    failed: t("notifications.failedText"),
    test: t("notifications.testText"),
    allow: t("notifications.allow"),
    reject: t("notifications.reject"),
  };
  await (await caches.open(CACHE)).put(SETTINGS, Response.json({ events, texts }));
}

function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (char) => char.charCodeAt(0));
}

function isSameKey(known: ArrayBuffer | null, key: Uint8Array): boolean {
  const bytes = new Uint8Array(known ?? new ArrayBuffer(0));
  return bytes.length === key.length && bytes.every((byte, index) => byte === key[index]);
}
