/** A link with a new token: its QR code, and the warning for a link that works on one computer only. */
import { render } from "preact";
import { act } from "preact/test-utils";
import { afterEach, beforeEach, expect, test } from "vitest";
import { LinkView } from "../src/ui/LinkView.tsx";
import type { CreatedLink } from "../src/wire/management-methods.ts";

const LINK: CreatedLink = {
  link: "https://host/#token=acc_example",
  id: "abcdefgh",
  expires: null,
  qr: ["110", "001", "101"],
  localAddress: null,
};
let root: HTMLElement;

beforeEach(() => {
  root = document.body.appendChild(document.createElement("div"));
});
afterEach(() => {
  render(null, root);
  root.remove();
});

const show = (link: CreatedLink) => act(() => render(<LinkView link={link} />, root));

test("the QR code has each dark module once, inside a light border", async () => {
  await show(LINK);
  const code = root.querySelector("svg.qr-code");
  expect(code?.getAttribute("viewBox")).toBe("0 0 9 9");
  const drawn = "M3 3h2v1h-2zM5 4h1v1h-1zM3 5h1v1h-1zM5 5h1v1h-1z";
  expect(code?.querySelector("path")?.getAttribute("d")).toBe(drawn);
  expect(root.querySelector("input")?.value).toBe(LINK.link);
});

test("a link to this computer has no QR code, but says how a phone can reach the gateway", async () => {
  await show({ ...LINK, localAddress: "192.0.2.7" });
  expect(root.querySelector("svg.qr-code")).toBeNull();
  expect(root.querySelector(".notice code")?.textContent).toContain("accord serve --host 192.0.2.7");
});

test("without a QR code of the gateway, the link is enough", async () => {
  await show({ ...LINK, qr: null, expires: "2030-01-02T03:04:05Z" });
  expect(root.querySelector("svg.qr-code")).toBeNull();
  expect(root.textContent).toContain("2030");
});
