/** The home page, the session list, the settings and the command palette, with the real gateway and agent. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { checkAccessibility } from "./browser-test.mjs";

const SMALL = { width: 390, height: 844 };
const LARGE = { width: 1280, height: 800 };

/** Makes a repository with one commit. */
function makeRepository(folder) {
  const git = (...words) =>
    execFileSync("git", ["-c", "user.name=Test", "-c", "user.email=test@example.com", ...words], { cwd: folder });
  git("init", "--quiet", "--initial-branch=main");
  git("add", "-A");
  git("commit", "--quiet", "-m", "first");
}

/** Checks a view in both themes and on a small screen. */
async function checkView(tab, place) {
  for (const [colorScheme, size] of [["light", LARGE], ["dark", SMALL]]) {
    await tab.page.setViewportSize(size);
    await tab.page.emulateMedia({ colorScheme, reducedMotion: "reduce" });
    await checkAccessibility(tab, `${place}, ${colorScheme}`);
  }
  assert.ok(await tab.fitsWidth(), `${place} fits a small screen`);
  await tab.page.setViewportSize(LARGE);
  await tab.page.emulateMedia({ colorScheme: "light" });
}

/** Opens the menu of the session and chooses an action. */
async function choose(tab, action) {
  await tab.page.getByRole("button", { name: "Actions of this session" }).click();
  await tab.page.getByRole("menuitem", { name: action }).click();
}

async function goHome(tab) {
  await tab.page.getByRole("link", { name: "Accord", exact: true }).click();
  await tab.page.getByRole("textbox", { name: "What should the agent do?" }).waitFor();
}

async function mode(tab, value) {
  await tab.page.getByLabel("Mode", { exact: true }).selectOption(value);
  await tab.page.locator(`select:has(option[value=${value}]:checked)`).waitFor();
}

export const MANAGEMENT_SCENARIOS = {
  async "home page and worktrees"(test) {
    const project = join(test.folder, "lighthouse");
    await mkdir(project);
    await writeFile(join(project, "README.md"), "# Lighthouse\n");
    makeRepository(project);
    const tab = await test.openTab();
    tab.folder = project;
    await tab.startSession();
    await tab.send("write notes.txt: hello");
    await tab.card.waitFor();
    await goHome(tab);
    // What waits, the recent folder with its branch, and the examples.
    const waiting = tab.page.getByRole("region", { name: "Waiting for you" });
    await waiting.getByRole("link", { name: /notes.txt/ }).waitFor();
    const recent = tab.page.getByRole("region", { name: "Recent folders" });
    const folder = recent.getByRole("button", { name: /lighthouse.*main/ });
    await folder.click();
    assert.equal(await folder.getAttribute("aria-pressed"), "true");
    const composer = tab.page.getByRole("textbox", { name: "What should the agent do?" });
    await tab.page.getByRole("button", { name: /Explain how this project/ }).click();
    assert.match(await composer.inputValue(), /^Explain how/);
    await checkView(tab, "home");
    // A new session in a worktree, with the first prompt.
    await composer.fill("write first.txt: text");
    await tab.page.getByLabel("In a new worktree").check();
    await composer.press("Enter");
    // The branch is shown while the turn runs.
    const bar = tab.page.getByRole("region", { name: "Worktree" });
    await tab.waitForAnswers();
    await bar.getByText(/accord\/\d{4}-\d{4}/).waitFor();
    assert.deepEqual(await tab.userMessages(), ["write first.txt: text"]);
    await tab.answer("Reject");
    await tab.idle.waitFor();
    await bar.getByText("no changes").waitFor();
    // The state after a turn, and the clean-up, which keeps the work.
    await mode(tab, "full-access");
    await tab.send("run echo new > new.txt");
    await bar.getByText("1 uncommitted file").waitFor();
    await checkView(tab, "worktree");
    const name = await bar.locator("strong").innerText();
    await bar.getByRole("button", { name: "Remove the worktree" }).click();
    const dialog = tab.page.getByRole("dialog", { name: /Remove the worktree/ });
    await dialog.getByText(`1 uncommitted file is committed to ${name} first.`).waitFor();
    execFileSync("git", ["config", "user.name", "Test"], { cwd: project });
    execFileSync("git", ["config", "user.email", "test@example.com"], { cwd: project });
    await dialog.getByRole("button", { name: "Commit and remove" }).click();
    await composer.waitFor();
    assert.ok(!existsSync(join(`${project}-worktrees`, name.replace("accord/", ""))));
    const files = execFileSync("git", ["ls-tree", "--name-only", name], { cwd: project, encoding: "utf8" });
    assert.match(files, /new.txt/);
    // The form takes a branch name, too.
    await tab.page.getByRole("link", { name: "New session" }).click();
    await tab.page.getByRole("button", { name: /lighthouse.*main/ }).click();
    await tab.page.getByLabel("In a new worktree").check();
    await tab.page.getByRole("textbox", { name: "Branch" }).fill("keep");
    await checkView(tab, "new-session");
    await tab.page.getByRole("button", { name: "Start" }).click();
    await bar.getByText("accord/keep").waitFor();
    test.assertClean();
  },

  async "session list, search and archive"(test) {
    const tab = await test.openTab();
    await tab.startSession();
    await tab.send("list");
    await tab.idle.waitFor();
    const other = join(test.folder, "harbor");
    await mkdir(other);
    tab.folder = other;
    await tab.startSession();
    await tab.send("write buoy.txt: hello");
    await tab.card.waitFor();
    // The waiting session is on top, the others are in the groups of their folders.
    const list = tab.page.getByRole("list", { name: "Sessions" });
    const headings = await list.getByRole("heading").allInnerTexts();
    assert.equal(headings[0], "Waiting for you");
    assert.match(await list.getByRole("link").first().innerText(), /buoy\.txt/);
    // A turn that ends while the user is elsewhere makes its session unread in this browser.
    await goHome(tab);
    const second = await test.openTab(test.link, await test.newContext());
    await second.page.getByRole("list", { name: "Sessions" }).getByRole("link").first().click();
    await second.waitForAnswers();
    await second.answer("Allow");
    await second.idle.waitFor();
    const unread = list.locator(".session-link.unread", { hasText: "buoy.txt" });
    await unread.waitFor();
    await checkView(tab, "sessions");
    await unread.click();
    await tab.idle.waitFor();
    assert.equal(await list.locator(".session-link.unread", { hasText: "buoy.txt" }).count(), 0);
    // Words of the conversation are found, not only those of the title.
    await choose(tab, "Rename");
    await tab.page.getByLabel("Title").fill("Harbor lights");
    await tab.page.getByRole("button", { name: "Save" }).click();
    await tab.page.getByRole("heading", { name: "Harbor lights" }).waitFor();
    const search = tab.page.getByRole("searchbox");
    await search.fill("buoy.txt hello");
    const results = tab.page.getByRole("list", { name: "Search results" });
    await results.locator(".match mark").first().waitFor();
    assert.match(await results.getByRole("link").first().innerText(), /Harbor lights/);
    await checkView(tab, "search");
    await search.fill("nothing has this word");
    await tab.waitForText("No matching sessions.", results);
    await search.fill("");
    // The archive keeps it, and it can be taken out again.
    await choose(tab, "Archive");
    await list.getByRole("link", { name: /Harbor lights/ }).waitFor({ state: "detached" });
    await tab.page.getByRole("button", { name: "Archive" }).click();
    await list.getByRole("link", { name: /Harbor lights/ }).click();
    await checkView(tab, "archive");
    await choose(tab, "Take out of the archive");
    await tab.page.getByRole("button", { name: "Close" }).click();
    await list.getByRole("link", { name: /Harbor lights/ }).waitFor();
    test.assertClean();
  },

  async "rename, fork, export and share"(test) {
    const tab = await test.openTab();
    await tab.startSession();
    await tab.send("read README.md");
    await tab.waitForText("Done.");
    await tab.idle.waitFor();
    // Export saves a document.
    const [download] = await Promise.all([tab.page.waitForEvent("download"), choose(tab, "Export as Markdown")]);
    assert.equal(download.suggestedFilename(), "read-readme-md.md");
    assert.match(await readFile(await download.path(), "utf8"), /read README\.md/);
    // A fork has the history and goes its own way.
    const address = tab.page.url();
    await choose(tab, "Fork");
    await tab.page.waitForURL((url) => url.href !== address);
    await tab.waitForText("Done.");
    await tab.page.goto(address);
    await tab.idle.waitFor();
    // The menu by keyboard: Esc returns to the button.
    const menu = tab.page.getByRole("button", { name: "Actions of this session" });
    await menu.press("Enter");
    await checkView(tab, "menu");
    await tab.page.keyboard.press("ArrowDown");
    assert.match(await tab.page.evaluate(() => document.activeElement.textContent), /Share/);
    await tab.page.keyboard.press("Escape");
    assert.equal(await menu.evaluate((element) => element === document.activeElement), true);
    // A share link shows this session in a browser that is not logged in, and nothing else.
    await choose(tab, "Share a read-only link");
    const dialog = tab.page.getByRole("dialog", { name: "Share this session" });
    await dialog.getByLabel("The link works for").selectOption({ label: "1 hour" });
    await dialog.getByRole("button", { name: "Create the link" }).click();
    const link = await dialog.getByLabel("Link", { exact: true }).inputValue();
    assert.match(link, /\/#share=acc_/);
    await checkView(tab, "share");
    const cut = await dialog.locator("p").evaluateAll((texts) =>
      texts.filter((text) => text.scrollWidth > text.clientWidth).map((text) => text.textContent),
    );
    assert.deepEqual(cut, [], "the texts of a dialog are shown whole");
    const guest = await test.openTab(link, await test.newContext());
    await guest.waitForText("Done.");
    await guest.page.getByText("A shared session. You can read it.").waitFor();
    assert.equal(await guest.page.getByRole("navigation").count(), 0);
    assert.equal(await guest.prompt.count(), 0);
    assert.equal(await guest.page.getByRole("combobox").count(), 0);
    await checkView(guest, "shared");
    assert.equal(await guest.page.getByRole("link", { name: "Back to the sessions" }).count(), 0);
    await guest.page.reload();
    await guest.waitForText("Done.");
    // The guest follows, and the link ends when it is revoked. The own login is untouched.
    await tab.page.keyboard.press("Escape");
    await tab.send("list");
    await guest.waitForText("list");
    await tab.idle.waitFor();
    await tab.page.getByRole("link", { name: "Settings" }).click();
    const shares = tab.page.getByRole("region", { name: "Shared sessions" });
    await shares.getByRole("button", { name: /^Revoke/ }).click();
    await shares.getByRole("button", { name: "Revoke", exact: true }).click();
    await tab.waitForText("No link to a session exists.", shares);
    await guest.page.getByLabel("Token or pairing link").waitFor();
    await tab.page.reload();
    await tab.page.getByRole("heading", { name: "Settings" }).waitFor();
    test.pageErrors = test.pageErrors.filter((error) => !/401|WebSocket/.test(error));
    test.assertClean();
  },

  async "devices, appearance and command palette"(test) {
    const tab = await test.openTab();
    await tab.page.getByRole("link", { name: "Settings" }).click();
    const devices = tab.page.getByRole("region", { name: "Devices" });
    await tab.waitForText("this device", devices);
    // A new device: its link logs another browser in, until it is revoked.
    await devices.getByRole("button", { name: "Continue on another device" }).click();
    await checkView(tab, "add-device");
    await tab.page.getByLabel("Name").fill("Tablet");
    await tab.page.getByRole("button", { name: "Create the link" }).click();
    const dialog = tab.page.getByRole("dialog", { name: "Open this link on the other device" });
    const link = await dialog.getByLabel("Link", { exact: true }).inputValue();
    await tab.waitForText("This link works on this computer only.", dialog);
    await checkView(tab, "device-link");
    const tablet = await test.openTab(link, await test.newContext());
    await tablet.page.getByRole("link", { name: "New session" }).waitFor();
    await tab.page.keyboard.press("Escape");
    await devices.getByRole("button", { name: "Revoke Tablet" }).click();
    await devices.getByRole("button", { name: "Revoke", exact: true }).click();
    await tablet.page.getByLabel("Token or pairing link").waitFor();
    await tab.page.getByRole("listitem").filter({ hasText: "Tablet" }).waitFor({ state: "detached" });
    // Agents and appearance; the choices survive a reload.
    await tab.waitForText("running", tab.page.getByRole("region", { name: "Agents" }));
    await tab.page.getByRole("radio", { name: "dark" }).check({ force: true });
    await tab.page.getByRole("radio", { name: "large" }).check({ force: true });
    await tab.page.getByRole("radio", { name: "monospace" }).check({ force: true });
    await tab.page.reload();
    await tab.page.getByRole("heading", { name: "Settings" }).waitFor();
    const look = () => tab.page.evaluate(() => ({ ...document.documentElement.dataset }));
    assert.deepEqual(await look(), { theme: "dark", size: "large", font: "mono" });
    await tab.page.getByRole("radio", { name: "system" }).check({ force: true });
    await tab.page.getByRole("radio", { name: "normal" }).check({ force: true });
    await tab.page.getByRole("radio", { name: "sans serif" }).check({ force: true });
    await checkView(tab, "settings");
    // The palette finds commands and runs them, all by keyboard.
    await tab.page.keyboard.press("Control+k");
    const palette = tab.page.getByRole("combobox", { name: "Search commands and sessions" });
    await checkView(tab, "palette");
    await palette.fill("new se");
    await tab.page.keyboard.press("Enter");
    await tab.page.getByRole("heading", { name: "New session" }).waitFor();
    await tab.page.keyboard.press("Control+k");
    await palette.fill("no such command");
    await tab.page.getByText("Nothing found.").waitFor();
    await tab.page.keyboard.press("Escape");
    await palette.waitFor({ state: "detached" });
    test.pageErrors = test.pageErrors.filter((error) => !/401|WebSocket/.test(error));
    test.assertClean();
  },
};
