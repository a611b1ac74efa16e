/** The review of changes, in Chromium, with the real gateway, git, and a program in place of `gh`. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { checkAccessibility } from "./browser-test.mjs";

function git(folder, ...words) {
  return execFileSync("git", words, { cwd: folder, encoding: "utf8" });
}

/** Makes a repository of the folder, with a remote beside it. */
function makeRepository(folder) {
  git(folder, "init", "--quiet", "--initial-branch=main");
  git(folder, "config", "user.name", "Test");
  git(folder, "config", "user.email", "test@example.com");
  git(folder, "add", "-A");
  git(folder, "commit", "--quiet", "-m", "first");
  git(folder, "init", "--quiet", "--bare", `${folder}-remote`);
  git(folder, "remote", "add", "origin", `${folder}-remote`);
}

export const REVIEW_SCENARIOS = {
  async "review of changes"(test) {
    makeRepository(test.folder);
    await writeFile(join(test.folder, "mine.txt"), "not of the agent\n");
    const tab = await test.openTab();
    await tab.startSession();
    await tab.page.getByLabel("Mode", { exact: true }).selectOption("full-access");
    await tab.send("write notes.md: # Notes then write tool.py: print(1)");
    await tab.waitForText("Done.");
    await tab.idle.waitFor();
    // The changes of the last turn, by file; opened by a command.
    await tab.send("/review");
    const review = tab.page.getByRole("region", { name: "Changes", exact: true });
    const file = (name) => review.locator("figure", { hasText: name });
    await file("tool.py").waitFor();
    assert.equal(await review.locator("figure").count(), 2);
    await checkAccessibility(tab, "review");
    // A revert, and the change brought back.
    await file("notes.md").getByRole("button", { name: "Revert" }).click();
    await review.getByText("The change was taken back.").waitFor();
    await assert.rejects(readFile(join(test.folder, "notes.md")));
    await review.getByRole("button", { name: "Bring it back" }).click();
    await file("notes.md").waitFor();
    assert.match(await readFile(join(test.folder, "notes.md"), "utf8"), /# Notes/);
    // A commit of one file, which another one is left out of.
    await review.getByRole("button", { name: "Not committed" }).click();
    await file("mine.txt").waitFor();
    await file("mine.txt").getByRole("checkbox").uncheck();
    await file("tool.py").getByRole("checkbox").uncheck();
    await review.getByRole("textbox", { name: "Commit message" }).fill("Add notes");
    await review.getByRole("button", { name: "Commit 1 file" }).click();
    await review.getByText(/^Committed as [0-9a-f]{7,}/).waitFor();
    assert.equal(git(test.folder, "show", "--name-only", "--format=%s").trim(), "Add notes\n\nnotes.md");
    // A pull request from a new branch.
    await review.getByRole("button", { name: "Pull request…" }).click();
    const form = review.getByRole("form", { name: "Pull request…" });
    await form.getByLabel("Title").fill("Notes");
    await form.getByLabel("New branch").fill("notes");
    await checkAccessibility(tab, "pull request");
    await form.getByRole("button", { name: "Push and open" }).click();
    const link = review.getByRole("link", { name: "https://example.com/pull/7" });
    assert.equal(await link.getAttribute("rel"), "noopener noreferrer");
    assert.match(git(`${test.folder}-remote`, "branch", "--list", "notes"), /notes/);
    // A comment on a line with the keyboard, sent as the next prompt; a reload of the list keeps it.
    await file("tool.py").locator(".comment-line[tabindex='0']").focus();
    await tab.page.keyboard.press("Enter");
    await tab.page.locator(".comment textarea:focus").waitFor();
    await tab.page.keyboard.type("Print two.");
    await tab.page.keyboard.press("Enter");
    await review.getByText("Print two.").waitFor();
    await review.getByRole("button", { name: "Send 1 comment to the agent" }).click();
    await tab.page.locator(".message.user", { hasText: "tool.py, line 1:" }).waitFor();
    await tab.idle.waitFor();
    // The phone, and an error in one line.
    await tab.page.setViewportSize({ width: 390, height: 844 });
    await tab.page.emulateMedia({ colorScheme: "dark" });
    await tab.page.keyboard.press("Alt+r");
    await review.getByRole("button", { name: "Not committed" }).click();
    await file("tool.py").waitFor();
    assert.equal(await tab.fitsWidth(), true);
    await checkAccessibility(tab, "review on a phone");
    await writeFile(join(test.folder, "tool.py"), "mine\n");
    await file("tool.py").getByRole("button", { name: "Revert" }).click();
    await review.getByRole("alert").getByText(/no longer there/).waitFor();
    assert.equal(await readFile(join(test.folder, "tool.py"), "utf8"), "mine\n");
    await tab.page.keyboard.press("Escape");
    await tab.prompt.waitFor();
    // A question of the agent is not missed.
    await tab.send("ask: which color?");
    const question = tab.page.getByRole("group", { name: "Question from accord" });
    await question.waitFor();
    await tab.page.keyboard.press("Alt+r");
    await review.getByRole("button", { name: "Answer" }).click();
    await question.getByRole("button", { name: "Decline" }).click();
    await tab.idle.waitFor();
    test.assertClean();
  },
};
