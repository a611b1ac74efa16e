/**
 * Keeps the files of the page, so that it opens without a connection and then says what is missing, and shows
 * notifications. It keeps no conversation and no token.
 */
const CACHE = "accord-page";
/** The one key of the page itself: its address can hold a token. */
const PAGE = new URL("./", self.registration.scope).href;
/** Where the page stores the texts of notifications, and which events the user chose. */
const NOTIFICATIONS = "accord-notifications";
const SETTINGS = new URL("./notifications.json", PAGE).href;

self.addEventListener("install", (event) => {
  event.waitUntil(keepPage().then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  event.waitUntil(self.clients.claim());
});

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  if (request.method !== "GET" || url.origin !== self.location.origin) return;
  const isPage = request.mode === "navigate" && url.pathname === new URL(PAGE).pathname;
  if (isPage && request.destination !== "iframe") event.respondWith(fetchPage(request));
  else if (url.pathname.startsWith(new URL("assets/", PAGE).pathname)) event.respondWith(fetchAsset(request));
});

/** The page from the gateway; the kept one if the gateway cannot be reached. */
async function fetchPage(request) {
  try {
    const response = await fetch(request);
    if (response.ok) (await caches.open(CACHE)).put(PAGE, response.clone());
    return response;
  } catch (error) {
    const kept = await caches.match(PAGE, { ignoreVary: true });
    if (kept) return kept;
    throw error;
  }
}

/** A file whose name changes with its content. */
async function fetchAsset(request) {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request, { ignoreVary: true });
  if (kept) return kept;
  const response = await fetch(request);
  if (response.ok) await cache.put(request, response.clone());
  return response;
}

/** Keeps the page and the files that it names, and forgets those of earlier versions. */
async function keepPage() {
  await caches.delete(CACHE);
  const cache = await caches.open(CACHE);
  const response = await fetch(PAGE, { cache: "no-cache" });
  if (!response.ok) return;
  const text = await response.clone().text();
  await cache.put(PAGE, response);
  const names = [...text.matchAll(/(?:src|href)="(\.\/assets\/[^"]+|\.\/icon[^"]*)"/g)].map((match) => match[1]);
  await cache.addAll(names.map((name) => new URL(name, PAGE).href));
}

self.addEventListener("push", (event) => {
  event.waitUntil(showNotification(readMessage(event.data)));
});

self.addEventListener("notificationclick", (event) => {
  // The buttons open the question, too. Only the page, which shows all of it, can answer.
  event.notification.close();
  event.waitUntil(openRoute(event.notification.data?.route));
});

self.addEventListener("pushsubscriptionchange", (event) => {
  event.waitUntil(renewSubscription(event));
});

function readMessage(data) {
  try {
    return data.json();
  } catch {
    return {};
  }
}

/** Browsers withdraw the permission if a message shows no notification, so there is one for each. */
async function showNotification({ kind, pending, route }) {
  const { texts = {} } = await readSettings();
  const asks = kind === "permission_requested" || kind === "question_asked";
  const ended = kind === "turn_ended" || kind === "turn_failed";
  const name = { permission_requested: "waits", question_asked: "asks", turn_ended: "done", turn_failed: "failed" };
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  if (Number.isInteger(pending) && self.navigator.setAppBadge) {
    await self.navigator.setAppBadge(pending).catch(() => undefined);
  }
  await self.registration.showNotification("Accord", {
    body: texts[name[kind] ?? kind] ?? "",
    icon: new URL("./icon-192.png", PAGE).href,
    badge: new URL("./badge-96.png", PAGE).href,
    // A newer notification of the same question or session replaces the older one.
    tag: isRoute(route) ? route : "accord",
    renotify: asks,
    // The user sees the page already.
    silent: windows.some((client) => client.visibilityState === "visible"),
    requireInteraction: asks,
    data: { route: isRoute(route) ? route : ended ? "#/" : "#/inbox" },
    actions:
      kind === "permission_requested"
        ? [
            { action: "allow", title: texts.allow ?? "Allow\u2026" },
            { action: "reject", title: texts.reject ?? "Reject\u2026" },
          ]
        : [],
  });
}

/** Shows the question or the session in an open window of the page, or in a new one. */
async function openRoute(route) {
  const hash = isRoute(route) ? route : "#/";
  const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
  const [open] = windows.filter((client) => client.url.startsWith(PAGE));
  if (!open) return self.clients.openWindow(PAGE + hash);
  open.postMessage({ route: hash });
  return open.focus().catch(() => undefined);
}

/** Only a part of this page: a message cannot lead to another address. */
function isRoute(route) {
  return typeof route === "string" && route.startsWith("#/");
}

/** The push service has replaced the subscription: tell the gateway. */
async function renewSubscription(event) {
  const { events = [] } = await readSettings();
  const old = event.oldSubscription;
  const subscription =
    event.newSubscription ?? (old && (await self.registration.pushManager.subscribe(old.options)));
  if (!subscription || events.length === 0) return;
  const body = { ...subscription.toJSON(), events, previous: old?.endpoint ?? "" };
  await fetch(new URL("./api/push", PAGE), {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    credentials: "same-origin",
    body: JSON.stringify(body),
  });
}

async function readSettings() {
  const cache = await caches.open(NOTIFICATIONS);
  const kept = await cache.match(SETTINGS);
  return kept ? kept.json() : {};
}
