/** A page at one node of a cluster, with a session of another node. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";

export const CLUSTER_SCENARIOS = {
  /** The session is at node `a`, and the page at node `b`. */
  async "a node is lost during a turn"(test) {
    const tab = await test.openTab();
    await tab.page.locator(".session-link").filter({ hasText: / · a$/ }).click();
    const header = tab.page.locator(".session-header");
    await header.getByText("at a ·").waitFor();
    await tab.waitForText("0 1 2");
    await tab.send("wait");
    await tab.waitForText("waiting");
    await tab.prompt.fill("count 4");
    await screenshot(tab, "1-running");

    const [command, ...args] = test.killCommand;
    execFileSync(command, args);
    await tab.waitForText("Node a does not answer");
    await tab.waitForText("The turn was interrupted.");
    await tab.idle.waitFor();
    await tab.page.locator(".session-link").filter({ hasText: "Node lost · " }).waitFor();
    assert.equal(await tab.prompt.inputValue(), "count 4");
    await screenshot(tab, "2-lost");
    const other = await test.openTab();
    await other.page.locator(".session-link").filter({ hasText: / · a$/ }).click();
    await other.waitForText("Waiting for the lease of node a");
    await screenshot(other, "2-waiting");
    await tab.page.bringToFront();

    await tab.prompt.press("Enter");
    await tab.waitForText("Moved to b; the turn was interrupted.");
    await tab.waitForText("0 1 2 3");
    await tab.idle.waitFor();
    await header.getByText("at b ·").waitFor();
    await screenshot(tab, "3-moved");
    const messages = ["count 3", "0 1 2", "wait", "waiting", "count 4", "0 1 2 3"];
    assert.deepEqual(await tab.messages(), messages);
    await tab.page.reload();
    await tab.waitForText("0 1 2 3");
    assert.deepEqual(await tab.messages(), messages);
    test.assertClean();
  },
};

/** For people who want to look at it. */
async function screenshot(tab, name) {
  const folder = process.env["ACCORD_E2E_LOOK"];
  if (folder) await tab.page.screenshot({ path: `${folder}/${name}.png` });
}
