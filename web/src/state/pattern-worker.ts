/** Web worker that tests one pattern on one text. An invalid pattern matches every text. */

self.onmessage = (event: MessageEvent<{ pattern: string; text: string }>) => {
  let matches = true;
  try {
    matches = new RegExp(event.data.pattern, "u").test(event.data.text);
  } catch {
    matches = true;
  }
  self.postMessage(matches);
};
