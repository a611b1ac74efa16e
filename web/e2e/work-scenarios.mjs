/** Single tool calls and background commands of `tests/web/working_agent.py`, which speaks version 2. */
import assert from "node:assert/strict";

export const WORK_SCENARIOS = {
  async "stop single commands"(test) {
    const tab = await test.openTab();
    await tab.startSession();
    await tab.send("build");
    // The command of the agent prints while it runs, also for a client that comes later.
    await tab.waitForText("compiled 1 file");
    const other = await test.openTab(tab.page.url());
    await other.waitForText("compiled 1 file");
    // With the keyboard: the square follows the header of the call.
    const call = other.page.getByRole("region", { name: "Build, running" });
    await call.getByRole("button", { name: /^Build/ }).focus();
    await other.page.keyboard.press("Tab");
    assert.equal(await other.page.evaluate("document.activeElement.ariaLabel"), "Stop Build");
    await other.page.keyboard.press("Enter");
    for (const client of [tab, other]) {
      await client.page.bringToFront(); // a tab in the background draws one frame per second
      await client.waitForText("The user stopped the build.");
    }
    // The turn went on and began a command that goes on in the background.
    await tab.page.bringToFront();
    await tab.idle.waitFor();
    const background = tab.page.getByRole("list", { name: "In the background" });
    await background.getByText("serve --port 1").waitFor();
    await tab.page.reload();
    await background.getByRole("button", { name: "Stop serve --port 1" }).press("Enter");
    await background.waitFor({ state: "detached" });
    await tab.waitForText("Ended by SIGTERM");
    test.assertClean();
  },
};
