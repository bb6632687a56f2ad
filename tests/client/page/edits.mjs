// What the page's verifier says of certificates, as JSON; arguments: the checkout, and a file with a list of their texts.

import { readFileSync } from "node:fs";

const [root, file] = process.argv.slice(2);
const { checkedCertificate } = await import(`file://${root}/client/page/script/seal/certificate.js`);
const told = [];
for (const raw of JSON.parse(readFileSync(file, "utf8"))) {
  const failed = (error) => ({ failed: [String(error)], beyond: null });
  const found = await Promise.resolve().then(() => checkedCertificate(JSON.parse(raw), raw)).catch(failed);
  told.push(found.failed.length ? "failed" : found.beyond === null ? "passed" : "open");
}
console.log(JSON.stringify(told));
