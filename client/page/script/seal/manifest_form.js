// The form of a manifest (see common/boards/manifest.py): every member there, each of its type, and no other.

const MOST_VERSIONS = 2 ** 31;
const KNOWN_ENCODINGS = ["exact", "packed", "float16", "int8"];
const KNOWN_PROTECTIONS = ["private", "simulation", "no-data"];

const isString = (value) => typeof value === "string";
const isDigest = (value) => isString(value) && /^[0-9a-f]{64}$/.test(value);
const isDigestOrNone = (value) => value === null || isDigest(value);
const isVersion = (value) => Number.isInteger(value) && value >= 0 && value < MOST_VERSIONS;
const isBytes = (value) => Number.isSafeInteger(value) && value > 0;

const FILE_FORM = {
  encoding: (value) => KNOWN_ENCODINGS.includes(value),
  size: isBytes,
  sha256: isDigest,
  bases: (value) => Array.isArray(value) && value.every(Number.isInteger),
  board_size: isBytes,
  board_sha256: isDigest,
  board_digest: isDigest,
  deviation: (value) => value === null || (typeof value === "object" && !Array.isArray(value)),
};
const MANIFEST_FORM = {
  format: isString,
  run: isString,
  version: isVersion,
  board_digest: isDigest,
  previous_digest: isDigestOrNone,
  certificate_digest: isDigestOrNone,
  protection: (value) => KNOWN_PROTECTIONS.includes(value),
  published: isString,
  signed: isSignedTime,
  expires: isSignedTime,
  renewal: isVersion,
  key_id: isString,
  files: (value) => Array.isArray(value) && value.every((file) => hasForm(FILE_FORM, file, { bases: [], deviation: null })),
};

/** Whether this is a manifest. */
export function isManifest(manifest) {
  return hasForm(MANIFEST_FORM, manifest, { renewal: 0 });
}

/** A day and a time that exist, in UTC, to the second: 2026-01-02T03:04:05Z. */
function isSignedTime(value) {
  if (!isString(value) || !/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(value)) return false;
  const time = new Date(value);
  return !Number.isNaN(time.getTime()) && time.toISOString() === value.replace("Z", ".000Z");
}

function hasForm(rules, value, absent) {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return false;
  const all = { ...absent, ...value };
  const names = Object.keys(rules);
  return Object.keys(all).length === names.length && names.every((name) => Object.hasOwn(all, name) && rules[name](all[name]));
}
