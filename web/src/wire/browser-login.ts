/** The gateway's HTTP endpoints: login, logout, and a one-time ticket for each WebSocket. */
import { t } from "../messages/messages.ts";

/** The gateway does not accept the token or the login cookie. */
export class AccessDenied extends Error {}

/** Exchanges a token for a login cookie that scripts cannot read. */
export async function login(token: string): Promise<void> {
  await post("api/login", { Authorization: `Bearer ${token}` });
}

export async function logout(): Promise<void> {
  await post("api/logout");
}

/** The WebSocket address of an agent (`null`: the default agent), with a new ticket in its query. */
export async function socketAddress(agent: string | null): Promise<string> {
  const url = gatewayUrl(agent === null ? "acp" : `acp/${encodeURIComponent(agent)}`);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.hash = "";
  url.searchParams.set("ticket", await requestTicket());
  return url.href;
}

/**
 * Returns the token of a share link (`#share=...`). It stays in the address, so that a reload works, and is not
 * exchanged for a cookie, so that it does not replace the login of this browser.
 */
export function takeShareToken(): string | null {
  shareToken = /^#share=([\w-]+)$/.exec(location.hash)?.[1] ?? null;
  return shareToken;
}

/** The token of the share link that this tab shows. */
let shareToken: string | null = null;

/** Returns the token of a pairing link (`#token=...`) and removes it from the address bar and the history. */
export function takeToken(): string | null {
  const match = /^#token=(.+)$/.exec(location.hash);
  if (!match?.[1]) return null;
  history.replaceState(null, "", location.pathname + location.search);
  try {
    return decodeURIComponent(match[1]);
  } catch {
    return match[1];
  }
}

/** A ticket opens one WebSocket and expires after 30 seconds. */
async function requestTicket(): Promise<string> {
  const headers = shareToken === null ? undefined : { Authorization: `Bearer ${shareToken}` };
  const body: unknown = await (await post("api/ticket", headers)).json();
  const ticket = (body as { ticket?: unknown } | null)?.ticket;
  if (typeof ticket !== "string") throw new Error(t("login.noTicket"));
  return ticket;
}

/** Reads from one of the gateway's endpoints. */
export async function getApi(path: string): Promise<unknown> {
  return (await send(path, { method: "GET" })).json();
}

/** Posts JSON to one of the gateway's endpoints. */
export async function postApi(path: string, body: unknown): Promise<void> {
  const headers = { "Content-Type": "application/json" };
  await send(path, { method: "POST", headers, body: JSON.stringify(body) });
}

function post(path: string, headers: Record<string, string> = {}): Promise<Response> {
  return send(path, { method: "POST", headers });
}

async function send(path: string, options: RequestInit): Promise<Response> {
  const credentials = shareToken === null ? "same-origin" : "omit";
  const response = await fetch(gatewayUrl(path), { ...options, credentials, cache: "no-store" });
  if (response.status === 401) throw new AccessDenied(t("login.invalidToken"));
  if (response.status === 403) throw new AccessDenied(await errorText(response));
  if (!response.ok) throw new Error(await errorText(response));
  return response;
}

async function errorText(response: Response): Promise<string> {
  const text = (await response.text()).trim().slice(0, 300);
  return text || t("login.status", { status: response.status });
}

function gatewayUrl(path: string): URL {
  return new URL(path, document.baseURI);
}
