// The packed form of a board file (see common/boards/packing.py): each array in a zlib stream of its own, of
// its numbers first all first bytes, then all second ones, ...

import { inflated, joined, textOf, utf8 } from "./bytes.js";

const PACKED_MAGIC = "FBPACK1\n";
const NUMBER_BYTES = { F32: 4, F64: 8, I32: 4, I64: 8, U8: 1 };

/**
 * The board file that was packed, byte for byte.
 *
 * Throws where the bytes are no complete packed file of a board of `boardSize` bytes.
 */
export async function unpacked(bytes, boardSize) {
  if (textOf(bytes.subarray(0, 8)) !== PACKED_MAGIC) throw new Error("not a packed board");
  const numbers = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [length, plain] = [numbers.getUint32(8, true), numbers.getUint32(12, true)];
  if (plain > boardSize * 2 + 65536) throw new Error("its description is too long");
  let place = 16 + length;
  const contents = JSON.parse(textOf(await inflated(bytes.subarray(16, place), plain)));
  const header = utf8(contents.header);
  const entries = JSON.parse(contents.header);
  // One below zero would make room for another beyond what was stated.
  if (!contents.parts.every(({ size }) => Number.isSafeInteger(size) && size >= 0)) throw new Error("an array of no size");
  const total = contents.parts.reduce((sum, part) => sum + part.size, 8 + header.length);
  if (total !== boardSize) throw new Error("another size than was stated");
  const lead = new Uint8Array(8);
  new DataView(lead.buffer).setUint32(0, header.length, true);
  const pieces = [lead, header];
  for (const part of contents.parts) {
    if (part.form !== "exact") throw new Error(`an array in the form ${part.form}, which this page does not read`);
    const split = await inflated(bytes.subarray(place, place + part.packed), part.size);
    if (split.length !== part.size) throw new Error("an array of another size");
    pieces.push(together(split, NUMBER_BYTES[entries[part.name].dtype]));
    place += part.packed;
  }
  if (place !== bytes.length) throw new Error("there is more than the board");
  return joined(pieces);
}

/** Numbers whose bytes were taken apart. */
function together(split, width) {
  if (!width || split.length % width) throw new Error("an array of broken numbers");
  if (width === 1) return split;
  const [whole, count] = [new Uint8Array(split.length), split.length / width];
  for (let byte = 0; byte < width; byte++) {
    const from = byte * count;
    for (let row = 0; row < count; row++) whole[row * width + byte] = split[from + row];
  }
  return whole;
}
