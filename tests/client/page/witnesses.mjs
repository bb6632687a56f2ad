// What the page's seal makes of boards and logs that somebody tampered with, as JSON; arguments: the checkout, the cases.

import { readFileSync } from "node:fs";

const [root, file] = process.argv.slice(2);
const module = (name) => import(`file://${root}/client/page/script/${name}.js`);
const [{ fromHex }, { sealOf }] = await Promise.all(["board/bytes", "seal/seal"].map(module));
const { key, cases } = JSON.parse(readFileSync(file, "utf8"));

const told = {};
for (const { name, bytes, signed, proof, witnesses } of cases) {
  const board = new Uint8Array(Buffer.from(bytes, "base64"));
  const evidence = { bytes: board, transported: null, signed, earlier: [], key: fromHex(key), proof, witnesses };
  const { state, steps } = await sealOf(evidence);
  told[name] = { state, ...Object.fromEntries(Object.entries(steps).map(([step, found]) => [step, found])) };
}
console.log(JSON.stringify(told));
