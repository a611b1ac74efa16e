/** What users do in the page, in Chromium, with the real gateway and the real coding agent. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { checkAccessibility } from "./browser-test.mjs";

/** A prompt whose command waits until `release` is called. */
function blockedCommand(folder) {
  const path = join(folder, "gate");
  execFileSync("mkfifo", [path]);
  return { prompt: `run echo first; cat gate; echo last`, release: () => writeFile(path, "through\n") };
}

/** Lets the agent run commands without permission requests. */
async function allowEverything(tab) {
  await tab.page.getByLabel("Mode", { exact: true }).selectOption("full-access");
  await tab.page.locator("select:has(option[value=full-access]:checked)").waitFor();
}

export const SCENARIOS = {
  async "complete turn"(test) {
    const tab = await test.openTab();
    await tab.page.getByRole("link", { name: "New session" }).waitFor();
    assert.equal(new URL(tab.page.url()).hash, "", "the address no longer contains the token");
    await tab.startSession();
    await tab.send("think: how to begin then plan: look; sum up then read README.md then list");
    await tab.waitForText("Done.");
    await tab.idle.waitFor();
    const thought = tab.page.getByRole("region", { name: "Thoughts" });
    await thought.getByRole("button").click();
    assert.equal(await thought.getByRole("button").getAttribute("aria-expanded"), "true");
    const toolCall = tab.page.getByRole("region", { name: /Read README.md, done/ });
    await toolCall.getByRole("button").first().click();
    await tab.waitForText("Read me");
    await tab.page.locator(".plan summary").click();
    await tab.page.locator(".plan li").first().waitFor();
    assert.deepEqual(await tab.page.locator(".plan li").count(), 2);
    await tab.page.getByRole("meter", { name: "Context in use" }).waitFor();
    const link = tab.page.locator(".session-link[aria-current=page]");
    assert.match(await link.innerText(), /accord/);
    // Completion of commands and files.
    await tab.prompt.fill("/he");
    await tab.page.getByRole("option", { name: /^\/help/ }).waitFor();
    await tab.prompt.fill("read @READ");
    await tab.page.getByRole("option", { name: "README.md" }).waitFor();
    await tab.prompt.press("Enter");
    assert.equal(await tab.prompt.inputValue(), "read @README.md ");
    test.assertClean();
  },

  async "permission requests and forms"(test) {
    const tab = await test.openTab();
    await tab.startSession();
    await tab.send("write notes.txt: hello");
    await tab.card.waitFor();
    // The focus stays in the prompt, and Enter there does not answer.
    assert.equal(await tab.focusedId(), "prompt");
    await tab.page.keyboard.press("Enter");
    assert.equal(await tab.card.count(), 1);
    assert.match(await tab.page.title(), /^\(1\)/);
    await tab.waitForText("hello", tab.card);
    // Answer with the keyboard.
    await tab.waitForAnswers();
    await tab.prompt.fill("next");
    await tab.page.keyboard.press("Alt+q");
    await tab.page.keyboard.press("1");
    await tab.waitForText("Done.");
    await tab.idle.waitFor();
    assert.equal((await readFile(join(test.folder, "notes.txt"), "utf8")).trim(), "hello");
    assert.equal(await tab.focusedId(), "prompt");
    assert.equal(await tab.prompt.inputValue(), "next", "the digit was not typed into the prompt");
    // The other options are in a menu. Reject the next request with the keyboard, and say what to do instead.
    await tab.send("write other.txt: secret");
    await tab.waitForAnswers();
    await tab.page.keyboard.press("Alt+q");
    await tab.card.getByRole("button", { name: /^4 more/ }).press("Enter");
    await tab.page.getByRole("menuitem").first().waitFor();
    assert.equal(await tab.page.getByRole("menuitem").count(), 4);
    await tab.page.keyboard.press("Escape");
    await tab.page.getByRole("menu").waitFor({ state: "detached" });
    await tab.card.getByRole("button", { name: /do this instead/ }).press("Enter");
    await tab.page.locator(".instead textarea:focus").waitFor();
    await tab.page.keyboard.type("list");
    await tab.page.keyboard.press("Enter");
    await tab.page.locator(".message.user").getByText("list", { exact: true }).waitFor();
    await tab.page.getByRole("region", { name: /^List .*, done/ }).waitFor();
    await tab.idle.waitFor();
    await assert.rejects(readFile(join(test.folder, "other.txt")));
    // A command is shown as a shell shows it, with its folder.
    await tab.send("run touch made.txt");
    await tab.waitForAnswers();
    assert.equal(await tab.card.locator("pre").first().innerText(), "$ touch made.txt");
    assert.equal(await tab.card.locator(".command-folder").innerText(), `in ${test.folder}`);
    const shown = (await tab.card.innerText()).split("touch made.txt").length - 1;
    assert.equal(shown, 1, "the command is shown once");
    await tab.answer("Reject");
    await tab.idle.waitFor();
    // Fill in a form from the inbox.
    await tab.send("ask: which color?");
    await tab.page.getByRole("group", { name: "Question from accord" }).waitFor();
    await tab.page.keyboard.press("Alt+i");
    const entry = tab.page.locator(".inbox-entry");
    await entry.getByText("which color?").first().waitFor();
    await entry.getByRole("textbox").first().fill("blue");
    await entry.getByRole("button", { name: "Send" }).click();
    await tab.page.getByText("No agent is waiting for you.").waitFor();
    await tab.page.goBack();
    await tab.waitForText(/blue/);
    await tab.idle.waitFor();
    test.assertClean();
  },

  async "copy, retry and edit"(test) {
    const origin = test.origin();
    await test.context.grantPermissions(["clipboard-read", "clipboard-write"], { origin });
    const tab = await test.openTab();
    const copied = () => tab.page.evaluate(() => navigator.clipboard.readText());
    const path = join(test.folder, "count.txt");
    await tab.startSession();
    await allowEverything(tab);
    execFileSync("mkfifo", [join(test.folder, "gate")]);
    const prompt = "run echo x >> count.txt; cat gate";
    const release = () => writeFile(join(test.folder, "gate"), "");
    await tab.send(prompt);
    // A turn shows how long it runs, and then how long it took.
    await tab.page.locator(".turn-status .turn-time").getByText(/^\d+ s$/).waitFor();
    await release();
    await tab.waitForText(/^took \d+ s$/);
    await tab.page.getByRole("button", { name: "Copy the answer" }).click();
    assert.match(await copied(), /^run echo x .*\n\nDone\./s);
    await tab.page.getByRole("button", { name: "Copy the prompt" }).click();
    assert.equal(await copied(), prompt);
    // The time of a prompt is known after a reload, too.
    await tab.page.reload();
    await tab.waitForText("Done.");
    const time = await tab.page.locator(".message-actions time").getAttribute("datetime");
    assert.ok(Math.abs(Date.parse(time) - Date.now()) < 3_600_000, time);
    // Retry: the same prompt once more, without the first turn.
    await tab.page.getByRole("button", { name: "Try once more" }).click();
    await tab.busy.waitFor();
    await release();
    await tab.idle.waitFor();
    await tab.waitForText("Done.");
    assert.deepEqual(await tab.userMessages(), [prompt]);
    // Edit: the prompt is in the field again, and what followed is gone.
    await tab.page.getByRole("button", { name: "Edit the prompt" }).click();
    await tab.page.getByText("What should the agent do?").first().waitFor();
    assert.deepEqual(await tab.userMessages(), []);
    assert.equal(await tab.prompt.inputValue(), prompt);
    assert.equal(await tab.focusedId(), "prompt");
    await tab.send("write done.txt: yes");
    await tab.waitForText("Done.");
    assert.match(await readFile(path, "utf8"), /x/); // what commands wrote is not undone
    test.assertClean();
  },

  /** With the mock gateway, whose agent shows any Markdown. */
  async "tables, task lists and images"(test) {
    await test.useMockGateway();
    const tab = await test.openTab();
    await tab.startSession();
    await tab.send("show | name | lines |\n|:--|--:|\n| a | 1 |\n\n- [x] done\n- [ ] to do\n- plain");
    await tab.idle.waitFor();
    const align = (cell) => cell.evaluate((element) => getComputedStyle(element).textAlign);
    const cells = tab.conversation.getByRole("cell");
    assert.match(await align(cells.nth(0)), /left$/);
    assert.match(await align(cells.nth(1)), /right$/);
    const style = (item) => item.evaluate((element) => getComputedStyle(element).listStyleType);
    const items = tab.conversation.getByRole("listitem");
    assert.deepEqual([await items.nth(0).innerText(), await style(items.nth(0))], ["☑ done", "none"]);
    assert.equal(await style(items.nth(2)), "disc");
    // An image opens in full size, and closes with Esc.
    await pasteImage(tab);
    await tab.page.getByRole("img", { name: "Image 1" }).waitFor();
    await tab.send("see this");
    await tab.page.getByRole("button", { name: "Show the image in full size" }).click();
    await tab.page.getByRole("dialog").getByRole("img").waitFor();
    await checkAccessibility(tab, "image");
    await tab.page.keyboard.press("Escape");
    await tab.page.getByRole("dialog").waitFor({ state: "detached" });
    // Messages, tool calls and the prompt have one width.
    await tab.idle.waitFor();
    const widths = await tab.page
      .locator(".message.agent, .prompt-editor")
      .evaluateAll((elements) => elements.map((element) => element.getBoundingClientRect().width));
    assert.equal(new Set(widths.map(Math.round)).size, 1, widths.join(", "));
    await checkAccessibility(tab, "table");
    test.assertClean();
  },

  /** With the mock gateway, whose agent shows any Markdown. */
  async "formulas and diagrams"(test) {
    await test.useMockGateway();
    const tab = await test.openTab();
    const loaded = [];
    tab.page.on("request", (request) => loaded.push(new URL(request.url()).pathname));
    await tab.startSession();
    await tab.send("show plain text without anything");
    await tab.idle.waitFor();
    assert.ok(!loaded.some((path) => /katex|diagram/i.test(path)), "nothing is loaded before it is needed");
    await tab.send("show $$\\frac{1}{2}$$ for $5, and $\\href{javascript:hacked=1}{x}$");
    await tab.conversation.locator("math mfrac").waitFor();
    const code = (text) => `\n\`\`\`mermaid\n${text}\n\`\`\`\n`;
    await tab.send(
      "show " +
        code("flowchart LR\n  A[Agent] --> B[Tool]") +
        code('%%{init: {"securityLevel": "loose", "htmlLabels": true, "themeCSS": "*{fill:red}"}}%%\n' +
          'flowchart LR\n  A["<img src=x onerror=parent.hacked=2>"] --> B\n  click A "javascript:hacked=3"') +
        code("not a diagram"),
    );
    const diagrams = tab.page.getByRole("img", { name: /^Diagram of/ });
    await diagrams.nth(1).waitFor();
    await tab.waitForText("This diagram could not be drawn.");
    await tab.idle.waitFor();
    for (const image of await diagrams.all()) {
      const { width, height } = await image.boundingBox();
      assert.ok(width > 50 && height > 20, `the diagram has a size: ${width} x ${height}`);
    }
    const sources = tab.page.getByRole("button", { name: "Source" });
    await sources.first().click();
    await tab.waitForText("A[Agent] --> B[Tool]");
    assert.equal(await tab.page.evaluate(() => globalThis.hacked), undefined);
    assert.equal(await tab.conversation.locator("a[href*=javascript], svg[onload], [onerror]").count(), 0);
    await checkAccessibility(tab, "formulas and diagrams");
    await tab.page.emulateMedia({ colorScheme: "dark" });
    await checkAccessibility(tab, "formulas and diagrams, dark");
    await tab.page.setViewportSize({ width: 390, height: 844 });
    assert.equal(await tab.fitsWidth(), true);
    // Mermaid reads the label as HTML. The policy of the frame keeps its handler from running.
    const blocked = /^Executing inline event handler violates/;
    test.pageErrors = test.pageErrors.filter((error) => !blocked.test(error));
    test.assertClean();
  },

  async "undo and rewind"(test) {
    const tab = await test.openTab();
    await tab.startSession();
    await allowEverything(tab);
    await tab.send("write undone.txt: hello");
    await tab.waitForText("Done.");
    await tab.idle.waitFor();
    await tab.page.getByRole("button", { name: "Undo", exact: true }).click();
    const panel = tab.page.getByRole("region", { name: "Go back to before" });
    await panel.getByText("1 file").waitFor();
    await checkAccessibility(tab, "undo");
    await panel.getByRole("button", { name: "write undone.txt: hello" }).click();
    await tab.page.getByText("1 file restored.").waitFor();
    assert.equal(await tab.prompt.inputValue(), "write undone.txt: hello");
    await tab.conversation.getByText("Done.").first().waitFor({ state: "detached" });
    assert.deepEqual(await tab.userMessages(), []);
    await assert.rejects(readFile(join(test.folder, "undone.txt")));
    await tab.send("/redo");
    await tab.waitForText("Done.");
    assert.equal((await readFile(join(test.folder, "undone.txt"), "utf8")).trim(), "hello");
    await tab.page.reload();
    await tab.waitForText("Done.");
    test.assertClean();
  },

  async "reload during a turn"(test) {
    const { prompt, release } = blockedCommand(test.folder);
    const tab = await test.openTab();
    await tab.startSession();
    await allowEverything(tab);
    await tab.send(prompt);
    await tab.terminal.getByText("first").waitFor();
    await tab.queue("list");
    await tab.page.getByRole("region", { name: "Queued prompts" }).waitFor();
    await tab.page.reload();
    await tab.busy.waitFor();
    await tab.terminal.getByText("first").waitFor();
    assert.deepEqual(await tab.userMessages(), [prompt]);
    await release();
    await tab.waitForText("Done.");
    // The queued prompt survived the reload. It is sent when the user asks for it.
    await tab.page.getByRole("button", { name: "Send now" }).click();
    await tab.waitForText("list");
    await tab.idle.waitFor();
    assert.deepEqual(await tab.userMessages(), [prompt, "list"]);
    test.assertClean();
  },

  async "two tabs on one session"(test) {
    const first = await test.openTab();
    await first.startSession();
    const second = await test.openTab(test.sessionAddress(first));
    await second.prompt.waitFor();
    await first.send("write shared.txt: both then read shared.txt");
    await first.card.waitFor();
    await second.card.waitFor();
    await second.answer("Allow");
    await first.card.waitFor({ state: "detached" });
    for (const tab of [first, second]) {
      await tab.waitForText("no model is connected"); // the end of the answer
      await tab.idle.waitFor();
    }
    assert.deepEqual(await second.messages(), await first.messages());
    // The second tab sends a prompt, and the first tab cancels the turn.
    const { prompt } = blockedCommand(test.folder);
    await allowEverything(second);
    await second.send(prompt);
    await first.page.locator(".message.user").getByText(prompt).waitFor();
    await first.busy.waitFor();
    await first.page.bringToFront(); // a tab in the background draws one frame per second
    await first.terminal.getByText("first").waitFor();
    await first.page.getByRole("button", { name: "Cancel this turn" }).click();
    for (const tab of [first, second]) {
      await tab.waitForText("This turn was canceled");
      await tab.idle.waitFor();
    }
    test.assertClean();
  },

  async "lost connection"(test) {
    const { prompt, release } = blockedCommand(test.folder);
    const tab = await test.openTab(await test.useProxy());
    const banner = tab.page.getByText("The connection was lost. Reconnecting…");
    await tab.startSession();
    await allowEverything(tab);
    await tab.send(prompt);
    await tab.terminal.getByText("first").waitFor();
    test.proxy.disconnect();
    await banner.waitFor();
    // The turn ends while the page is disconnected. A prompt that is sent meanwhile waits for the connection.
    await release();
    await tab.send("list");
    test.proxy.reconnect();
    await banner.waitFor({ state: "detached" });
    const answer = (inTab) => inTab.page.locator(".message.agent").getByText(/^list: /);
    await tab.page.locator(".message.user").getByText("list", { exact: true }).waitFor();
    await answer(tab).waitFor();
    await tab.idle.waitFor();
    const messages = await tab.messages();
    // A tab that loads the whole session shows the same messages.
    const fresh = await test.openTab(test.sessionAddress(tab));
    await fresh.page.getByLabel("Token or pairing link").waitFor({ state: "detached" });
    await answer(fresh).waitFor();
    assert.deepEqual(await fresh.messages(), messages);
    // Chromium logs the lost sockets and fetches as errors. There must be no other errors.
    test.pageErrors = test.pageErrors.filter(
      (error) => !/WebSocket|Failed to load resource|ERR_/.test(error),
    );
    test.foreignRequests = test.foreignRequests.filter((url) => !url.startsWith(test.origin()));
    test.assertClean();
  },

  async "installed page without a connection"(test) {
    const tab = await test.openTab(await test.useProxy());
    await tab.page.getByRole("link", { name: "New session" }).waitFor();
    await tab.page.evaluate(() => navigator.serviceWorker.ready.then(() => undefined));
    const devtools = await test.context.newCDPSession(tab.page);
    const manifest = await devtools.send("Page.getAppManifest");
    assert.deepEqual(manifest.errors, []);
    assert.equal(JSON.parse(manifest.data).name, "Accord");
    const { installabilityErrors } = await devtools.send("Page.getInstallabilityErrors");
    assert.deepEqual(
      installabilityErrors.map((error) => error.errorId).filter((error) => error !== "in-incognito"),
      [],
    );
    // Another address of the gateway does not take the place of the page.
    const address = tab.page.url();
    await tab.page.goto(new URL("/healthz", address).href);
    test.proxy.disconnect();
    await tab.page.goto(address);
    await tab.page.getByRole("heading", { name: "Could not connect" }).waitFor();
    test.proxy.reconnect();
    await tab.page.getByRole("button", { name: "Try again" }).click();
    await tab.page.getByRole("link", { name: "New session" }).waitFor();
    // What is kept are the files of the page, and no token.
    const kept = await tab.page.evaluate(async () => {
      const cache = await caches.open("accord-page");
      return (await cache.keys()).map((request) => request.url);
    });
    assert.ok(kept.every((url) => /\/$|\/assets\/|\/icon/.test(url) && !url.includes("token")), kept.join("\n"));
  },

  async "accessibility and keyboard"(test) {
    const tab = await test.openTab();
    for (const [scheme, width] of [
      ["light", 1280],
      ["dark", 390],
    ]) {
      await tab.page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
      await tab.page.setViewportSize({ width, height: 800 });
      await tab.page.goto(test.link.replace(/#.*/, "#/new"));
      await tab.chooseFolder();
      await checkAccessibility(tab, `new session, ${scheme}`);
      await tab.page.getByRole("button", { name: "Start" }).click();
      await tab.send(`think: it through then plan: look; change then write ${scheme}.py: x = "one word"`);
      await tab.waitForAnswers();
      await checkAccessibility(tab, `permission request, ${scheme}`);
      await tab.card.getByRole("button", { name: /^4 more/ }).click();
      await tab.page.getByRole("menuitem").first().waitFor();
      await checkAccessibility(tab, `menu of a permission request, ${scheme}`);
      await tab.page.keyboard.press("Escape");
      await tab.card.getByRole("button", { name: /do this instead/ }).click();
      await checkAccessibility(tab, `text in a permission request, ${scheme}`);
      await tab.page.keyboard.press("Escape");
      assert.equal(await tab.fitsWidth(), true);
      await tab.answer("Allow");
      await tab.waitForText("Done.");
      await tab.idle.waitFor();
      await checkAccessibility(tab, `conversation, ${scheme}`);
      // The changed words of code are marked.
      await tab.send(`write ${scheme}.py: x = "two word"`);
      await tab.waitForAnswers();
      await tab.card.locator("mark [class*=hljs]").first().waitFor();
      await checkAccessibility(tab, `marked words, ${scheme}`);
      await tab.answer("Allow");
      await tab.idle.waitFor();
    }
    // Move through the page with the keyboard.
    await tab.page.keyboard.press("Alt+l");
    const focusedRole = await tab.page.evaluate(() => document.activeElement?.getAttribute("role"));
    assert.equal(focusedRole, "log");
    await tab.page.keyboard.press("?");
    await tab.page.getByRole("dialog").waitFor();
    await checkAccessibility(tab, "keyboard shortcuts");
    await tab.page.keyboard.press("Escape");
    await tab.page.getByRole("dialog").waitFor({ state: "detached" });
    await tab.page.keyboard.press("Alt+p");
    assert.equal(await tab.focusedId(), "prompt");
    await tab.page.keyboard.press("Alt+i");
    await tab.page.locator("h2:focus").getByText("Inbox").waitFor();
    await tab.page.keyboard.press("Alt+n");
    await tab.page.locator("input[type=radio]:focus").waitFor();
    await tab.page.keyboard.press("Alt+t");
    assert.equal(await tab.page.evaluate(() => document.documentElement.dataset["theme"]), "light");
    test.assertClean();
  },

  /** With the mock gateway, whose agent does what the rehearsal model cannot do. */
  async "images, links, forms and a forgotten connection"(test) {
    const gateway = await test.useMockGateway();
    const tab = await test.openTab();
    await tab.startSession();
    await pasteImage(tab);
    await tab.page.getByRole("img", { name: "Image 1" }).waitFor();
    await tab.send("see this");
    await tab.waitForText("You said: see this");
    await tab.page.locator(".message.user img").waitFor();
    // An invalid form is not sent and shows an error.
    await tab.send("form");
    const form = tab.page.getByRole("group", { name: "Question from mock" });
    await form.getByLabel(/^Name/).fill("NO");
    await form.getByRole("button", { name: "Send" }).click();
    await form.getByText("Enter at least 3 characters").waitFor();
    const focusedName = await tab.page.evaluate(() => document.activeElement?.getAttribute("name"));
    assert.equal(focusedName, "name");
    await form.getByLabel(/^Name/).fill("Not-Small");
    await form.getByLabel("Library").check();
    await form.getByRole("button", { name: "Send" }).click();
    await form.getByText("Enter a text that matches").waitFor();
    await form.getByLabel(/^Name/).fill("small");
    await form.getByLabel("PyPI").check();
    await form.getByRole("button", { name: "Send" }).click();
    await tab.waitForText(
      /"content":{"name":"small","kind":"lib","places":\["PyPI"\],"count":2,"public":true}/,
    );
    await tab.idle.waitFor();
    // The page asks before it opens a link. Decline.
    await tab.send("link");
    const linkCard = tab.page.getByRole("group", { name: /open a web page/ });
    assert.equal(await linkCard.locator(".link-address strong").innerText(), "example.com");
    await linkCard.getByRole("button", { name: "Decline" }).click();
    await tab.waitForText("Answer: decline");
    await tab.idle.waitFor();
    // Two queued prompts are sent one after the other.
    await tab.send("long 60 10");
    await tab.queue("first");
    await tab.queue("second");
    await tab.page.getByRole("region", { name: "Queued prompts" }).getByText("second").waitFor();
    await tab.waitForText("You said: second");
    const messages = await tab.messages();
    assert.ok(messages.indexOf("You said: first") < messages.indexOf("You said: second"));
    await tab.idle.waitFor();
    // The gateway forgets the connection during a turn, so the page loads the session again.
    await tab.send("long 200 10");
    await tab.waitForText("Line 5 of the story.");
    gateway.connections.clear();
    for (const socket of gateway.sockets()) socket.terminate();
    await tab.waitForText("Line 200 of the story.");
    await tab.idle.waitFor();
    const blocks = tab.page.locator(".message.agent").last().locator(".block");
    const lines = (await blocks.allTextContents()).map((line) => line.trim());
    assert.deepEqual(
      lines,
      Array.from({ length: 200 }, (_, index) => `Line ${index + 1} of the story.`),
    );
    test.pageErrors = test.pageErrors.filter((error) => !/WebSocket/.test(error));
    test.assertClean();
  },

  async "hostile content"(test) {
    const hostile = [
      "# Title <script>window.hacked = 1</script>",
      '<img src=x onerror="window.hacked = 2"> <svg onload="window.hacked = 3"></svg>',
      "[link](javascript:window.hacked=4) ![pixel](https://evil.example/pixel.png)",
      "[good](https://example.com/) <style>body { display: none }</style>",
      '<form action="https://evil.example"><input name="password"></form>',
      "```html\n</code></pre><script>window.hacked = 5</script>\n```",
      "\u001b[31mred\u001b[0m \u001b]8;;javascript:window.hacked=6\u0007link\u001b]8;;\u0007",
    ].join("\n\n");
    await writeFile(join(test.folder, "evil.md"), hostile);
    await writeFile(join(test.folder, "<img src=x onerror=hacked=7>.txt"), "x");
    const tab = await test.openTab();
    await tab.startSession();
    await allowEverything(tab);
    await tab.send(
      "read evil.md then list then run cat evil.md " +
        'then think: <img src=x onerror="window.hacked = 8"> ' +
        "then write out.html: <script>window.hacked = 9</script>",
    );
    await tab.waitForText("Done.");
    await tab.idle.waitFor();
    await tab.expandAll(".tool-header[aria-expanded=false]:enabled, .thought-header[aria-expanded=false]");
    await tab.terminal.first().waitFor();
    assert.equal(await tab.page.evaluate(() => globalThis.hacked), undefined);
    const forbidden = "script, iframe, form, svg[onload], img:not([src^='data:']), [onerror], [style*=fixed]";
    assert.equal(await tab.conversation.locator(forbidden).count(), 0);
    for (const link of await tab.conversation.getByRole("link").all()) {
      assert.match(await link.getAttribute("href"), /^https:\/\/example\.com/);
      assert.equal(await link.getAttribute("rel"), "noopener noreferrer");
    }
    assert.ok(await tab.prompt.isVisible());
    test.assertClean();
  },
};

async function pasteImage(tab) {
  await tab.page.evaluate(async () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
    const blob = await new Promise((resolve) => canvas.toBlob(resolve));
    const clipboardData = new DataTransfer();
    clipboardData.items.add(new File([blob], "dot.png", { type: "image/png" }));
    const paste = new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true });
    document.getElementById("prompt").dispatchEvent(paste);
  });
}
