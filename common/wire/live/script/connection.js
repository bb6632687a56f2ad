// News from the server that this page came from: asked for again whenever they end, for as long as the page is open.

const AGAIN_MILLISECONDS = 1000;
const SILENCE_MILLISECONDS = 16000;
const OWN_PAGE = document.querySelector('meta[name="page"]').content;

let ahead = 0;

/** Seconds since 1970 by the server's clock. */
export function serverNow() {
  return Date.now() / 1000 + ahead;
}

/** Ask for news; `told` gets each state, `link` gets "connected", "away" or "ended". */
export function listen({ told, link }) {
  let source = null;
  let heard = 0;
  let ended = false;

  function begin() {
    source?.close();
    heard = Date.now();
    source = new EventSource("events");
    source.addEventListener("page", (event) => {
      const [page, seconds] = event.data.split(" ");
      if (page !== OWN_PAGE) location.reload();
      ahead = Number(seconds) - Date.now() / 1000;
    });
    source.addEventListener("open", () => {
      heard = Date.now();
      ended = false;
      link("connected");
    });
    source.addEventListener("state", (event) => {
      heard = Date.now();
      told(JSON.parse(event.data));
    });
    source.addEventListener("beat", () => {
      heard = Date.now();
    });
    source.addEventListener("end", () => {
      ended = true;
    });
    source.addEventListener("error", () => link(ended ? "ended" : "away"));
  }

  // The browser asks again by itself, but not after an answer that is none, nor where the line is dead and open.
  setInterval(() => {
    if (source.readyState === EventSource.CLOSED || Date.now() - heard > SILENCE_MILLISECONDS) {
      link(ended ? "ended" : "away");
      begin();
    }
  }, AGAIN_MILLISECONDS);
  begin();
}
