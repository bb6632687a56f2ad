// How much this page asked of the network since it was loaded. The browser keeps the record, not the page.

import { part } from "../shared/dom.js";

/** Count, from now on, and show it. */
export function countRequests() {
  let count = 0;
  const show = () => document.querySelectorAll(".requests").forEach((place) => (place.textContent = String(count)));
  new PerformanceObserver((list) => {
    count += list.getEntries().filter(({ name }) => /^(https?|wss?):/.test(name)).length;
    show();
  }).observe({ type: "resource" });
  show();
  const network = () => {
    part("network").textContent = navigator.onLine ? "The network is on." : "The network is off, and nothing is missing.";
  };
  addEventListener("online", network);
  addEventListener("offline", network);
  network();
}
