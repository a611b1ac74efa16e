/**
 * Runs one scenario: `node e2e/run.mjs NAME`. The environment names the gateway's link, a folder and
 * Chromium.
 */
import { BrowserTest } from "./browser-test.mjs";
import { FAILURE_SCENARIOS } from "./failure-scenarios.mjs";
import { SCENARIOS } from "./scenarios.mjs";

const {
  ACCORD_E2E_LINK: link,
  ACCORD_E2E_FOLDER: folder,
  ACCORD_E2E_CHROMIUM: executable,
  ACCORD_E2E_PICTURE: screenshot,
  ACCORD_E2E_READER: readOnlyToken,
  ACCORD_E2E_REVOKE: revokeCommand,
} = process.env;
const scenarios = { ...SCENARIOS, ...FAILURE_SCENARIOS };
const scenario = scenarios[process.argv[2] ?? ""];
if (!scenario || !link || !folder || !executable) {
  console.error(`usage: node e2e/run.mjs NAME, with NAME one of: ${Object.keys(scenarios).join(", ")}`);
  process.exit(2);
}

const test = new BrowserTest({ link, folder, executable, readOnlyToken, revokeCommand });
try {
  await test.open();
  await scenario(test);
} catch (error) {
  console.error(error instanceof Error ? error.stack : error);
  console.error("page errors:", test.pageErrors, "requests to other servers:", test.foreignRequests);
  for (const [index, page] of test.pages.entries()) {
    console.error(
      await page
        .locator("body")
        .innerText()
        .catch(() => "(the page is closed)"),
    );
    if (screenshot) await page.screenshot({ path: `${screenshot}-${index}.png` }).catch(() => undefined);
  }
  process.exitCode = 1;
} finally {
  await test.close();
}
