// Signed manifests (see common/boards/manifest.py): what was signed is the text as it came.

import { fromHex, joined, toHex, utf8 } from "../board/bytes.js";
import { isSigned } from "./ed25519.js";
import { isManifest } from "./manifest_form.js";
import { sha256 } from "./sha2.js";

const MANIFEST_FORMAT = "fedboard-manifest-3";
const CLOCK_SECONDS = 300; // by how much this clock and the publisher's may differ

/**
 * The manifest that enough keys signed; throws where they did not. `signers` has `keys` (32 bytes each, all different)
 * and `threshold`.
 */
export async function openedManifest({ content, signature, more = [] }, signers) {
  const signatures = [signature, ...more].map(fromHex);
  const { keys, threshold } = signers;
  const message = joined([utf8(`${MANIFEST_FORMAT}\0`), utf8(content)]);
  if ((await signedBy(keys, signatures, message)) < threshold) {
    throw new Error(
      keys.length === 1 ? "the signature is not this key's" : `not signed by ${threshold} of these ${keys.length} keys`,
    );
  }
  const manifest = { format: MANIFEST_FORMAT, ...JSON.parse(content) };
  if (manifest.format !== MANIFEST_FORMAT) throw new Error("another format of manifests");
  if (!isManifest(manifest)) throw new Error("what is signed is no manifest");
  return manifest;
}

/** How many of the keys have signed a message; each counts once. */
async function signedBy(keys, signatures, message) {
  let found = 0;
  for (const key of keys) {
    const each = await Promise.all(signatures.map((signature) => isSigned(key, signature, message)));
    if (each.includes(true)) found++;
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
 * The chain of boards that ends with this manifest: `problem` (null where nothing is wrong) and `continued`, how many
 * signed ones it continues without a gap.
 */
export async function chainOf(manifest, earlier, signers) {
  let [later, continued] = [manifest, 0];
  const wrong = (problem) => ({ problem, continued });
  for (const signed of earlier) {
    const found = await openedManifest(signed, signers).catch((error) => error);
    if (found instanceof Error) return wrong(`a manifest before version ${later.version}: ${found.message}`);
    if (found.run !== manifest.run) return wrong(`version ${found.version} is of another run`);
    if (found.version >= later.version) return wrong("its manifests are not in their order");
    if (found.version === later.version - 1 && later.previous_digest !== found.board_digest) {
      return wrong(`version ${later.version} does not continue version ${found.version}`);
    }
    if (found.version === manifest.version - continued - 1) continued++;
    later = found;
  }
  return wrong(null);
}
