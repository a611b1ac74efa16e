/** What a person does in the page, from the first link to the last answer; each against the real gateway and agent. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";

/** A command that has begun and waits until somebody writes into the pipe. */
function gate(folder) {
  const path = join(folder, "gate");
  execFileSync("mkfifo", [path]);
  return { command: `run echo first; cat gate; echo last`, open: () => writeFile(path, "through\n") };
}

/** Commands run without a question, as the user of this page says. */
async function trust(tab) {
  const mode = tab.page.getByLabel("Mode", { exact: true });
  await mode.selectOption("full-access");
  await tab.page.locator("select:has(option[value=full-access]:checked)").waitFor();
}

export const SCENES = {
  async "a whole turn"(stage) {
    const tab = await stage.tab();
    await tab.page.getByRole("link", { name: "New session" }).waitFor();
    assert.equal(new URL(tab.page.url()).hash, "", "the token is out of the address");
    await tab.begin();
    await tab.say("think: how to begin then plan: look; sum up then read README.md then list");
    await tab.shows("Done.");
    await tab.idle.waitFor();
    const thought = tab.page.getByRole("region", { name: "Thoughts" });
    await thought.getByRole("button").click();
    assert.equal(await thought.getByRole("button").getAttribute("aria-expanded"), "true");
    await tab.page.getByRole("region", { name: /Read README.md, done/ }).getByRole("button").first().click();
    await tab.shows("Read me");
    await tab.page.locator(".plan summary").click();
    await tab.page.locator(".plan li").first().waitFor();
    assert.deepEqual(await tab.page.locator(".plan li").count(), 2);
    await tab.page.getByRole("meter", { name: "Context in use" }).waitFor();
    const link = tab.page.locator(".session-link[aria-current=page]");
    assert.match(await link.innerText(), /accord/);
    // Commands complete, and files do.
    await tab.prompt.fill("/he");
    await tab.page.getByRole("option", { name: /^\/help/ }).waitFor();
    await tab.prompt.fill("read @READ");
    await tab.page.getByRole("option", { name: "README.md" }).waitFor();
    await tab.prompt.press("Enter");
    assert.equal(await tab.prompt.inputValue(), "read @README.md ");
    stage.clean();
  },

  async approval(stage) {
    const tab = await stage.tab();
    await tab.begin();
    await tab.say("write notes.txt: hello");
    await tab.card.waitFor();
    const names = await tab.card.locator(".choices button").allInnerTexts();
    assert.ok(names.length >= 4, `all options are there: ${names.join(", ")}`);
    // The focus stayed where it was, and a stray Enter there allows nothing.
    assert.equal(await tab.page.evaluate(() => document.activeElement?.id), "prompt");
    await tab.page.keyboard.press("Enter");
    assert.equal(await tab.card.count(), 1);
    assert.match(await tab.page.title(), /^\(1\)/);
    await tab.shows("hello", tab.card);
    // By keyboard alone: to the card, and its first answer.
    await tab.card.locator(".choices button:enabled").first().waitFor();
    await tab.prompt.fill("next");
    await tab.page.keyboard.press("Alt+q");
    await tab.page.keyboard.press("1");
    await tab.shows("Done.");
    await tab.idle.waitFor();
    assert.equal((await readFile(join(stage.folder, "notes.txt"), "utf8")).trim(), "hello");
    assert.equal(await tab.page.evaluate(() => document.activeElement?.id), "prompt");
    assert.equal(await tab.prompt.inputValue(), "next", "the digit answered, and nothing else");
    // A refusal is one, too.
    await tab.say("write other.txt: secret");
    await tab.card.waitFor();
    await tab.choose("Reject");
    await tab.idle.waitFor();
    await assert.rejects(readFile(join(stage.folder, "other.txt")));
    // A form, filled in from the inbox, in another place of the page.
    await tab.say("ask: which colour?");
    await tab.page.getByRole("group", { name: "accord asks" }).waitFor();
    await tab.page.keyboard.press("Alt+i");
    const asked = tab.page.locator(".inbox-item");
    await asked.getByText("which colour?").first().waitFor();
    await asked.getByRole("textbox").first().fill("blue");
    await asked.getByRole("button", { name: "Send" }).click();
    await tab.page.getByText("No agent waits for you.").waitFor();
    await tab.page.goBack();
    await tab.shows(/blue/);
    await tab.idle.waitFor();
    stage.clean();
  },

  async "reload in mid-turn"(stage) {
    const { command, open } = gate(stage.folder);
    const tab = await stage.tab();
    await tab.begin();
    await trust(tab);
    await tab.say(command);
    await tab.page.locator(".printed").getByText("first").waitFor();
    await tab.say("list");
    await tab.page.getByRole("region", { name: "Prompts that wait" }).waitFor();
    await tab.page.reload();
    await tab.busy.waitFor();
    await tab.page.locator(".printed").getByText("first").waitFor();
    assert.deepEqual(await tab.page.locator(".message.user").allTextContents(), [command]);
    await open();
    await tab.shows("Done.");
    // The prompt that waited is still there, and goes when the user says so.
    await tab.page.getByRole("button", { name: "Send now" }).click();
    await tab.shows("list");
    await tab.idle.waitFor();
    assert.deepEqual(await tab.page.locator(".message.user").allTextContents(), [command, "list"]);
    stage.clean();
  },

  async "two tabs on one session"(stage) {
    const one = await stage.tab();
    await one.begin();
    const other = await stage.tab(stage.link.replace(/#.*/, new URL(one.page.url()).hash));
    await other.prompt.waitFor();
    await one.say("write shared.txt: both then read shared.txt");
    await one.card.waitFor();
    await other.card.waitFor();
    await other.choose("Allow");
    await one.card.waitFor({ state: "detached" });
    for (const tab of [one, other]) {
      await tab.shows("Done.");
      await tab.idle.waitFor();
    }
    assert.deepEqual(await other.texts(), await one.texts());
    // The other one speaks, and cancels what the first one sees.
    const { command } = gate(stage.folder);
    await trust(other);
    await other.say(command);
    await one.page.locator(".message.user").getByText(command).waitFor();
    await one.busy.waitFor();
    await one.page.locator(".printed").getByText("first").waitFor();
    await one.page.getByRole("button", { name: "Cancel this turn" }).click();
    for (const tab of [one, other]) {
      await tab.shows("You cancelled this turn");
      await tab.idle.waitFor();
    }
    stage.clean();
  },

  async "connection cut"(stage) {
    const { command, open } = gate(stage.folder);
    const tab = await stage.tab(await stage.wire());
    await tab.begin();
    await trust(tab);
    await tab.say(command);
    await tab.page.locator(".printed").getByText("first").waitFor();
    stage.proxy.cut();
    await tab.page.getByText("Reconnecting; nothing is lost meanwhile").waitFor();
    // The turn ends while nobody listens; what is typed meanwhile waits here.
    await open();
    await tab.say("list");
    stage.proxy.mend();
    await tab.page.getByText("Reconnecting; nothing is lost meanwhile").waitFor({ state: "detached" });
    await tab.page.locator(".message.user").getByText("list", { exact: true }).waitFor();
    await tab.page.locator(".message.agent").getByText(/^list: /).waitFor();
    await tab.idle.waitFor();
    const whole = await tab.texts();
    // A page that loads it all anew shows the same, nothing twice and nothing missing.
    const fresh = await stage.tab(stage.link.replace(/#.*/, new URL(tab.page.url()).hash));
    await fresh.page.getByLabel("Token or pairing link").waitFor({ state: "detached" });
    await fresh.page.locator(".message.agent").getByText(/^list: /).waitFor();
    assert.deepEqual(await fresh.texts(), whole);
    // A browser tells of lost sockets and fetches itself; nothing else went wrong.
    stage.faults = stage.faults.filter((fault) => !/WebSocket|Failed to load resource|ERR_/.test(fault));
    stage.strangers = stage.strangers.filter((url) => !url.startsWith(new URL(stage.link).origin));
    stage.clean();
  },

  async "for everyone"(stage) {
    const axe = await readFile(new URL("../node_modules/axe-core/axe.min.js", import.meta.url), "utf8");
    const tab = await stage.tab();
    const check = async (place) => {
      await tab.page.evaluate(axe);
      const { violations } = await tab.page.evaluate(() => globalThis.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21aa"] }));
      const found = violations.map((rule) => `${place}: ${rule.id}: ${rule.nodes.map((node) => node.html.slice(0, 120)).join(" | ")}`);
      assert.deepEqual(found, []);
    };
    for (const [scheme, width] of [["light", 1280], ["dark", 390]]) {
      await tab.page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
      await tab.page.setViewportSize({ width, height: 800 });
      await tab.page.goto(stage.link.replace(/#.*/, "#/new"));
      await tab.page.getByLabel("Folder", { exact: true }).fill(stage.folder);
      await check(`new session, ${scheme}`);
      await tab.page.getByRole("button", { name: "Start" }).click();
      await tab.say(`think: it through then plan: look; change then write ${scheme}.txt: text`);
      await tab.card.locator(".choices button:enabled").first().waitFor();
      await check(`a question, ${scheme}`);
      // Nothing sticks out at the side, and all answers are in sight.
      assert.equal(await tab.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
      await tab.choose("Allow");
      await tab.shows("Done.");
      await tab.idle.waitFor();
      await check(`a conversation, ${scheme}`);
    }
    // The way through the page by keyboard: prompt, conversation, inbox, help and back.
    await tab.page.keyboard.press("Alt+l");
    assert.equal(await tab.page.evaluate(() => document.activeElement?.getAttribute("role")), "log");
    await tab.page.keyboard.press("?");
    await tab.page.getByRole("dialog").waitFor();
    await check("the keys");
    await tab.page.keyboard.press("Escape");
    await tab.page.getByRole("dialog").waitFor({ state: "detached" });
    await tab.page.keyboard.press("Alt+p");
    assert.equal(await tab.page.evaluate(() => document.activeElement?.id), "prompt");
    await tab.page.keyboard.press("Alt+i");
    await tab.page.locator("h2:focus").getByText("Inbox").waitFor();
    await tab.page.keyboard.press("Alt+n");
    await tab.page.locator("input[type=radio]:focus").waitFor();
    await tab.page.keyboard.press("Alt+t");
    assert.equal(await tab.page.evaluate(() => document.documentElement.dataset["theme"]), "light");
    stage.clean();
  },

  /** What the rehearsal model does not do, by the stand-in's scripted agent. */
  async "pictures, links, forms, and a gateway that forgot"(stage) {
    const served = await stage.scripted();
    const tab = await stage.tab();
    await tab.begin();
    // A picture is pasted.
    await tab.page.evaluate(async () => {
      const canvas = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
      const blob = await new Promise((resolve) => canvas.toBlob(resolve));
      const clipboardData = new DataTransfer();
      clipboardData.items.add(new File([blob], "dot.png", { type: "image/png" }));
      document.getElementById("prompt").dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
    });
    await tab.page.getByRole("img", { name: "Picture 1" }).waitFor();
    await tab.say("see this");
    await tab.shows("You said: see this");
    await tab.page.locator(".message.user img").waitFor();
    // A form that does not fit is not sent, and says why.
    await tab.say("form");
    const form = tab.page.getByRole("group", { name: "stand-in asks" });
    await form.getByLabel(/^Name/).fill("NO");
    await form.getByRole("button", { name: "Send" }).click();
    await form.getByText("At least 3 characters").waitFor();
    assert.equal(await tab.page.evaluate(() => document.activeElement?.getAttribute("name")), "name");
    await form.getByLabel(/^Name/).fill("Not-Small");
    await form.getByLabel("Library").check();
    await form.getByRole("button", { name: "Send" }).click();
    await form.getByText("This has to match").waitFor();
    await form.getByLabel(/^Name/).fill("small");
    await form.getByLabel("PyPI").check();
    await form.getByRole("button", { name: "Send" }).click();
    await tab.shows(/"content":{"name":"small","kind":"lib","places":\["PyPI"\],"count":2,"public":true}/);
    await tab.idle.waitFor();
    // A web page is opened only after a yes; here it is a no.
    await tab.say("link");
    const asked = tab.page.getByRole("group", { name: /open a web page/ });
    assert.equal(await asked.locator(".address strong").innerText(), "example.com");
    await asked.getByRole("button", { name: "Decline" }).click();
    await tab.shows("Answer: decline");
    await tab.idle.waitFor();
    // Two prompts wait, and are sent one after the other.
    await tab.say("long 60 10");
    await tab.say("first");
    await tab.say("second");
    await tab.page.getByRole("region", { name: "Prompts that wait" }).getByText("second").waitFor();
    await tab.shows("You said: second");
    assert.ok((await tab.texts()).indexOf("You said: first") < (await tab.texts()).indexOf("You said: second"));
    // The gateway loses its memory of the connection in mid-turn: the page loads the session again.
    await tab.say("long 200 10");
    await tab.shows("Line 5 of the story.");
    served.lines.clear();
    for (const socket of served.sockets()) socket.terminate();
    await tab.shows("Line 200 of the story.");
    await tab.idle.waitFor();
    const lines = await tab.page.locator(".message.agent").last().locator(".block").allTextContents();
    assert.deepEqual(lines.map((line) => line.trim()), Array.from({ length: 200 }, (_, index) => `Line ${index + 1} of the story.`));
    stage.faults = stage.faults.filter((fault) => !/WebSocket/.test(fault));
    stage.clean();
  },

  async "hostile content"(stage) {
    const hostile = [
      "# Title <script>window.hacked = 1</script>",
      '<img src=x onerror="window.hacked = 2"> <svg onload="window.hacked = 3"></svg>',
      "[link](javascript:window.hacked=4) ![pixel](https://evil.example/pixel.png) [good](https://example.com/)",
      '<form action="https://evil.example"><input name="password"></form> <style>body { display: none }</style>',
      "```html\n</code></pre><script>window.hacked = 5</script>\n```",
      "\u001b[31mred\u001b[0m \u001b]8;;javascript:window.hacked=6\u0007link\u001b]8;;\u0007",
    ].join("\n\n");
    await writeFile(join(stage.folder, "evil.md"), hostile);
    await writeFile(join(stage.folder, "<img src=x onerror=hacked=7>.txt"), "x");
    const tab = await stage.tab();
    await tab.begin();
    await trust(tab);
    await tab.say('read evil.md then list then run cat evil.md then think: <img src=x onerror="window.hacked = 8"> then write out.html: <script>window.hacked = 9</script>');
    await tab.shows("Done.");
    await tab.idle.waitFor();
    const folded = tab.page.locator(".tool-head[aria-expanded=false]:enabled, .thought-head[aria-expanded=false]");
    while ((await folded.count()) > 0) await folded.first().click();
    await tab.page.locator(".printed").first().waitFor();
    assert.equal(await tab.page.evaluate(() => globalThis.hacked), undefined);
    assert.equal(await tab.log.locator("script, iframe, form, svg[onload], img:not([src^='data:']), [onerror], [style*=fixed]").count(), 0);
    for (const link of await tab.log.getByRole("link").all()) {
      assert.match(await link.getAttribute("href"), /^https:\/\/example\.com/);
      assert.equal(await link.getAttribute("rel"), "noopener noreferrer");
    }
    assert.ok(await tab.prompt.isVisible());
    stage.clean();
  },
};
