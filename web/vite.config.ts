/** How the page is built (into the Python package, which serves it) and tested. */
import { defineConfig } from "vitest/config";

const gateway = process.env["ACCORD_GATEWAY"] ?? "http://127.0.0.1:8787";

export default defineConfig({
  // Relative addresses, so that the page also works behind a proxy that puts it under a path.
  base: "./",
  build: {
    outDir: "../src/accord/gateway/page",
    emptyOutDir: true,
    target: "es2022",
    // Nothing becomes a data: address or an inline script: the Content-Security-Policy allows neither.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
  },
  server: {
    proxy: {
      "/api": gateway,
      "/acp": { target: gateway, ws: true },
    },
  },
  test: {
    environment: "jsdom",
    include: ["test/**/*.test.{ts,tsx}"],
    pool: "threads",
    maxWorkers: 1,
    isolate: false,
  },
});
