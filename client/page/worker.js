// Keeps the page for when there is no network. It asks for the page's own files, once, and for nothing else.
const KEPT = "{{kept}}";
const FILES = {{files}};

self.addEventListener("install", (event) => {
  event.waitUntil(caches.open(KEPT).then((cache) => cache.addAll(FILES.map((file) => new Request(file, { cache: "reload" })))).then(() => self.skipWaiting()));
});

self.addEventListener("activate", (event) => {
  const old = (name) => name.startsWith("fedboard-page-") && name !== KEPT;
  event.waitUntil(
    caches.keys()
      .then((names) => Promise.all(names.filter(old).map((name) => caches.delete(name))))
      .then(() => self.clients.claim()),
  );
});

self.addEventListener("fetch", (event) => {
  const own = FILES.map((file) => new URL(file, self.location).href);
  const wanted = event.request.url.split(/[?#]/)[0];
  if (own.includes(wanted)) event.respondWith(caches.match(wanted).then((kept) => kept ?? fetch(event.request)));
});
