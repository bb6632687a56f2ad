// The seal: everything about a board that can be checked where it is read, step by step.

import { toHex } from "../board/bytes.js";
import { boardDigest, readBoard } from "../board/board_file.js";
import { checkedCertificate } from "./certificate.js";
import { continuedManifests, cosigners, isCurrent, keyId, openedManifest } from "./manifests.js";
import { isPrivateNoise } from "./releases.js";
import { sha256 } from "./sha2.js";

export const PASSED = "passed";
export const FAILED = "failed";
export const OPEN = "open";

const MOST_OF_A_NAME = 40;

/** Whether a board with this seal may be used: no check failed, or one alone, and that says that it is a simulation. */
export const isUsable = ({ state, simulation }) => state !== FAILED || simulation;

/** What is checked, in this order. Each gives what passed as a sentence, or `{ open: sentence }`, or throws why not. */
const STEPS = {
  signature: signatureStep,
  bytes: bytesStep,
  chain: chainStep,
  witnesses: witnessesStep,
  promise: promiseStep,
  noise: noiseStep,
};

/** The names of the steps; that of witnesses only where some are pinned. */
export function stepsOf({ pins }) {
  return Object.keys(STEPS).filter((name) => name !== "witnesses" || pins?.witnesses.length);
}

/**
 * Check a board.
 *
 * `evidence` has `bytes` (of the board file), `signed` and `earlier` (manifests as they came, newest first; null and
 * empty where nothing was signed) and `pins`, null where nothing was: `keys` (32 bytes each) of which `threshold` must have signed, `witnesses` of whom `cosignatures` must
 * have cosigned, and `oldest`, the run and the place in it below which no manifest is taken. `told` is called with
 * (step, state, sentence) as each step is done. Gives the seal: `state`, `steps`, and of the certificate `claim` and
 * `numbers` where they hold.
 */
export async function sealOf(evidence, told = () => {}) {
  const none = { claim: null, numbers: null, population: null, manifest: null, board: null, outdated: null };
  const seal = { ...none, steps: {}, simulation: false };
  const names = stepsOf(evidence);
  for (const name of names) {
    const found = await STEPS[name](evidence, seal).then(
      (words) => (words.open ? { state: OPEN, sentence: words.open } : { state: PASSED, sentence: words }),
      (error) => ({ state: FAILED, sentence: `${error.message}.` }),
    );
    seal.steps[name] = found;
    told(name, found.state, found.sentence);
  }
  const states = names.map((name) => seal.steps[name].state);
  seal.state = [FAILED, OPEN].find((state) => states.includes(state)) ?? PASSED;
  // Only what is sound but for its noise is called a simulation, of which it is told what it would promise.
  seal.simulation &&= names.every((name) => name === "noise" || seal.steps[name].state !== FAILED);
  if (!isUsable(seal)) seal.claim = seal.numbers = null;
  return seal;
}

async function signatureStep({ signed, pins }, seal) {
  if (pins === null) {
    return { open: "No signature is in this page: it was made from a folder of boards, not from a mirror." };
  }
  if (signed === null) throw new Error("This page was made of a signed board, and its signature is gone");
  seal.manifest = await openedManifest(signed, pins);
  const { version, run, run_id: runId, renewal, expires, signed: since } = seal.manifest;
  const names = await Promise.all(pins.keys.map(keyId));
  const by = names.length === 1 ? `the key ${names[0]}` : `${pins.threshold} of the keys ${names.join(", ")}`;
  const told = `Signed as version ${Number(version)} of “${shortName(run)}” with ${by} (Ed25519). `;
  const [least, same] = [pins.oldest, runId === pins.oldest.run_id];
  if (!same || version < least.version || (version === least.version && renewal < least.renewal)) {
    throw new Error(`${told}It is ${same ? "older than" : "of another run than"} what this page was made of`);
  }
  if (!isCurrent(seal.manifest)) {
    const clock = `the clock of this device says ${new Date(Date.now()).toJSON().slice(0, 10)}`;
    const early = Date.now() < Date.parse(since);
    seal.outdated = early ? "Not valid yet, by this clock" : "Out of date";
    throw new Error(
      early
        ? `${told}It was signed at ${shortName(since)}, and ${clock}: set the clock`
        : `${told}It was good until ${shortName(expires)}, and ${clock}. If that is right, get the page anew from its publisher`,
    );
  }
  return `${told}Whose key that is this page cannot know: compare it with what the publisher says elsewhere.`;
}

async function bytesStep({ bytes }, seal) {
  seal.board = readBoard(bytes);
  if (seal.manifest === null) {
    return { open: `All ${bytes.length} bytes are here; without a signature nothing says which they should be.` };
  }
  const digest = toHex(await sha256(bytes));
  const { file } = seal.manifest;
  if (file.board_sha256 !== digest || file.board_size !== bytes.length) throw new Error(`These ${bytes.length} bytes are not those that were signed`);
  return `All ${bytes.length} bytes are the ones that were signed (SHA-256 ${digest.slice(0, 16)}…).`;
}

async function chainStep({ earlier }, { board, manifest }) {
  if (board === null) throw new Error("There is no board to look at");
  const digest = await boardDigest(board);
  const { version, previous_digest: previous, certificate } = board.description;
  if (certificate?.board_digest !== digest) throw new Error("Its certificate is for another board than this");
  if (manifest === null) {
    return { open: "The certificate is for this very board. Earlier boards are not here to compare." };
  }
  const same =
    manifest.board_digest === digest &&
    manifest.version === version &&
    manifest.previous_digest === previous &&
    manifest.certificate_digest === certificate.digest;
  if (!same) throw new Error("The signature is for another board or certificate than this");
  const { releases, ledger_head: head = null } = certificate;
  if (manifest.releases !== releases?.length || manifest.ledger_head !== head) {
    throw new Error("The signature states another ledger than the certificate");
  }
  const continued = await continuedManifests(manifest, earlier);
  return continued
    ? `The certificate is for this very board, and it continues the ${continued} signed before it.`
    : "The certificate is for this very board, and it is signed; no earlier one is here to compare.";
}

async function witnessesStep({ signed, pins }, { manifest }) {
  const [n, k] = [pins.witnesses.length, pins.cosignatures];
  if (!(n < 2 * k && k <= n)) throw new Error(`${k} of ${n} witnesses would not keep anybody from showing two boards`);
  if (manifest === null) throw new Error("Nothing is signed here that witnesses could have seen");
  const found = await cosigners(signed, pins);
  if (found.length < k) throw new Error(`Only ${found.length} of ${n} witnesses have cosigned this, and ${k} must`);
  const names = (await Promise.all(found.map(keyId))).join(", ");
  const lie = 2 * k - n - 1 ? `${2 * k - n - 1} of them may lie` : "none of them may lie";
  return `${found.length} of ${n} witnesses have cosigned it (${names}), and ${k} must; ${lie}.`;
}

async function promiseStep(_, seal) {
  const certificate = seal.board?.description.certificate;
  if (!certificate) throw new Error("The board carries no certificate, so nothing is promised");
  const raw = seal.board.raw.get("certificate").value;
  const { failed, checks, beyond, claim, numbers } = await checkedCertificate(certificate, raw);
  if (failed.length) throw new Error(`The certificate does not hold: ${shortName(failed[0], 4 * MOST_OF_A_NAME)}`);
  [seal.claim, seal.numbers, seal.population] = [claim, numbers, beyond === null ? certificate.population : null];
  if (beyond !== null) return { open: `Not recomputed here: ${beyond}. \`fedboard certificate verify\` does.` };
  return (
    `${checks} checks passed: the noise of ${certificate.releases.length} releases was composed anew, and covers ` +
    `epsilon ${shortNumber(claim.epsilon)} at delta ${shortNumber(claim.delta)}.`
  );
}

async function noiseStep(_, seal) {
  const releases = seal.board?.description.certificate?.releases ?? [];
  if (!releases.length) throw new Error("No certificate says which noise is in it");
  const isPrivate = isPrivateNoise(releases);
  if (seal.manifest !== null && seal.manifest.protection !== (isPrivate ? "private" : "simulation")) {
    throw new Error("The signature says something else of its noise than its releases do");
  }
  seal.simulation = !isPrivate && seal.steps.promise.state !== FAILED;
  if (!isPrivate) {
    throw new Error("NOT PRIVATE: the noise can be reproduced from its seed. This is a simulation and protects nobody");
  }
  return "No seed reproduces the noise of any of its releases, so the certificate says.";
}

/** A name that somebody else chose, so that it cannot pass for a sentence of ours. */
function shortName(name, most = MOST_OF_A_NAME) {
  const plain = String(name).replace(/[\p{C}“”]/gu, "");
  return plain.length > most ? `${plain.slice(0, most - 1)}…` : plain;
}

/** Five digits, not sixteen, rounded up: of what this shows, less is better. */
export function shortNumber(value) {
  if (!Number.isFinite(value)) return "–";
  let short = Number(value.toPrecision(5));
  if (short < value) short = Number((short + 10 ** (Math.floor(Math.log10(value)) - 4)).toPrecision(5));
  return short !== 0 && Math.abs(short) < 1e-3 ? short.toExponential() : String(short);
}
