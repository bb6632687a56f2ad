// SHA-256 and SHA-512 (FIPS 180-4): the browser's own where it offers them, else the same in a few lines. Browsers
// withhold theirs from pages that came over plain HTTP.

import { joined } from "../board/bytes.js";

/** SHA-256 of bytes. */
export async function sha256(bytes) {
  return globalThis.crypto?.subtle
    ? new Uint8Array(await crypto.subtle.digest("SHA-256", bytes))
    : plainSha256(bytes);
}

/** The same without the browser's help. */
export function plainSha256(bytes) {
  const constants = fractions(64, 3n, 32n).map(Number);
  const state = Int32Array.from(fractions(8, 2n, 32n).map(Number));
  const message = padded(bytes, 64);
  const view = new DataView(message.buffer);
  const words = new Int32Array(64);
  for (let start = 0; start < message.length; start += 64) {
    for (let t = 0; t < 16; t++) words[t] = view.getInt32(start + 4 * t);
    for (let t = 16; t < 64; t++) {
      const [early, late] = [words[t - 15], words[t - 2]];
      const one = turned(early, 7) ^ turned(early, 18) ^ (early >>> 3);
      const two = turned(late, 17) ^ turned(late, 19) ^ (late >>> 10);
      words[t] = (words[t - 16] + one + words[t - 7] + two) | 0;
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let t = 0; t < 64; t++) {
      const sum = turned(e, 6) ^ turned(e, 11) ^ turned(e, 25);
      const first = (h + sum + ((e & f) ^ (~e & g)) + constants[t] + words[t]) | 0;
      const second = ((turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) | 0, c, b, a, (first + second) | 0];
    }
    [a, b, c, d, e, f, g, h].forEach((word, n) => (state[n] = (state[n] + word) | 0));
  }
  const digest = new DataView(new ArrayBuffer(32));
  state.forEach((word, n) => digest.setInt32(4 * n, word));
  return new Uint8Array(digest.buffer);
}

/** SHA-512 of bytes, without the browser's help. */
export function plainSha512(bytes) {
  const mask = (1n << 64n) - 1n;
  const right = (word, by) => ((word >> by) | (word << (64n - by))) & mask;
  const constants = fractions(80, 3n, 64n);
  const state = fractions(8, 2n, 64n);
  const message = padded(bytes, 128);
  const view = new DataView(message.buffer);
  for (let start = 0; start < message.length; start += 128) {
    const words = Array.from({ length: 16 }, (_, t) => view.getBigUint64(start + 8 * t));
    for (let t = 16; t < 80; t++) {
      const [early, late] = [words[t - 15], words[t - 2]];
      const one = right(early, 1n) ^ right(early, 8n) ^ (early >> 7n);
      const two = right(late, 19n) ^ right(late, 61n) ^ (late >> 6n);
      words.push((words[t - 16] + one + words[t - 7] + two) & mask);
    }
    let [a, b, c, d, e, f, g, h] = state;
    for (let t = 0; t < 80; t++) {
      const sum = right(e, 14n) ^ right(e, 18n) ^ right(e, 41n);
      const first = (h + sum + ((e & f) ^ (~e & mask & g)) + constants[t] + words[t]) & mask;
      const second = (right(a, 28n) ^ right(a, 34n) ^ right(a, 39n)) + ((a & b) ^ (a & c) ^ (b & c));
      [h, g, f, e, d, c, b, a] = [g, f, e, (d + first) & mask, c, b, a, (first + second) & mask];
    }
    [a, b, c, d, e, f, g, h].forEach((word, n) => (state[n] = (state[n] + word) & mask));
  }
  const digest = new DataView(new ArrayBuffer(64));
  state.forEach((word, n) => digest.setBigUint64(8 * n, word));
  return new Uint8Array(digest.buffer);
}

function turned(word, by) {
  return (word >>> by) | (word << (32 - by));
}

/** The message, a one, zeros, and its length in bits in the last words of a block. */
function padded(bytes, block) {
  const zeros = (block - ((bytes.length + 1 + block / 8) % block)) % block;
  const end = new Uint8Array(1 + zeros + block / 8);
  end[0] = 0x80;
  new DataView(end.buffer).setBigUint64(end.length - 8, BigInt(bytes.length) * 8n);
  return joined([bytes, end]);
}

/** First bits of the fractional parts of square (root 2) or cube (root 3) roots of the first primes: its constants. */
function fractions(count, root, bits) {
  const primes = [];
  for (let n = 2; primes.length < count; n++) if (primes.every((prime) => n % prime)) primes.push(n);
  return primes.map((prime) => {
    const target = BigInt(prime) << (bits * root);
    let [low, high] = [0n, 32n << bits];
    while (high - low > 1n) {
      const middle = (low + high) >> 1n;
      if (middle ** root <= target) low = middle;
      else high = middle;
    }
    return low & ((1n << bits) - 1n);
  });
}
