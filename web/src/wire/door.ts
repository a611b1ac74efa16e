/** What the page asks of the gateway over plain HTTP: to be let in, out, and a ticket for each WebSocket. */

export class NotLetIn extends Error {}

function address(path: string): URL {
  return new URL(path, document.baseURI);
}

async function post(path: string, headers: Record<string, string> = {}): Promise<Response> {
  const response = await fetch(address(path), { method: "POST", headers, credentials: "same-origin", cache: "no-store" });
  if (response.status === 401 || response.status === 403) {
    throw new NotLetIn(response.status === 401 ? "the token is not known here, or no longer" : await said(response));
  }
  if (!response.ok) throw new Error(await said(response));
  return response;
}

async function said(response: Response): Promise<string> {
  const text = (await response.text()).trim().slice(0, 300);
  return text || `the gateway answered ${response.status}`;
}

/** Trades a token for a cookie that scripts cannot read. */
export async function login(token: string): Promise<void> {
  await post("api/login", { Authorization: `Bearer ${token}` });
}

export async function logout(): Promise<void> {
  await post("api/logout");
}

/** A ticket opens one WebSocket, within half a minute. */
export async function ticket(): Promise<string> {
  const body: unknown = await (await post("api/ticket")).json();
  const value = (body as { ticket?: unknown } | null)?.ticket;
  if (typeof value !== "string") throw new Error("the gateway gave no ticket");
  return value;
}

export async function socketAddress(agent: string | null): Promise<string> {
  const url = address(agent === null ? "acp" : `acp/${encodeURIComponent(agent)}`);
  url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
  url.hash = "";
  url.searchParams.set("ticket", await ticket());
  return url.href;
}

/** The token of a pairing link, `#token=...`, taken out of the address bar and the history before anything else happens. */
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
