// What the page's modules make of messages, one a line: {kind, content (base64), size}; argument: the checkout.

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const root = process.argv[2];
const module = (name) => import(`file://${root}/client/page/script/${name}.js`);
const [{ boardDigest, readBoard }, { unpacked }, { fromHex }, { sealOf }, { modelOf }] = await Promise.all(
  ["board/board_file", "board/packed", "board/bytes", "seal/seal", "models/registry"].map(module),
);
const { key, boards } = JSON.parse(readFileSync(`${root}/docs/vectors/models.json`, "utf8"));
const { signed, earlier, packed } = boards[0];
const transported = new Uint8Array(Buffer.from(packed, "base64"));

const oldest = { run_id: JSON.parse(signed.content).run_id, version: 0, renewal: 0 };
const pins = { keys: [fromHex(key)], threshold: 1, witnesses: [], cosignatures: 0, oldest };

async function seal(given) {
  const evidence = { earlier, pins, transported, signed, ...given };
  return (await sealOf(evidence)).state;
}

const readers = {
  async board(bytes) {
    const board = readBoard(bytes);
    modelOf(board)(Int32Array.of(0), Float64Array.of(1)).scores();
    return boardDigest(board);
  },
  packed: async (bytes, size) => (await unpacked(bytes, size)).length,
  seal: (bytes) => seal({ bytes }),
  manifest: (bytes) => seal({ bytes: new Uint8Array(Buffer.from(boards[0].exact, "base64")), signed: JSON.parse(bytes) }),
};
for await (const line of createInterface({ input: process.stdin })) {
  const { kind, content, size } = JSON.parse(line);
  const began = process.cpuUsage();
  let told;
  try {
    const bytes = new Uint8Array(Buffer.from(content, "base64"));
    told = { value: String(await readers[kind](kind === "manifest" ? Buffer.from(bytes).toString() : bytes, size)) };
  } catch (error) {
    const places = String(error.stack).match(/\w+\.js:\d+/g) ?? [];
    told = { error: error.message, name: error.name, places: places.slice(0, 3) };
  }
  const { user, system } = process.cpuUsage(began);
  console.log(JSON.stringify({ ...told, seconds: (user + system) / 1e6 }));
}
