// Own ratings between visits, in this browser's own database (IndexedDB), if somebody asks for it.

const KEPT_IN = "fedboard";
const KEPT_UNDER = "ratings";

/** What was kept under a name: an object, or null. */
export async function keptRatings(name) {
  return (await transaction("readonly", (store) => store.get(name))) ?? null;
}

/** Keep an object under a name, in place of what was there. */
export async function keepRatings(name, content) {
  await transaction("readwrite", (store) => store.put(content, name));
}

/** Forget what was kept under a name. */
export async function forgetRatings(name) {
  await transaction("readwrite", (store) => store.delete(name));
}

async function transaction(mode, work) {
  const opening = indexedDB.open(KEPT_IN, 1);
  opening.onupgradeneeded = () => opening.result.createObjectStore(KEPT_UNDER);
  const database = await answered(opening);
  try {
    return await answered(work(database.transaction(KEPT_UNDER, mode).objectStore(KEPT_UNDER)));
  } finally {
    database.close();
  }
}

function answered(request) {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
    request.onblocked = () => reject(new Error("the database is in use"));
  });
}
