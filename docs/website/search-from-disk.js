// A browser starts no worker from a file on disk. Where the site is opened so, a hidden frame does what the worker of the
// search would do: the same script, with messages handed over within the page.
if (location.protocol === "file:") {
  window.Worker = class {
    onmessage = null;
    onerror = null;
    onmessageerror = null;

    constructor(address) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.inside = this.frame.contentWindow;
      this.inside.postMessage = (data) => setTimeout(() => this.onmessage?.(new MessageEvent("message", { data })));
      const script = this.inside.document.createElement("script");
      script.src = new URL(address, document.baseURI);
      this.loaded = new Promise((done) => script.addEventListener("load", done));
      script.addEventListener("error", (event) => this.onerror?.(event));
      this.inside.document.body.append(script);
    }

    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
