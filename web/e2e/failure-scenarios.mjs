/**
 * Failing and misleading agents, and revoked tokens, with the real gateway and
 * `tests/web/misbehaving_agent.py`.
 */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

/** Reverses the direction of the text after it. */
const RIGHT_TO_LEFT_OVERRIDE = "\u202e";

export const FAILURE_SCENARIOS = {
  /** The default agent of this gateway, `broken`, cannot start. */
  async "failing agents"(test) {
    const tab = await test.openTab();
    await tab.page.getByRole("link", { name: "New session" }).click();
    await tab.page.getByRole("radio", { name: "broken" }).check();
    await tab.page.getByRole("button", { name: "Start" }).click();
    // The error is in plain words; what the agent wrote is behind a click.
    const alert = tab.page.getByRole("alert");
    await alert.getByText("The agent could not be started.").waitFor();
    assert.equal(await alert.getByText("cannot find the module left-pad").isVisible(), false);
    await alert.getByText("Details", { exact: true }).click();
    await alert.getByText("cannot find the module left-pad").waitFor();
    // The page offers an agent's sign-in methods for a new session and for a rejected prompt.
    await tab.startSession("locked");
    await tab.page.getByRole("button", { name: "Sign in with a browser" }).click();
    await tab.send("forget");
    await tab.waitForText("Signed out.");
    await tab.idle.waitFor();
    await tab.send("hello");
    const card = tab.page.getByRole("group", { name: "locked asks you to sign in" });
    await card.getByRole("button", { name: "Sign in with a browser" }).click();
    await tab.waitForText("You said: hello");
    await card.waitFor({ state: "detached" });
    // An agent crashes during a turn: all clients see its stderr, and the next prompt starts it again.
    await tab.startSession("scripted");
    const other = await test.openTab(tab.page.url());
    await other.prompt.waitFor();
    await tab.send("crash");
    for (const client of [tab, other]) {
      await client.page.bringToFront(); // a tab in the background draws one frame per second
      await client.waitForText("The agent crashed.");
      await client.page.getByText("Details", { exact: true }).click();
      await client.page.locator(".stderr-tail").getByText("the model host is not reachable <b>").waitFor();
    }
    await tab.page.bringToFront();
    await tab.page.getByRole("button", { name: "Try again" }).click();
    for (const client of [tab, other]) await client.page.locator(".divider.failed").nth(1).waitFor();
    await other.send("again");
    await tab.waitForText("You said: again");
    await tab.idle.waitFor();
    // Text that an agent sends only in its response appears in all clients, and again after a reload.
    await tab.send("response");
    for (const client of [tab, other]) await client.waitForText("This text is only in the response.");
    await tab.idle.waitFor();
    await tab.page.reload();
    await tab.waitForText("This text is only in the response.");
    test.assertClean();
  },

  async "misleading text"(test) {
    const tab = await test.openTab();
    await tab.startSession("scripted");
    await tab.send("evil");
    await tab.waitForAnswers();
    await tab.expandAll(".tool-header[aria-expanded=false]:enabled");
    // Characters that reverse the text are shown by their code point, in names, answers, code and diffs.
    const answers = tab.card.locator(".button-row button");
    assert.match(await answers.first().innerText(), /^Reject‹U\+202E›wollA \(allow once\)/);
    await tab.waitForText("/tmp/‹U+202E›cod.sh", tab.card);
    await tab.waitForText("b‹U+202E›c", tab.card);
    const html = await tab.page.evaluate(() => document.documentElement.innerHTML);
    assert.equal(html.includes(RIGHT_TO_LEFT_OVERRIDE), false);
    assert.equal((await tab.page.title()).includes(RIGHT_TO_LEFT_OVERRIDE), false);
    // Long texts fit into the card and the page, on a desktop and on a phone.
    for (const width of [1280, 390]) {
      await tab.page.setViewportSize({ width, height: 800 });
      const elements = [tab.card, answers.nth(1), tab.card.locator(".diff"), tab.prompt];
      const [card, answer, diff, prompt] = await Promise.all(elements.map((part) => part.boundingBox()));
      assert.ok(answer.x + answer.width <= card.x + card.width, `the long answer fits at ${width}`);
      assert.ok(diff.height > 80, `the diff has enough height at ${width}: ${diff.height}`);
      assert.ok(prompt.y + prompt.height <= 800, `the prompt is visible at ${width}`);
      assert.equal(await tab.fitsWidth(), true);
    }
    await tab.page.setViewportSize({ width: 1280, height: 800 });
    await answers.nth(1).click();
    await tab.waitForText("Done with evil.");
    await tab.idle.waitFor();
    await tab.prompt.fill("/");
    await tab.page.getByRole("option", { name: "/x‹U+202E›y" }).waitFor();
    await tab.prompt.fill("");
    assert.equal(await tab.page.evaluate(() => globalThis.hacked), undefined);
    const forbidden = "script:not([src]), iframe, form[action], [onerror], img:not([src^='./'])";
    assert.equal(await tab.page.locator(forbidden).count(), 0);
    // The second card moves under the pointer of a double click. The second click must not answer it.
    await tab.send("two");
    const cards = tab.page.locator(".card");
    await cards.nth(1).locator(".button-row button:enabled").first().waitFor();
    await tab.card.first().getByRole("button", { name: "Allow" }).dblclick();
    await cards.nth(1).waitFor({ state: "detached" });
    await tab.card.getByRole("button", { name: "Reject" }).click();
    await tab.waitForText(/harmless: (yes, dangerous: no|no, dangerous: yes)/);
    await tab.idle.waitFor();
    test.assertClean();
  },

  async "long answer"(test) {
    execFileSync("mkfifo", [join(test.folder, "gate")]);
    const tab = await test.openTab();
    await tab.startSession("scripted");
    await tab.send("stream");
    await tab.waitForText(/Word 999 of/);
    const distanceToEnd = () =>
      tab.conversation.evaluate((element) => element.scrollHeight - element.scrollTop - element.clientHeight);
    const scrollTop = () => tab.conversation.evaluate((element) => element.scrollTop);
    assert.ok((await distanceToEnd()) <= 2, "the end is visible");
    // After the reader scrolls up a little, the text does not move while more arrives.
    await tab.conversation.hover();
    await tab.page.mouse.wheel(0, -30);
    await tab.page.getByRole("button", { name: "Latest" }).waitFor();
    await tab.page.mouse.wheel(0, -600);
    await tab.page.waitForFunction(() => {
      const element = document.querySelector("[role=log]");
      return element.scrollHeight - element.scrollTop - element.clientHeight > 600;
    });
    const before = await scrollTop();
    await writeFile(join(test.folder, "gate"), "on\n");
    await tab.waitForText(/Word 1999 of/);
    await tab.idle.waitFor();
    assert.equal(await scrollTop(), before);
    await tab.page.getByRole("button", { name: "Latest" }).click();
    await tab.page.waitForFunction(() => {
      const element = document.querySelector("[role=log]");
      return element.scrollHeight - element.scrollTop - element.clientHeight < 60;
    });
    const words = (await tab.page.locator(".message.agent").textContent()).match(/Word \d+/g);
    assert.deepEqual(
      words,
      Array.from({ length: 2000 }, (_, index) => `Word ${index}`),
    );
    test.assertClean();
  },

  /** The gateway is killed and started again during a turn of an agent that is not the default one. */
  async "restart during a turn"(test) {
    execFileSync("mkfifo", [join(test.folder, "gate")]);
    const tab = await test.openTab();
    await tab.startSession("forgetful");
    await tab.send("stream");
    await tab.waitForText(/Word 999 of/);
    await tab.prompt.fill("half a thought");
    await writeFile(join(test.folder, "restart"), "now\n");
    await tab.waitForText("The turn was interrupted.");
    await tab.idle.waitFor();
    await tab.waitForText(/Word 999 of/);
    assert.equal(await tab.page.locator(".session-link strong.running").count(), 0);
    // The agent cannot load the session: it can be read, and a new one begins with its history.
    await tab.page.getByText("cannot open this session anymore").waitFor();
    assert.equal(await tab.prompt.count(), 0);
    await tab.page.getByRole("button", { name: "New session with this history" }).click();
    await tab.prompt.waitFor();
    assert.match(await tab.prompt.inputValue(), /## User\n\nstream\n\n## Agent\n\nWord 0 of/);
    test.pageErrors = test.pageErrors.filter((error) => !/WebSocket|Failed to load resource/.test(error));
    test.assertClean();
  },

  async "tokens, tabs and drafts"(test) {
    const tab = await test.openTab();
    await tab.startSession("scripted");
    await tab.send("hello");
    await tab.waitForText("You said: hello");
    await tab.idle.waitFor();
    const link = `.session-link[href="${new URL(tab.page.url()).hash}"]`;
    // A draft survives a reload.
    await tab.prompt.fill("half a thought");
    await tab.page.reload();
    await tab.waitForText("You said: hello");
    assert.equal(await tab.prompt.inputValue(), "half a thought");
    // A read-only token sees no controls that it may not use.
    const context = await test.newContext();
    const reader = await test.openTab(`${test.origin()}/#token=${test.readOnlyToken}`, context);
    await reader.page.locator(link).click();
    await reader.waitForText("You said: hello");
    await reader.page.getByText("Your token is read-only").waitFor();
    const controls = /New session|Inbox|Delete|Send|Cancel/;
    for (const role of ["link", "button"]) {
      assert.equal(await reader.page.getByRole(role, { name: controls }).count(), 0);
    }
    assert.equal(await reader.prompt.count(), 0);
    await reader.page.keyboard.press("Alt+n");
    assert.match(await reader.page.evaluate(() => location.hash), /^#\/session\//);
    await tab.send("");
    await tab.send("to all clients");
    await reader.waitForText("You said: to all clients");
    // The page reports a revoked token. Another token opens the same session with more rights.
    test.revoke(test.readOnlyToken);
    await reader.page.getByText("You are no longer signed in").waitFor();
    await reader.page.getByLabel("Token or pairing link").fill(test.link);
    await reader.page.keyboard.press("Enter");
    await reader.waitForText("You said: to all clients");
    await reader.send("I am back");
    await reader.waitForText("You said: I am back");
    // A pairing link that is opened in a tab of the page leaves no token behind.
    const reloaded = tab.page.waitForEvent("load");
    await tab.page.evaluate((address) => location.assign(address), test.link);
    await reloaded;
    await tab.page.locator(link).waitFor();
    const stored = await tab.page.evaluate(() =>
      JSON.stringify([location.href, document.cookie, { ...localStorage }, { ...sessionStorage }]),
    );
    assert.equal(stored.includes(new URL(test.link).hash.slice("#token=".length)), false);
    // A deleted session disappears from all tabs.
    await tab.page.locator(link).click();
    await tab.waitForText("You said: I am back");
    await tab.page.getByRole("button", { name: "Actions of this session" }).click();
    await tab.page.getByRole("menuitem", { name: "Delete this session" }).click();
    await tab.page.getByRole("button", { name: "Delete", exact: true }).click();
    await reader.page.getByText("Session not found").waitFor();
    await tab.page.waitForURL((url) => !url.hash.startsWith("#/session/"));
    await tab.page.goBack();
    await tab.page.getByText("Session not found").waitFor();
    // Signing out clears the session storage.
    await tab.page.getByRole("button", { name: "Sign out" }).click();
    await tab.page.getByLabel("Token or pairing link").waitFor();
    assert.equal(await tab.page.evaluate(() => sessionStorage.length), 0);
    test.pageErrors = test.pageErrors.filter((error) => !/WebSocket|401/.test(error));
    test.assertClean();
  },
};
