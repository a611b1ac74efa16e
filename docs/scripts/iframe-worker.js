// Search in pages that are opened as files. Browsers start no worker there: its script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.ready = new Promise((resolve) => {
        this.frame.onload = () => {
          const inside = this.frame.contentWindow;
          inside.postMessage = (data) => this.deliver(data);
          const script = inside.document.createElement("script");
          script.src = new URL(url, location.href);
          script.onload = () => resolve(inside);
          inside.document.head.append(script);
        };
      });
      document.documentElement.append(this.frame);
    }

    deliver(data) {
      const event = new MessageEvent("message", { data: structuredClone(data) });
      this.dispatchEvent(event);
      this.onmessage?.(event);
    }

    async postMessage(data) {
      const inside = await this.ready;
      inside.dispatchEvent(new inside.MessageEvent("message", { data: inside.structuredClone(data) }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
