/**
 * Takes the screenshots of the documentation, with the gateway and the agent of tests/web/screenshots.py.
 */
import { join } from "node:path";
import { BrowserTest, startBrowser } from "./browser-test.mjs";
import { usePushService } from "./push-service.mjs";

const DESKTOP = { width: 1280, height: 800 };
const PHONE = { width: 390, height: 844 };

const {
  ACCORD_E2E_LINK: link,
  ACCORD_E2E_FOLDER: folder,
  ACCORD_E2E_CHROMIUM: executable,
  ACCORD_E2E_IMAGES: images,
} = process.env;

/** Shows the temporary folder of the projects as `/home/me`. */
function hideTemporaryFolder(temporary) {
  const replace = (text) => text.replaceAll(temporary, "/home/me");
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) texts.currentNode.data = replace(texts.currentNode.data);
  for (const input of document.querySelectorAll("input[type=text]")) input.value = replace(input.value);
}

async function take(tab, name, { size = DESKTOP, theme = "light" } = {}) {
  await tab.page.setViewportSize(size);
  await tab.page.emulateMedia({ colorScheme: theme, reducedMotion: "reduce" });
  // Two frames: one for the layout of the new size, one for the scroll position that follows it.
  await tab.page.evaluate(
    () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve))),
  );
  await tab.page.evaluate(hideTemporaryFolder, folder);
  await tab.page.screenshot({ path: join(images, `page-${name}.png`) });
}

/** What a device with Web Push shows. Chromium without a network has no push service, so its state is set. */
async function takeNotifications(address) {
  const context = await test.newContext({ viewport: PHONE, hasTouch: true, isMobile: true });
  const service = { subscribe: () => ({ endpoint: "https://push.example/1", keys: {} }) };
  await usePushService(context, service);
  await context.route(/\/api\/push/, (route) => route.fulfill({ json: { key: "AAAA" } }));
  const phone = await test.openTab(link, context);
  await phone.page.getByRole("link", { name: "New session" }).waitFor();
  await phone.page.goto(address);
  await phone.page.getByRole("button", { name: "Notify me" }).tap();
  await phone.page.getByRole("checkbox", { name: "An agent waits for me" }).tap();
  await phone.page.getByRole("button", { name: "Send a test" }).and(phone.page.locator(":enabled")).waitFor();
  await phone.waitForAnswers();
  await take(phone, "phone-notifications", { size: PHONE });
}

const browser = await startBrowser(executable);
const test = new BrowserTest(browser, { link, folder });
try {
  await test.open();
  const tab = await test.openTab();
  await tab.page.getByRole("link", { name: "New session" }).click();
  await tab.page.getByLabel("Folder", { exact: true }).fill(folder);
  await tab.page.getByRole("button", { name: "parser" }).waitFor();
  await take(tab, "new-session");
  tab.folder = join(folder, "parser");
  await tab.startSession("example");
  await tab.send("Write a parser for the configuration");
  await tab.page.getByRole("group", { name: "Question from example" }).waitFor();
  tab.folder = join(folder, "greeter");
  await tab.startSession("example");
  await tab.send("Make the greeting warmer");
  await tab.waitForAnswers();
  await take(tab, "approval");
  await take(tab, "phone", { size: PHONE });
  const address = tab.page.url();
  await tab.page.setViewportSize(DESKTOP);
  await tab.page.getByRole("link", { name: "Inbox" }).click();
  await tab.waitForAnswers();
  await take(tab, "inbox");
  await takeNotifications(address.replace(/#.*/, "#/inbox"));
  await tab.page.goto(address.replace(/#.*/, "#/"));
  await tab.page.getByText("Make the greeting warmer").first().waitFor();
  await tab.page.setViewportSize(DESKTOP);
  await tab.page.getByRole("button", { name: /greeter.*main/ }).waitFor();
  await take(tab, "home");
  await tab.page.getByRole("link", { name: "Settings" }).click();
  await tab.page.getByText("this device", { exact: true }).waitFor();
  await take(tab, "settings");
  await tab.page.goto(address.replace(/#.*/, "#/"));
  await take(tab, "phone-sessions", { size: PHONE, theme: "dark" });
  await tab.page.goto(address);
  await tab.waitForAnswers();
  await tab.answer("Allow");
  await tab.waitForText("All four tests pass.");
  await tab.idle.waitFor();
  await tab.expandAll(".tool-header[aria-expanded=false]:has-text('pytest')");
  await tab.waitForText("Welcome, world!", tab.terminal);
  const latest = tab.page.getByRole("button", { name: "Latest" });
  if (await latest.isVisible()) await latest.click();
  await take(tab, "dark", { theme: "dark" });
  await tab.page.keyboard.press("Alt+r");
  await tab.page.getByRole("button", { name: "Comment on line 5" }).last().click();
  await tab.page.locator(".comment textarea").fill("Say hello as well.");
  await tab.page.keyboard.press("Enter");
  await tab.page.getByRole("textbox", { name: "Commit message" }).fill("Greet more warmly");
  await take(tab, "review");
  await tab.page.keyboard.press("Escape");
  // The gateway waits for running turns before it stops, so the question needs an answer.
  await tab.page.getByRole("link", { name: "Inbox" }).click();
  await tab.page.getByRole("button", { name: "Decline" }).click();
  await tab.page.getByText("No agent is waiting for you.").waitFor();
  test.assertClean();
} finally {
  await test.close();
  await browser.close();
}
