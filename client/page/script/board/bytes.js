// Bytes: base64, hexadecimal, text and deflate, without a library.

/** Bytes of base64 text. */
export function fromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let place = 0; place < binary.length; place++) bytes[place] = binary.charCodeAt(place);
  return bytes;
}

/** Lower case hexadecimal. */
export function toHex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Bytes of hexadecimal text; null where it is none. */
export function fromHex(text) {
  if (typeof text !== "string" || !/^(?:[0-9a-f]{2})*$/i.test(text)) return null;
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** UTF-8. */
export function utf8(text) {
  return new TextEncoder().encode(text);
}

/** Text of UTF-8 bytes; throws where they are none. */
export function textOf(bytes) {
  return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
}

/** One array of several. */
export function joined(pieces) {
  const whole = new Uint8Array(pieces.reduce((length, piece) => length + piece.length, 0));
  let place = 0;
  for (const piece of pieces) {
    whole.set(piece, place);
    place += piece.length;
  }
  return whole;
}

/** The board file of a packed one, which is just so many bytes: it may come from anybody. */
export async function unpacked(bytes, size) {
  if (typeof DecompressionStream === "undefined") {
    throw new Error("this browser cannot unpack the board; take one from 2023 or later");
  }
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  const pieces = [];
  for (let total = 0; ;) {
    const { done, value } = await reader.read();
    if (done && total === size) return joined(pieces);
    if (done) throw new Error("less was packed than was stated");
    total += value.length;
    if (total > size) throw new Error("more was packed than was stated");
    pieces.push(value);
  }
}
