// What the page's modules make of the test vectors of the reader specification, as JSON; argument: the checkout.

import { readFileSync } from "node:fs";

const root = process.argv[2];
const module = (name) => import(`file://${root}/client/page/script/${name}.js`);
const [{ boardDigest, readBoard }, { fromHex, toHex, unpacked }, { modelOf }, { best }, { sealOf }, { reasonOf }, { sha256 }] = await Promise.all(
  ["board/board_file", "board/bytes", "models/registry", "taste/ranking", "seal/seal", "taste/own_list", "seal/sha2"].map(module),
);
const read = (name) => JSON.parse(readFileSync(`${root}/docs/vectors/${name}.json`, "utf8"));
const bytesOf = (text) => new Uint8Array(Buffer.from(text, "base64"));
const [{ key, boards }, { cases, files, witnesses: pinned }] = ["models", "refusals"].map(read);
const oldest = { run_id: JSON.parse(boards[0].signed.content).run_id, version: 0, renewal: 0 };
const nobody = { keys: [], cosignatures: 0 };

async function sealed(bytes, signed, earlier, { keys, cosignatures } = nobody) {
  const pins = { keys: [fromHex(key)], threshold: 1, witnesses: keys.map(fromHex), cosignatures, oldest };
  const evidence = { bytes, signed, earlier, pins };
  const { state, steps } = await sealOf(evidence);
  return { state, steps: Object.fromEntries(Object.entries(steps).map(([name, step]) => [name, step.state])) };
}

function listOf(board, ratings) {
  const explicit = board.description.config.feedback === "explicit";
  const rated = Object.entries(ratings).map(([id, rating]) => [board.ids.indexOf(id), explicit ? rating : 1]);
  rated.sort(([one], [other]) => one - other);
  const model = modelOf(board);
  const scores = model(Int32Array.from(rated, ([item]) => item), Float64Array.from(rated, ([, own]) => own)).scores();
  const own = new Set(rated.map(([item]) => item));
  const { rating_low: low, rating_high: high } = board.description.config;
  return best(scores, 20, (item) => board.arrays.learnt.values[item] && !own.has(item)).map((item) => [
    board.ids[item],
    explicit ? Math.min(Math.max(scores[item], low), high) : scores[item],
  ]);
}

const reasons = read("reasons").cases.map(({ base, added, range }) => reasonOf(base, added, range));
const told = { boards: {}, cases: {}, reasons };
for (const { name, signed, earlier, packed, people } of boards) {
  const bytes = await unpacked(bytesOf(packed), JSON.parse(signed.content).file.board_size);
  const board = readBoard(bytes);
  told.boards[name] = {
    digest: await boardDigest(board),
    seal: (await sealed(bytes, signed, earlier)).steps,
    lists: Object.fromEntries(Object.entries(people).map(([who, { ratings }]) => [who, listOf(board, ratings)])),
  };
}
const clock = Date.now;
for (const { name, signed, file, now, earlier, witnessed } of cases) {
  Date.now = now === null ? clock : () => Date.parse(now);
  const content = bytesOf(files[file]);
  try {
    const { file: stated } = JSON.parse(signed.content);
    if (toHex(await sha256(content)) !== stated.sha256) throw new Error("whoever packs a page's board looks at this");
    const bytes = await unpacked(content, stated.board_size);
    told.cases[name] = (await sealed(bytes, signed, earlier.reverse(), witnessed ? pinned : nobody)).state;
  } catch (error) {
    told.cases[name] = "failed";
  }
}
console.log(JSON.stringify(told));
