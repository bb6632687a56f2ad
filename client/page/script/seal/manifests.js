// Signed manifests (see common/boards): what was signed is the text as it came. All of a run are one chain, in which
// each names the one before it by the SHA-256 of its content; witnesses cosign what continues it.

import { fromHex, joined, toHex, utf8 } from "../board/bytes.js";
import { isSigned } from "./ed25519.js";
import { sha256 } from "./sha2.js";

const [MANIFEST_FORMAT, COSIGNATURE_FORMAT] = ["fedboard-manifest-5", "fedboard-cosignature-1"];
const CLOCK_SECONDS = 300; // by how much this clock and the publisher's may differ
const [MOST_SIGNATURES, MOST_COSIGNATURES, MOST_NAME] = [16, 32, 256];

/**
 * The manifest that enough of the pinned keys signed; throws where they did not. `pins` has `keys` (32 bytes each, all
 * different) and `threshold`.
 */
export async function openedManifest({ content, signatures }, { keys, threshold }) {
  const given = signatures.slice(0, MOST_SIGNATURES).map(fromHex);
  const found = given.includes(null) ? [] : await signedBy(keys, () => given, under(MANIFEST_FORMAT, content));
  if (found.length < threshold) {
    throw new Error(
      keys.length === 1 ? "the signature is not this key's" : `not signed by ${threshold} of these ${keys.length} keys`,
    );
  }
  return readManifest(content);
}

/** The pinned witnesses who have cosigned a manifest, 32 bytes each. */
export function cosigners({ content, cosignatures = [] }, { witnesses }) {
  const given = cosignatures.slice(0, MOST_COSIGNATURES);
  const own = (key) => given.filter((one) => one.key === toHex(key)).map(({ signature }) => fromHex(signature));
  return signedBy(witnesses, own, under(COSIGNATURE_FORMAT, content));
}

function under(format, content) {
  return joined([utf8(`${format}\0`), utf8(content)]);
}

/** The keys that have signed a message; each counts once, whatever is signed how often. */
async function signedBy(keys, signaturesOf, message) {
  const found = [];
  for (const key of keys) {
    const each = await Promise.all(signaturesOf(key).map((signature) => isSigned(key, signature, message)));
    if (each.includes(true)) found.push(key);
  }
  return found;
}

/** Whether a manifest may be taken for the newest one now. */
export function isCurrent({ signed: since, expires }, now = Date.now()) {
  const slack = CLOCK_SECONDS * 1000;
  return Date.parse(since) <= now + slack && now <= Date.parse(expires) + slack;
}

/** A short public name of a key: the first 16 digits of the SHA-256 of its 32 bytes. */
export async function keyId(key) {
  return toHex(await sha256(key)).slice(0, 16);
}

/**
 * How many manifests before this one are here, newest first, each named by the one after it; throws where one is not
 * continued. Whoever signed the last one vouches for all that it names, so that no signature below it is looked at.
 */
export async function continuedManifests(manifest, earlier) {
  let later = manifest;
  for (const { content } of earlier) {
    const found = readManifest(content);
    const told = `version ${later.version} does not continue version ${found.version}`;
    const problem = whyNotNext(found, toHex(await sha256(utf8(content))), later);
    if (problem !== null) throw new Error(`The chain of boards is broken: ${told}: ${problem}`);
    later = found;
  }
  return earlier.length;
}

/** Why a manifest does not follow another one, whose SHA-256 is given; null where it does. */
function whyNotNext(before, digest, after) {
  const renewed = after.version === before.version;
  const inOrder = after.renewal === (renewed ? before.renewal + 1 : 0) && after.version >= before.version;
  if (after.run !== before.run || after.run_id !== before.run_id) return "it is of another run";
  if (after.previous_manifest !== digest) return "it names another manifest";
  if (!inOrder) return "they are not in their order";
  const [grown, same] = [after.releases - before.releases, after.ledger_head === before.ledger_head];
  if (grown < 0 || (grown === 0 && !same)) return "the ledger was rolled back or rewritten";
  const other = renewed
    ? OF_A_VERSION.some((name) => after[name] !== before[name])
    : after.version === before.version + 1 && after.previous_digest !== before.board_digest;
  return other ? "it is about another board" : null;
}

/** What is signed, read strictly: every member there, each of its type, and no other. */
function readManifest(content) {
  const manifest = { format: MANIFEST_FORMAT, renewal: 0, ...JSON.parse(content) };
  if (manifest.format !== MANIFEST_FORMAT) throw new Error("another format of manifests");
  if (!hasForm(MANIFEST_FORM, manifest)) throw new Error("what is signed is no manifest");
  return manifest;
}

const OF_A_VERSION = ["board_digest", "previous_digest", "certificate_digest", "protection", "releases"];
const isObject = (value) => typeof value === "object" && value !== null;
const isString = (value) => typeof value === "string";
const isDigest = (value) => isString(value) && /^[0-9a-f]{64}$/.test(value);
const isDigestOrNone = (value) => value === null || isDigest(value);
const isVersion = (value) => Number.isInteger(value) && value >= 0 && value < 2 ** 31;
const isBytes = (value) => Number.isSafeInteger(value) && value > 0;
const FILE_FORM = {
  size: isBytes,
  sha256: isDigest,
  board_size: isBytes,
  board_sha256: isDigest,
};
const MANIFEST_FORM = {
  format: isString,
  run: (value) => isString(value) && value !== "" && [...value].length <= MOST_NAME,
  run_id: (value) => isString(value) && /^[0-9a-f]{32}$/.test(value),
  releases: isVersion,
  ledger_head: isDigestOrNone,
  previous_manifest: isDigestOrNone,
  version: isVersion,
  board_digest: isDigest,
  previous_digest: isDigestOrNone,
  certificate_digest: isDigestOrNone,
  protection: (value) => ["private", "simulation", "no-data"].includes(value),
  published: isString,
  signed: isSignedTime,
  expires: isSignedTime,
  renewal: isVersion,
  key_id: isString,
  file: (value) => isObject(value) && hasForm(FILE_FORM, value),
};

/** A day and a time that exist, in UTC, to the second: 2026-01-02T03:04:05Z. */
function isSignedTime(value) {
  if (!isString(value) || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(value)) return false;
  const time = new Date(value);
  return !Number.isNaN(time.getTime()) && time.toISOString() === value.replace("Z", ".000Z");
}

function hasForm(rules, value) {
  const names = Object.keys(rules);
  const whole = Object.keys(value).length === names.length;
  return whole && names.every((name) => Object.hasOwn(value, name) && rules[name](value[name]));
}
