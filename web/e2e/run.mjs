/** Plays one scene: `node e2e/run.mjs NAME`, with the gateway's link, a folder and a Chromium in the environment. */
import { Stage } from "./stage.mjs";
import { SCENES } from "./scenes.mjs";
import { UNRULY } from "./unruly.mjs";

const { ACCORD_E2E_LINK: link, ACCORD_E2E_FOLDER: folder, ACCORD_E2E_CHROMIUM: executable, ACCORD_E2E_PICTURE: picture } = process.env;
const { ACCORD_E2E_READER: reader, ACCORD_E2E_REVOKE: revoking } = process.env;
const scenes = { ...SCENES, ...UNRULY };
const play = scenes[process.argv[2] ?? ""];
if (!play || !link || !folder || !executable) {
  console.error(`which scene? one of: ${Object.keys(scenes).join(", ")}`);
  process.exit(2);
}

const stage = new Stage({ link, folder, executable, reader, revoking });
try {
  await stage.open();
  await play(stage);
} catch (error) {
  console.error(error instanceof Error ? error.stack : error);
  console.error("faults:", stage.faults, "strangers:", stage.strangers);
  for (const [index, page] of stage.pages.entries()) {
    console.error(await page.locator("body").innerText().catch(() => "gone"));
    if (picture) await page.screenshot({ path: `${picture}-${index}.png` }).catch(() => undefined);
  }
  process.exitCode = 1;
} finally {
  await stage.close();
}
