// A board file (see common/board.py): 8 bytes length, a JSON header, then the arrays.

import { joined, textOf, toHex, utf8 } from "./bytes.js";
import { rawMembers, without } from "./raw_json.js";
import { sha256 } from "../seal/sha2.js";

const BOARD_FORMAT = "fedboard-board-1";
const ARRAY_TYPES = { F32: Float32Array, F64: Float64Array, I32: Int32Array, I64: BigInt64Array, U8: Uint8Array };

/**
 * Read a board.
 *
 * Gives `description` (version, task, config, previous_digest, certificate), `raw` (its members as they were
 * written), `arrays` (name to `{ values, shape }`), `ids`, `titles` and `features` (null where there are none),
 * and `sections` (what the digest is taken of). Throws where the bytes are no complete board.
 */
export function readBoard(bytes) {
  const length = Number(new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true));
  if (!(length > 0 && length <= bytes.length - 8)) throw new Error("its header is cut short");
  const header = JSON.parse(textOf(bytes.subarray(8, 8 + length)));
  const raw = rawMembers(header.__metadata__.fedboard);
  const description = JSON.parse(header.__metadata__.fedboard);
  if (description.format !== BOARD_FORMAT) throw new Error("another format of boards");
  const sections = readSections(header, bytes.subarray(8 + length));
  const named = new Map(sections.map((section) => [section.name, section]));
  const ids = strings(named.get("catalogue/item_ids"));
  const titles = named.has("catalogue/titles") ? strings(named.get("catalogue/titles")) : null;
  if (titles !== null && titles.length !== ids.length) throw new Error("its titles are not one for each item");
  const arrays = Object.create(null); // names come from others
  for (const section of sections) {
    if (section.name.startsWith("array/")) arrays[section.name.slice(6)] = typed(section);
  }
  const features = featuresOf(named, ids.length);
  return { description, raw, arrays, ids, titles, features, sections };
}

/** The board's digest: over its description without the certificate, and every array, as they stand in the file. */
export async function boardDigest(board) {
  const pieces = [utf8(without(board.raw, ["certificate"]))];
  for (const { name, dtype, shape, content } of board.sections) {
    pieces.push(utf8(JSON.stringify([name, dtype, shape])), content);
  }
  return toHex(await sha256(joined(pieces)));
}

function readSections(header, body) {
  const found = [];
  for (const [name, entry] of Object.entries(header)) {
    if (name === "__metadata__") continue;
    const { dtype, shape } = entry;
    const [start, stop] = entry.data_offsets;
    const kind = ARRAY_TYPES[dtype];
    const size = shape.reduce((product, side) => product * side, kind?.BYTES_PER_ELEMENT ?? NaN);
    const inside = Number.isInteger(start) && start >= 0 && stop <= body.length && stop - start === size;
    if (!inside || !/^[ -~]+$/.test(name)) throw new Error("its arrays are cut short");
    found.push({ name, dtype, shape, start, content: body.subarray(start, stop) });
  }
  const places = [...found].sort((one, other) => one.start - other.start);
  places.slice(1).forEach((later, n) => {
    if (later.start < places[n].start + places[n].content.length) throw new Error("its arrays overlap");
  });
  const used = found.reduce((total, { content }) => total + content.length, 0);
  if (used < body.length) throw new Error("bytes of it belong to no array");
  return found.sort((one, other) => (one.name < other.name ? -1 : 1));
}

/** Public features of the items (see common/item_features.py): numbers, NaN where unknown, and labels. */
function featuresOf(named, nItems) {
  const places = ["catalogue/features", "catalogue/numbers", "catalogue/labels"];
  if (!places.some((name) => named.has(name))) return null;
  if (!places.every((name) => named.has(name))) throw new Error("its item features are incomplete");
  const [numbers, labels] = places.slice(1).map((name) => typed(named.get(name)));
  const fits = [numbers, labels].every(({ shape }) => shape.length === 2 && shape[0] === nItems);
  const sound =
    fits &&
    numbers.shape[1] + labels.shape[1] <= 256 &&
    numbers.values instanceof Float32Array &&
    labels.values instanceof Uint8Array &&
    labels.values.every((value) => value <= 1) &&
    numbers.values.every((value) => Math.abs(value) !== Infinity);
  if (!sound) throw new Error("its item features are not those of its catalogue");
  return { numbers, labels };
}

function typed({ dtype, shape, content }) {
  return { values: new ARRAY_TYPES[dtype](content.slice().buffer), shape };
}

function strings(section) {
  const found = JSON.parse(textOf(section.content));
  if (!Array.isArray(found) || !found.every((entry) => typeof entry === "string")) {
    throw new Error("its catalogue is not a list of names");
  }
  return found;
}
