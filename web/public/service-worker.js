/**
 * Keeps the files of the page, so that it opens without a connection and then says what is missing. It keeps
 * nothing else: no conversation, no token.
 */
const CACHE = "accord-page";
/** The one key of the page itself: its address can hold a token. */
const PAGE = new URL("./", self.registration.scope).href;

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
  if (request.mode === "navigate") event.respondWith(fetchPage(request));
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
