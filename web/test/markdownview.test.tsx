/** A long text on the screen: page by page, until all of it is there. */
import { render } from "preact";
import { act } from "preact/test-utils";
import { expect, test, vi } from "vitest";
import { Markdown } from "../src/ui/Markdown.tsx";

test("a text of many blocks that comes at once is drawn in several frames, in order, and wholly", async () => {
  const root = document.createElement("div");
  const lines = Array.from({ length: 200 }, (_, index) => `Line ${index + 1}.`);
  await act(() => render(<Markdown text={lines.join("\n\n")} />, root));
  expect(root.querySelectorAll(".block").length).toBeLessThan(200);
  await vi.waitFor(() => expect([...root.querySelectorAll(".block")].map((block) => block.textContent?.trim())).toEqual(lines));
  render(null, root);
});
