/** An agent's pattern, tried in a worker that is ended when it takes too long; then the agent may judge for itself. */

const PATIENCE = 300;

export function matches(pattern: string, text: string): Promise<boolean> {
  return new Promise((resolve) => {
    const worker = new Worker(new URL("./pattern.worker.ts", import.meta.url), { type: "module" });
    const done = (value: boolean) => {
      clearTimeout(late);
      worker.terminate();
      resolve(value);
    };
    const late = setTimeout(() => done(true), PATIENCE);
    worker.onmessage = (event: MessageEvent<boolean>) => done(event.data);
    worker.onerror = () => done(true);
    worker.postMessage({ pattern, text });
  });
}
