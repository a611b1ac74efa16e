/** Single tool calls and background commands of `tests/web/working_agent.py`, which speaks version 2. */
import assert from "node:assert/strict";
import { checkAccessibility } from "./browser-test.mjs";

export const WORK_SCENARIOS = {
  async "stop single commands"(test) {
    const tab = await test.openTab();
    await tab.startSession();
    await tab.send("work");
    // The output of the command is shown while it runs, also to a page that comes later.
    await tab.waitForText("build of 1 file");
    await tab.page.reload();
    await tab.waitForText("build of 1 file");
    // With the mouse: the call ends, and the turn goes on.
    await tab.page.getByRole("button", { name: "Stop Run build" }).click();
    await tab.page.getByRole("region", { name: "Run build, canceled" }).waitFor();
    await tab.waitForText("The user stopped the build.");
    await tab.waitForText("test of 1 file");
    assert.equal(await tab.busy.count(), 1);
    await checkAccessibility(tab, "running call");
    // With the keyboard: the button follows the header of the call.
    const call = tab.page.getByRole("region", { name: "Run test, running" });
    await call.getByRole("button", { name: /^Run test/ }).focus();
    await tab.page.keyboard.press("Tab");
    assert.equal(await tab.page.evaluate("document.activeElement.ariaLabel"), "Stop Run test");
    await tab.page.keyboard.press("Enter");
    await tab.page.getByRole("region", { name: "Run test, canceled" }).waitFor();
    await tab.waitForText("The user stopped the test.");
    // The turn ended, and a command goes on in the background, also after a reload.
    await tab.idle.waitFor();
    assert.equal(await tab.page.getByRole("button", { name: /^Stop Run/ }).count(), 0);
    const background = tab.page.getByRole("list", { name: "In the background" });
    await background.getByText("serve --port 1").waitFor();
    await tab.page.reload();
    await background.getByRole("button", { name: "Stop serve --port 1" }).press("Enter");
    await background.waitFor({ state: "detached" });
    await tab.page.getByRole("button", { name: /^Serve/ }).click();
    await tab.waitForText("Ended by SIGTERM");
    test.assertClean();
  },
};
