// Signed manifests (see common/board_service/manifest.py): what was signed is the text as it came.

import { fromHex, joined, toHex, utf8 } from "../board/bytes.js";
import { isSigned } from "./ed25519.js";
import { sha256 } from "./sha2.js";

const MANIFEST_FORMAT = "fedboard-manifest-2";

/** The manifest that a key signed; throws where it did not. */
export async function openedManifest({ content, signature }, key) {
  const message = joined([utf8(`${MANIFEST_FORMAT}\0`), utf8(content)]);
  if (!(await isSigned(key, fromHex(signature), message))) throw new Error("the signature is not this key's");
  const manifest = JSON.parse(content);
  if (manifest.format !== MANIFEST_FORMAT) throw new Error("another format of manifests");
  if (manifest.key_id !== (await keyId(key))) throw new Error("it names another key than signed it");
  return manifest;
}

/** A short public name of a key: the first 16 digits of the SHA-256 of its 32 bytes. */
export async function keyId(key) {
  return toHex(await sha256(key)).slice(0, 16);
}

/**
 * The chain of boards that ends with this manifest: `problem` (null where nothing is wrong) and `continued`, how many
 * signed ones it continues without a gap.
 */
export async function chainOf(manifest, earlier, key) {
  let [later, continued] = [manifest, 0];
  const wrong = (problem) => ({ problem, continued });
  for (const signed of earlier) {
    const found = await openedManifest(signed, key).catch((error) => error);
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
