/** Builds the page into the Python package, which serves it, and configures the unit tests. */
import { defineConfig } from "vitest/config";

const gateway = process.env["ACCORD_GATEWAY"] ?? "http://127.0.0.1:8787";

export default defineConfig({
  // Relative addresses work behind a proxy that serves the page under a path.
  base: "./",
  build: {
    outDir: "../src/accord/gateway/page",
    emptyOutDir: true,
    target: "es2022",
    // No inline assets: the Content-Security-Policy forbids inline scripts and styles.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
    // Diagrams are drawn in a frame with a policy of its own.
    rollupOptions: { input: ["index.html", "diagram.html"] },
  },
  resolve: {
    // Its package names a module that it does not contain, so that the larger CommonJS file would be taken.
    alias: { "@xterm/headless": "@xterm/headless/lib-headless/xterm-headless.mjs" },
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
    // Long, for busy machines. A test that works never waits that long.
    testTimeout: 300_000,
    hookTimeout: 300_000,
  },
});
