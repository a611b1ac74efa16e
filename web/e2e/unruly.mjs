/** What a person meets when agents fail or lie, and when tokens end; against the real gateway with `tests/web/actor.py`. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";

const RLO = "\u202e";

export const UNRULY = {
  /** The first of the agents, which is the default one, cannot start. */
  async "agents that fail"(stage) {
    const tab = await stage.tab();
    await tab.page.getByRole("link", { name: "New session" }).click();
    await tab.page.getByRole("radio", { name: "broken" }).check();
    await tab.page.getByRole("button", { name: "Start" }).click();
    await tab.page.getByRole("alert").getByText("cannot find the module left-pad").waitFor();
    // Another agent's ways to sign in are buttons, for a new session and for a prompt that it does not take.
    await tab.begin("locked");
    await tab.page.getByRole("button", { name: "Sign in with a browser" }).click();
    await tab.say("forget");
    await tab.shows("Forgotten who you are.");
    await tab.idle.waitFor();
    await tab.say("hello");
    const card = tab.page.getByRole("group", { name: "locked wants you to sign in" });
    await card.getByRole("button", { name: "Sign in with a browser" }).click();
    await tab.shows("You said: hello");
    await card.waitFor({ state: "detached" });
    // An agent dies in mid-turn: everyone reads its last words, and it is started again.
    await tab.begin("actor");
    const other = await stage.tab(tab.address());
    await other.prompt.waitFor();
    await tab.say("die");
    for (const one of [tab, other]) {
      await one.shows("The turn failed");
      await one.page.locator(".said").getByText("the model host is not reachable <b>").waitFor();
    }
    await other.say("again");
    await tab.shows("You said: again");
    await tab.idle.waitFor();
    stage.clean();
  },

  async "an agent that lies"(stage) {
    const tab = await stage.tab();
    await tab.begin("actor");
    await tab.say("evil");
    await tab.card.locator(".choices button:enabled").first().waitFor();
    const folded = tab.page.locator(".tool-head[aria-expanded=false]:enabled");
    while ((await folded.count()) > 0) await folded.first().click();
    // What would turn the text around is shown instead, in names, answers, code and changes alike.
    assert.equal(await tab.card.locator(".choices button").first().innerText(), "Reject‹U+202E›wollA");
    await tab.shows("/tmp/‹U+202E›cod.sh", tab.card);
    await tab.shows("b‹U+202E›c", tab.card);
    assert.equal(await tab.page.evaluate((mark) => document.documentElement.innerHTML.includes(mark), RLO), false);
    assert.equal((await tab.page.title()).includes(RLO), false);
    // Nothing sticks out of the card or the page, on a desk and on a phone, and what is asked about can be read.
    for (const width of [1280, 390]) {
      await tab.page.setViewportSize({ width, height: 800 });
      const [card, answer, change, prompt] = await Promise.all(
        [tab.card, tab.card.locator(".choices button").last(), tab.card.locator(".diff"), tab.prompt].map((part) => part.boundingBox()),
      );
      assert.ok(answer.x + answer.width <= card.x + card.width, `the long answer fits at ${width}`);
      assert.ok(change.height > 80, `the change is not squeezed at ${width}: ${change.height}`);
      assert.ok(prompt.y + prompt.height <= 800, `the prompt is in sight at ${width}`);
      assert.equal(await tab.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
    }
    await tab.page.setViewportSize({ width: 1280, height: 800 });
    await tab.card.locator(".choices button").last().click();
    await tab.shows("Done with evil.");
    await tab.idle.waitFor();
    await tab.prompt.fill("/");
    await tab.page.getByRole("option", { name: "/x‹U+202E›y" }).waitFor();
    await tab.prompt.fill("");
    assert.equal(await tab.page.evaluate(() => globalThis.hacked), undefined);
    assert.equal(await tab.page.locator("script:not([src]), iframe, form[action], [onerror], img:not([src^='./'])").count(), 0);
    // The second of two questions slides under the pointer of a double click, and stays unanswered.
    await tab.say("two");
    await tab.page.locator(".card").nth(1).locator(".choices button:enabled").first().waitFor();
    await tab.card.first().getByRole("button", { name: "Allow" }).dblclick();
    await tab.page.locator(".card").nth(1).waitFor({ state: "detached" });
    await tab.card.getByRole("button", { name: "Reject" }).click();
    await tab.shows(/harmless: (yes, dangerous: no|no, dangerous: yes)/);
    await tab.idle.waitFor();
    stage.clean();
  },

  async "a long answer"(stage) {
    execFileSync("mkfifo", [join(stage.folder, "gate")]);
    const tab = await stage.tab();
    await tab.begin("actor");
    await tab.say("stream");
    await tab.shows(/Word 999 of/);
    const end = () => tab.log.evaluate((log) => log.scrollHeight - log.scrollTop - log.clientHeight);
    const top = () => tab.log.evaluate((log) => log.scrollTop);
    assert.ok((await end()) <= 2, "the end is in sight");
    // However little a reader scrolls up, the text stays where it is while more comes.
    await tab.log.hover();
    await tab.page.mouse.wheel(0, -30);
    await tab.page.getByRole("button", { name: "Latest" }).waitFor();
    await tab.page.mouse.wheel(0, -600);
    await tab.page.waitForFunction(() => {
      const log = document.querySelector("[role=log]");
      return log.scrollHeight - log.scrollTop - log.clientHeight > 600;
    });
    const before = await top();
    await writeFile(join(stage.folder, "gate"), "on\n");
    await tab.shows(/Word 1999 of/);
    await tab.idle.waitFor();
    assert.equal(await top(), before);
    await tab.page.getByRole("button", { name: "Latest" }).click();
    await tab.page.waitForFunction(() => {
      const log = document.querySelector("[role=log]");
      return log.scrollHeight - log.scrollTop - log.clientHeight < 60;
    });
    const words = (await tab.page.locator(".message.agent").textContent()).match(/Word \d+/g);
    assert.deepEqual(words, Array.from({ length: 2000 }, (_, index) => `Word ${index}`));
    stage.clean();
  },

  async "tokens, tabs and drafts"(stage) {
    const tab = await stage.tab();
    await tab.begin("actor");
    await tab.say("hello");
    await tab.shows("You said: hello");
    await tab.idle.waitFor();
    const link = `.session-link[href="${new URL(tab.address()).hash}"]`;
    // What is half typed outlives a reload.
    await tab.prompt.fill("half a thought");
    await tab.page.reload();
    await tab.shows("You said: hello");
    assert.equal(await tab.prompt.inputValue(), "half a thought");
    // A token that only reads is offered nothing that it may not do.
    const reader = await stage.tab(`${stage.origin()}/#token=${stage.reader}`, await stage.stranger());
    await reader.page.locator(link).click();
    await reader.shows("You said: hello");
    await reader.page.getByText("Your token lets you look on").waitFor();
    for (const role of ["link", "button"]) assert.equal(await reader.page.getByRole(role, { name: /New session|Inbox|Delete|Send|Cancel/ }).count(), 0);
    assert.equal(await reader.prompt.count(), 0);
    await reader.page.keyboard.press("Alt+n");
    assert.match(await reader.page.evaluate(() => location.hash), /^#\/session\//);
    await tab.say("");
    await tab.say("to everyone");
    await reader.shows("You said: to everyone");
    // It is revoked: the page says so. With another token everything is there again, and more.
    stage.revoke(stage.reader);
    await reader.page.getByText("You are no longer signed in").waitFor();
    await reader.page.getByLabel("Token or pairing link").fill(stage.link);
    await reader.page.keyboard.press("Enter");
    await reader.shows("You said: to everyone");
    await reader.say("I am back");
    await reader.shows("You said: I am back");
    // A link with a token, opened in a tab that shows the page already, leaves no token in the address.
    const anew = tab.page.waitForEvent("load");
    await tab.page.evaluate((link) => location.assign(link), stage.link);
    await anew;
    await tab.page.locator(link).waitFor();
    const traces = () => tab.page.evaluate(() => JSON.stringify([location.href, document.cookie, { ...localStorage }, { ...sessionStorage }]));
    assert.equal((await traces()).includes(new URL(stage.link).hash.slice(7)), false);
    // A session that is deleted is gone wherever it was open.
    await tab.page.locator(link).click();
    await tab.shows("You said: I am back");
    await tab.page.getByRole("button", { name: "Delete this session" }).click();
    await tab.page.getByRole("button", { name: "Delete", exact: true }).click();
    await reader.page.getByText("There is no such session").waitFor();
    await tab.page.goBack();
    await tab.page.getByText("There is no such session").waitFor();
    // Out, and nothing remains.
    await tab.page.getByRole("button", { name: "Sign out" }).click();
    await tab.page.getByLabel("Token or pairing link").waitFor();
    assert.equal(await tab.page.evaluate(() => sessionStorage.length), 0);
    stage.faults = stage.faults.filter((fault) => !/WebSocket|401/.test(fault));
    stage.clean();
  },
};
