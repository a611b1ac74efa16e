/**
 * Runs scenarios in one browser: `node e2e/run.mjs CHROMIUM`. Each line of stdin is a JSON object with the
 * name of a scenario, the gateway's link, a folder and what else the scenario needs. The answer is a line too:
 * an empty JSON string, or the failure.
 */
import { createInterface } from "node:readline";
import { BrowserTest, startBrowser } from "./browser-test.mjs";
import { CLUSTER_SCENARIOS } from "./cluster-scenarios.mjs";
import { FAILURE_SCENARIOS } from "./failure-scenarios.mjs";
import { PHONE_SCENARIOS } from "./phone-scenarios.mjs";
import { MANAGEMENT_SCENARIOS } from "./management-scenarios.mjs";
import { REVIEW_SCENARIOS } from "./review-scenarios.mjs";
import { SCENARIOS } from "./scenarios.mjs";
import { WORK_SCENARIOS } from "./work-scenarios.mjs";

const scenarios = {
  ...SCENARIOS,
  ...FAILURE_SCENARIOS,
  ...CLUSTER_SCENARIOS,
  ...PHONE_SCENARIOS,
  ...MANAGEMENT_SCENARIOS,
  ...REVIEW_SCENARIOS,
  ...WORK_SCENARIOS,
};
const executable = process.argv[2];
if (!executable) {
  console.error("usage: node e2e/run.mjs CHROMIUM");
  process.exit(2);
}

/** What went wrong, and what the tabs showed. */
async function describeFailure(test, error, screenshot) {
  const lines = [error instanceof Error ? error.stack : String(error)];
  lines.push(`page errors: ${JSON.stringify(test.pageErrors)}`);
  lines.push(`requests to other servers: ${JSON.stringify(test.foreignRequests)}`);
  for (const [index, page] of test.pages.entries()) {
    const body = page.locator("body");
    lines.push(await body.innerText().catch(() => "(the page is closed)"));
    if (screenshot) await page.screenshot({ path: `${screenshot}-${index}.png` }).catch(() => undefined);
  }
  return lines.join("\n");
}

async function run({ scenario, screenshot, ...options }) {
  const test = new BrowserTest(browser, options);
  try {
    if (!(scenario in scenarios)) throw new Error(`no scenario has the name ${scenario}`);
    await test.open();
    await scenarios[scenario](test);
    return "";
  } catch (error) {
    return describeFailure(test, error, screenshot);
  } finally {
    await test.close();
  }
}

const browser = await startBrowser(executable);
for await (const line of createInterface({ input: process.stdin })) {
  console.log(JSON.stringify(await run(JSON.parse(line))));
}
await browser.close();
