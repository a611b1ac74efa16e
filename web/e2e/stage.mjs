/** A real Chromium in front of a real gateway: what every scene needs. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import net from "node:net";
import { chromium } from "playwright-core";
import { serve } from "../dev/stand-in.mjs";

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
/** Long, for machines with other things to do; nothing waits that long when all is well. */
const PATIENCE = Number(process.env["ACCORD_E2E_PATIENCE"] ?? 90_000);

export class Stage {
  /** What went wrong in a page, and what it asked of others. Both stay empty. */
  faults = [];
  strangers = [];
  pages = [];

  constructor({ link, folder, executable, reader, revoking }) {
    /** A token that only reads, and the command that revokes one. */
    this.reader = reader;
    this.revoking = revoking;
    this.link = link;
    this.folder = folder;
    this.executable = executable;
  }

  async open() {
    this.browser = await chromium.launch({ executablePath: this.executable, args: FLAGS });
    this.context = await this.browser.newContext({ viewport: { width: 1280, height: 800 } });
    this.context.setDefaultTimeout(PATIENCE);
  }

  async close() {
    await this.browser?.close();
    this.proxy?.close();
    this.standIn?.close();
  }

  /** A tab. What it logs as an error, and every request that leaves the gateway, is remembered. */
  async tab(address = this.link, context = this.context) {
    const page = await context.newPage();
    const own = new URL(address).host;
    page.on("pageerror", (error) => this.faults.push(error.message));
    page.on("console", (message) => {
      if (message.type() === "error") this.faults.push(message.text());
    });
    page.on("request", (request) => {
      const url = new URL(request.url());
      if (url.protocol !== "data:" && url.protocol !== "blob:" && url.host !== own) this.strangers.push(request.url());
    });
    await page.goto(address);
    this.pages.push(page);
    return new Tab(page, this.folder);
  }

  origin() {
    return new URL(this.link).origin;
  }

  /** Another browser, which knows nothing of the first one's cookie. */
  async stranger() {
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 800 } });
    context.setDefaultTimeout(PATIENCE);
    return context;
  }

  revoke(token) {
    const [command, ...words] = JSON.parse(this.revoking);
    execFileSync(command, [...words, token.split("_")[1]]);
  }

  /** A scripted agent and its gateway, instead of the real ones. */
  async scripted() {
    this.standIn = await serve(0);
    this.link = `http://127.0.0.1:${this.standIn.port}/`;
    return this.standIn;
  }

  /** The same gateway through a wire that can be cut. */
  async wire() {
    this.proxy = new Wire(Number(new URL(this.link).port));
    const port = await this.proxy.open();
    return this.link.replace(/:\d+\//, `:${port}/`);
  }

  clean() {
    assert.deepEqual(this.faults, []);
    assert.deepEqual(this.strangers, []);
  }
}

export class Tab {
  constructor(page, folder) {
    this.page = page;
    this.folder = folder;
    this.prompt = page.getByRole("textbox", { name: "Prompt" });
    this.log = page.getByRole("log");
    this.idle = page.locator(".log[aria-busy=false]");
    this.busy = page.locator(".log[aria-busy=true]");
    this.card = page.getByRole("group", { name: "May I?" });
  }

  async begin(agent = null) {
    await this.page.getByRole("link", { name: "New session" }).click();
    if (agent !== null) await this.page.getByRole("radio", { name: agent }).check();
    await this.page.getByLabel("Folder", { exact: true }).fill(this.folder);
    await this.page.getByRole("button", { name: "Start" }).click();
    await this.prompt.or(this.page.getByRole("group", { name: /^Sign in to/ })).waitFor();
  }

  /** This place of the page, for another tab. */
  address() {
    return this.page.url();
  }

  async say(text) {
    await this.prompt.fill(text);
    await this.prompt.press("Enter");
  }

  /** Everything that agent and user said, in order. */
  async texts() {
    return (await this.page.locator(".message").allTextContents()).map((text) => text.trim());
  }

  async shows(text, where = this.log) {
    await where.getByText(text).first().waitFor();
  }

  async choose(name) {
    await this.card.getByRole("button", { name, exact: true }).click();
  }
}

class Wire {
  sockets = new Set();
  cuts = false;

  constructor(port) {
    this.port = port;
    this.server = net.createServer((near) => {
      if (this.cuts) {
        near.destroy();
        return;
      }
      const far = net.connect(this.port, "127.0.0.1");
      for (const [one, other] of [[near, far], [far, near]]) {
        this.sockets.add(one);
        one.on("data", (data) => other.write(data));
        one.on("error", () => undefined);
        one.on("close", () => {
          this.sockets.delete(one);
          other.destroy();
        });
      }
    });
  }

  open() {
    return new Promise((resolve) => this.server.listen(0, "127.0.0.1", () => resolve(this.server.address().port)));
  }

  /** Destroys everything, and lets nothing through until `mend`. */
  cut() {
    this.cuts = true;
    for (const socket of this.sockets) socket.destroy();
  }

  mend() {
    this.cuts = false;
  }

  close() {
    this.cut();
    this.server.close();
  }
}
