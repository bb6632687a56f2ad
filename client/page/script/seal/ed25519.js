// Signatures with Ed25519 (RFC 8032): checked by the browser where it can, else by the few lines below, written after
// sections 5.1.2 to 5.1.7. They only check: there is no secret here that timing could give away.

import { joined } from "../board/bytes.js";
import { plainSha512 } from "./sha2.js";

const FIELD = 2n ** 255n - 19n;
const ORDER = 2n ** 252n + 27742317777372353535851937790883648493n;
const CURVE_D = mod(-121665n * power(121666n, FIELD - 2n));

/** Whether 64 bytes are this key's signature of a message. */
export async function isSigned(key, signature, message) {
  if (key?.length !== 32 || signature?.length !== 64) return false;
  try {
    const imported = await crypto.subtle.importKey("raw", key, { name: "Ed25519" }, false, ["verify"]);
    return await crypto.subtle.verify({ name: "Ed25519" }, imported, signature, message);
  } catch {
    return plainIsSigned(key, signature, message); // an older browser, or a page over plain HTTP
  }
}

/** The same without the browser's help: whether `S B = R + k A`. */
export function plainIsSigned(key, signature, message) {
  if (key.length !== 32 || signature.length !== 64) return false;
  const [A, R] = [decompressed(key), decompressed(signature.subarray(0, 32))];
  const S = littleEndian(signature.subarray(32));
  if (A === null || R === null || S >= ORDER) return false;
  const k = littleEndian(plainSha512(joined([signature.subarray(0, 32), key, message]))) % ORDER;
  return same(times(S, basePoint()), plus(R, times(k, A)));
}

// A point of the curve -x^2 + y^2 = 1 + d x^2 y^2 is (X, Y, Z, T) with x = X/Z, y = Y/Z, xy = T/Z.

function basePoint() {
  return decompressed(Uint8Array.from({ length: 32 }, (_, place) => (place === 0 ? 0x58 : 0x66)));
}

function plus([X1, Y1, Z1, T1], [X2, Y2, Z2, T2]) {
  const [A, B] = [mod((Y1 - X1) * (Y2 - X2)), mod((Y1 + X1) * (Y2 + X2))];
  const [C, D] = [mod(mod(2n * T1 * T2) * CURVE_D), mod(2n * Z1 * Z2)];
  const [E, F, G, H] = [B - A, D - C, D + C, B + A];
  return [mod(E * F), mod(G * H), mod(F * G), mod(E * H)];
}

function times(factor, point) {
  let sum = [0n, 1n, 1n, 0n];
  for (let power = point; factor > 0n; factor >>= 1n, power = plus(power, power)) {
    if (factor & 1n) sum = plus(sum, power);
  }
  return sum;
}

function same([X1, Y1, Z1], [X2, Y2, Z2]) {
  return mod(X1 * Z2 - X2 * Z1) === 0n && mod(Y1 * Z2 - Y2 * Z1) === 0n;
}

/** The point of 32 bytes; null where they are none, or not in the one form that they may have. */
function decompressed(bytes) {
  const whole = littleEndian(bytes);
  const [y, odd] = [whole & (2n ** 255n - 1n), whole >> 255n];
  if (y >= FIELD) return null;
  const [u, v] = [mod(y * y - 1n), mod(CURVE_D * y * y + 1n)];
  let x = mod(u * mod(v ** 3n) * power(mod(u * mod(v ** 7n)), (FIELD - 5n) / 8n));
  const square = mod(v * x * x);
  if (square === mod(-u)) x = mod(x * power(2n, (FIELD - 1n) / 4n));
  else if (square !== u) return null;
  if (x === 0n && odd) return null;
  if ((x & 1n) !== odd) x = FIELD - x;
  return [x, y, 1n, mod(x * y)];
}

function power(base, exponent) {
  let result = 1n;
  for (base = mod(base); exponent > 0n; exponent >>= 1n, base = mod(base * base)) {
    if (exponent & 1n) result = mod(result * base);
  }
  return result;
}

function mod(number) {
  const rest = number % FIELD;
  return rest < 0n ? rest + FIELD : rest;
}

function littleEndian(bytes) {
  return bytes.reduceRight((number, byte) => (number << 8n) | BigInt(byte), 0n);
}
