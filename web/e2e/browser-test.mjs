/** What every browser scenario needs: Chromium, tabs with the page, and a proxy that can lose connections. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile } from "node:fs/promises";
import net from "node:net";
import { chromium } from "playwright-core";
import { serve } from "../dev/mock-gateway.mjs";

const FLAGS = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--disable-dev-shm-usage",
];
/** Long, for busy machines. Scenarios that work never wait that long. */
export const TIMEOUT_MS = Number(process.env["ACCORD_E2E_PATIENCE"] ?? 300_000);

/** Starts Chromium, which several tests may use. */
export function startBrowser(executablePath) {
  return chromium.launch({ executablePath, args: FLAGS, timeout: TIMEOUT_MS });
}

/** One scenario: its tabs in a browser. `link` is the pairing link of the gateway. */
export class BrowserTest {
  /** Errors in the pages, and requests to other servers. `assertClean` expects none. */
  pageErrors = [];
  foreignRequests = [];
  pages = [];
  contexts = [];

  constructor(browser, { link, folder, readOnlyToken, revokeCommand, killCommand, certificate }) {
    this.browser = browser;
    this.link = link;
    this.folder = folder;
    this.readOnlyToken = readOnlyToken;
    this.revokeCommand = revokeCommand;
    this.killCommand = killCommand;
    /** The files of the certificate and the key of a server that the gateway trusts. */
    this.certificate = certificate;
  }

  async open() {
    this.context = await this.newContext();
  }

  /** Closes everything of this test, but not the browser. */
  async close() {
    for (const context of this.contexts) await context.close();
    this.proxy?.close();
    this.pushService?.close();
    this.mockGateway?.close();
  }

  /** A browser context with its own cookies and storage. */
  async newContext(options = {}) {
    const viewport = { width: 1280, height: 800 };
    const context = await this.browser.newContext({ viewport, ...options });
    context.setDefaultTimeout(TIMEOUT_MS);
    this.contexts.push(context);
    return context;
  }

  /** Opens a tab. Records its errors and its requests to other servers. */
  async openTab(address = this.link, context = this.context) {
    const page = await context.newPage();
    const { host } = new URL(address);
    page.on("pageerror", (error) => this.pageErrors.push(error.message));
    page.on("console", (message) => {
      if (message.type() === "error") this.pageErrors.push(message.text());
    });
    page.on("request", (request) => {
      const url = new URL(request.url());
      const local = url.protocol === "data:" || url.protocol === "blob:" || url.host === host;
      if (!local) this.foreignRequests.push(request.url());
    });
    await page.goto(address);
    this.pages.push(page);
    return new TestTab(page, this.folder);
  }

  /** The address of another tab's session on the gateway, without a token. */
  sessionAddress(tab) {
    return this.link.replace(/#.*/, new URL(tab.page.url()).hash);
  }

  origin() {
    return new URL(this.link).origin;
  }

  revoke(token) {
    const [command, ...args] = this.revokeCommand;
    execFileSync(command, [...args, token.split("_")[1]]);
  }

  /** Uses the mock gateway with its scripted agent instead of the real gateway. */
  async useMockGateway() {
    this.mockGateway = await serve(0);
    this.link = `http://127.0.0.1:${this.mockGateway.port}/`;
    return this.mockGateway;
  }

  /** Starts a proxy in front of the gateway and returns the pairing link through it. */
  async useProxy() {
    this.proxy = new BreakableProxy(Number(new URL(this.link).port));
    const port = await this.proxy.listen();
    return this.link.replace(/:\d+\//, `:${port}/`);
  }

  assertClean() {
    assert.deepEqual(this.pageErrors, []);
    assert.deepEqual(this.foreignRequests, []);
  }
}

const AXE = new URL("../node_modules/axe-core/axe.min.js", import.meta.url);

/** Fails if axe finds a violation of WCAG 2.2 AA in the page as it is now. */
export async function checkAccessibility(tab, place) {
  if (!(await tab.page.evaluate(() => "axe" in globalThis))) {
    await tab.page.evaluate(await readFile(AXE, "utf8"));
  }
  const { violations } = await tab.page.evaluate(() =>
    globalThis.axe.run(document, {
      runOnly: ["wcag2a", "wcag2aa", "wcag21aa", "wcag22aa"],
      resultTypes: ["violations"],
    }),
  );
  const found = violations.map(
    (rule) => `${place}: ${rule.id}: ${rule.nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`,
  );
  assert.deepEqual(found, []);
}

/** A tab with the page. */
class TestTab {
  constructor(page, folder) {
    this.page = page;
    this.folder = folder;
    this.prompt = page.getByRole("textbox", { name: "Prompt" });
    this.conversation = page.getByRole("log");
    this.idle = page.locator(".conversation[aria-busy=false]");
    this.busy = page.locator(".conversation[aria-busy=true]");
    this.card = page.getByRole("group", { name: "Permission needed" });
    this.terminal = page.locator(".terminal-output");
  }

  async startSession(agent = null) {
    await this.page.getByRole("link", { name: "New session" }).click();
    if (agent !== null) await this.page.getByRole("radio", { name: agent }).check();
    await this.chooseFolder();
    await this.page.getByRole("button", { name: "Start" }).click();
    await this.prompt.or(this.page.getByRole("group", { name: /^Sign in to/ })).waitFor();
  }

  async chooseFolder() {
    const folder = this.page.getByLabel("Folder", { exact: true });
    // The default may arrive while the field is being filled, and then both are in it.
    do await folder.fill(this.folder);
    while ((await folder.inputValue()) !== this.folder);
  }

  async send(text) {
    await this.prompt.fill(text);
    await this.prompt.press("Enter");
  }

  /** Queues a prompt during a turn. */
  async queue(text) {
    await this.prompt.fill(text);
    await this.prompt.press("Alt+Enter");
  }

  /** The texts of all messages, of agent and user, in order. */
  async messages() {
    return (await this.page.locator(".message").allTextContents()).map((text) => text.trim());
  }

  async userMessages() {
    return this.page.locator(".message.user").allTextContents();
  }

  async waitForText(text, where = this.conversation) {
    await where.getByText(text).first().waitFor();
  }

  /** Answers the permission request. */
  async answer(name) {
    await this.card.getByRole("button", { name, exact: true }).click();
  }

  /** Waits until the answers of the permission request can be clicked. */
  async waitForAnswers() {
    await this.card.locator(".button-row button:enabled").first().waitFor();
  }

  async focusedId() {
    return this.page.evaluate(() => document.activeElement?.id);
  }

  async fitsWidth() {
    return this.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth);
  }

  /** Expands the matching tool calls and thoughts. */
  async expandAll(selector) {
    const collapsed = this.page.locator(selector);
    while ((await collapsed.count()) > 0) await collapsed.first().click();
  }
}

/** A TCP proxy that can drop all connections and refuse new ones. */
class BreakableProxy {
  sockets = new Set();
  broken = false;

  constructor(port) {
    this.server = net.createServer((client) => {
      if (this.broken) {
        client.destroy();
        return;
      }
      const server = net.connect(port, "127.0.0.1");
      this.forward(client, server);
      this.forward(server, client);
    });
  }

  forward(from, to) {
    this.sockets.add(from);
    from.on("data", (data) => to.write(data));
    from.on("error", () => undefined);
    from.on("close", () => {
      this.sockets.delete(from);
      to.destroy();
    });
  }

  listen() {
    return new Promise((resolve) =>
      this.server.listen(0, "127.0.0.1", () => resolve(this.server.address().port)),
    );
  }

  disconnect() {
    this.broken = true;
    for (const socket of this.sockets) socket.destroy();
  }

  reconnect() {
    this.broken = false;
  }

  close() {
    this.disconnect();
    this.server.close();
  }
}
