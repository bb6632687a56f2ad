// The seal: everything about a board that can be checked where it is read, step by step.

import { toHex } from "../board/bytes.js";
import { boardDigest, readBoard } from "../board/board_file.js";
import { checkedCertificate } from "./certificate.js";
import { chainOf, isCurrent, keyId, openedManifest } from "./manifests.js";
import { isPrivateNoise } from "./releases.js";
import { sha256 } from "./sha2.js";
import { witnessedBoard } from "./witnesses.js";

export const PASSED = "passed";
export const FAILED = "failed";
export const OPEN = "open";

const MOST_OF_A_NAME = 40;

/** Whether a board with this seal may be used: no check failed, or one alone, and that says that it is a simulation. */
export const isUsable = ({ state, simulation }) => state !== FAILED || simulation;

/** What the steps are called, in their order. */
export const STEPS = ["signature", "bytes", "chain", "promise", "noise"];

/** Those of a page that has a policy of witnesses: one more. */
export function stepsOf({ witnesses = null }) {
  return witnesses === null ? STEPS : [...STEPS.slice(0, 3), "witnesses", ...STEPS.slice(3)];
}

/**
 * Check a board.
 *
 * `evidence` has `bytes` (of the board file), `transported` (bytes and description of the file that it came as, or
 * null), `signed` and `earlier` (manifests as they came, newest first; null and empty where nothing was signed), `key`
 * (32 bytes, or null) and, where a root names several, `more` keys and their `threshold`. `told` is called with (step, state, sentence) as each step is done. Gives the seal: `state`,
 * With a policy of `witnesses`, `proof` (text) has to show the board to enough of them. `steps`, and of the certificate `claim` and `numbers` where they hold.
 */
export async function sealOf(evidence, told = () => {}) {
  const seal = {
    steps: {},
    claim: null,
    numbers: null,
    population: null,
    manifest: null,
    board: null,
    simulation: false,
    outdated: null,
  };
  const step = (name, state, sentence) => {
    seal.steps[name] = { state, sentence };
    return told(name, state, sentence);
  };
  const guarded = async (name, work) => {
    try {
      await work();
    } catch (error) {
      await step(name, FAILED, `${error.message}.`);
    }
  };
  await guarded("signature", () => signatureStep(evidence, seal, step));
  await guarded("bytes", () => bytesStep(evidence, seal, step));
  await guarded("chain", () => chainStep(evidence, seal, step));
  if (stepsOf(evidence).includes("witnesses")) await guarded("witnesses", () => witnessStep(evidence, seal, step));
  await guarded("promise", () => promiseStep(seal, step));
  await guarded("noise", () => noiseStep(seal, step));
  seal.state = overall(Object.values(seal.steps).map(({ state }) => state), stepsOf(evidence).length);
  // Only what is sound but for its noise is called a simulation, of which it is told what it would promise.
  seal.simulation &&= stepsOf(evidence).every((name) => name === "noise" || seal.steps[name].state !== FAILED);
  if (seal.state === FAILED && !seal.simulation) seal.claim = seal.numbers = null;
  return seal;
}

function overall(states, count) {
  if (states.includes(FAILED)) return FAILED;
  return states.length === count && states.every((state) => state === PASSED) ? PASSED : OPEN;
}

/** Whose signatures count: the keys and how many of them. */
const signersOf = ({ key, more = [], threshold = 1 }) => ({ keys: [key, ...more], threshold });

async function signatureStep(evidence, seal, step) {
  const { signed, key } = evidence;
  if (signed === null || key === null) {
    return step(
      "signature",
      OPEN,
      "No signature is in this page: it was made from a folder of boards, not from a mirror.",
    );
  }
  const signers = signersOf(evidence);
  seal.manifest = await openedManifest(signed, signers);
  const { version, run, expires, signed: since } = seal.manifest;
  const names = await Promise.all(signers.keys.map(keyId));
  const by =
    names.length === 1 ? `the key ${names[0]}` : `${signers.threshold} of the keys ${names.join(", ")}`;
  const told = `Signed as version ${Number(version)} of “${shortName(run)}” with ${by} (Ed25519). `;
  if (!isCurrent(seal.manifest)) {
    const clock = `the clock of this device says ${new Date(Date.now()).toJSON().slice(0, 10)}`;
    const early = Date.now() < Date.parse(since);
    seal.outdated = early ? "Not valid yet, by this clock" : "Out of date";
    throw new Error(
      early
        ? `${told}It was signed at ${shortName(since)}, and ${clock}: set the clock`
        : `${told}It was good until ${shortName(expires)}, and ${clock}. If that is right, get the page anew from its ` +
          "publisher; an installed one renews itself when it is opened twice with the network on",
    );
  }
  return step(
    "signature",
    PASSED,
    `${told}Whose key that is this page cannot know: compare it with what the publisher says elsewhere.`,
  );
}

async function bytesStep({ bytes, transported }, seal, step) {
  const { manifest } = seal;
  seal.board = readBoard(bytes);
  if (manifest === null) {
    return step(
      "bytes",
      OPEN,
      `All ${bytes.length} bytes are here; without a signature nothing says which they should be.`,
    );
  }
  const digest = toHex(await sha256(bytes));
  const listed = manifest.files.filter((file) => file.board_sha256 === digest && file.board_size === bytes.length);
  if (!listed.length) throw new Error(`These ${bytes.length} bytes are not those that were signed`);
  if (transported !== null) {
    const sha = toHex(await sha256(transported));
    if (!listed.some((file) => file.sha256 === sha))
      throw new Error("The file that it came in is not one that was signed");
  }
  return step(
    "bytes",
    PASSED,
    `All ${bytes.length} bytes are the ones that were signed (SHA-256 ${digest.slice(0, 16)}…).`,
  );
}

async function chainStep(evidence, seal, step) {
  const { board, manifest } = seal;
  if (board === null) throw new Error("There is no board to look at");
  const digest = await boardDigest(board);
  const certified = board.description.certificate?.board_digest;
  if (board.approximates !== null) {
    if (certified !== board.approximates) throw new Error("Its certificate is for another board");
    return step("chain", OPEN, "These are rounded numbers. The certificate is that of the exact board.");
  }
  if (certified !== digest) throw new Error("Its certificate is for another board than this");
  if (manifest === null) {
    return step("chain", OPEN, "The certificate is for this very board. Earlier boards are not here to compare.");
  }
  const { version, previous_digest: previous, certificate } = board.description;
  const same =
    manifest.board_digest === digest &&
    manifest.version === version &&
    manifest.previous_digest === previous &&
    manifest.certificate_digest === certificate.digest;
  if (!same) throw new Error("The signature is for another board or certificate than this");
  const { problem, continued } = await chainOf(manifest, evidence.earlier, signersOf(evidence));
  if (problem !== null) throw new Error(`The chain of boards is broken: ${problem}`);
  const before = continued ? `continues the ${continued} signed before it` : "no earlier one is here to compare";
  return step(
    "chain",
    PASSED,
    `The certificate is for this very board, and it ${continued ? before : `is signed; ${before}`}.`,
  );
}

async function witnessStep({ witnesses, proof, signed }, seal, step) {
  const { manifest, board } = seal;
  if (manifest === null || board === null) throw new Error("Nothing is signed here that a log could show");
  if ((proof ?? null) === null) throw new Error("No log shows this board to any witness");
  const { entries, names } = await witnessedBoard(proof, witnesses, { signed, manifest, board });
  const lie = witnesses.bears === 0 ? "none of them may lie" : `${witnesses.bears} of them may lie`;
  return step(
    "witnesses",
    PASSED,
    `The log “${shortName(witnesses.log.split("+")[0])}” has ${entries} entries, this board among them, one board for ` +
      `each version, and a ledger that only grew. ${names.map((each) => shortName(each)).join(", ")} saw it, of ` +
      `${witnesses.witnesses.length} witnesses; ${lie}.`,
  );
}

async function promiseStep(seal, step) {
  const { board } = seal;
  const certificate = board?.description.certificate;
  if (!certificate) throw new Error("The board carries no certificate, so nothing is promised");
  const raw = board.raw.get("certificate").value;
  const { failed, checks, beyond, claim, numbers } = await checkedCertificate(certificate, raw);
  if (failed.length) throw new Error(`The certificate does not hold: ${shortName(failed[0], 4 * MOST_OF_A_NAME)}`);
  seal.claim = claim;
  seal.population = beyond === null ? certificate.population : null;
  seal.numbers = numbers;
  if (beyond !== null) {
    return step("promise", OPEN, `Not recomputed here: ${beyond}. \`fedboard certificate verify\` does.`);
  }
  const { epsilon, delta } = claim;
  return step(
    "promise",
    PASSED,
    `${checks} checks passed: the noise of ${certificate.releases.length} releases was composed ` +
      `anew, and covers epsilon ${shortNumber(epsilon)} at delta ${shortNumber(delta)}.`,
  );
}

async function noiseStep(seal, step) {
  const releases = seal.board?.description.certificate?.releases ?? [];
  if (!releases.length) throw new Error("No certificate says which noise is in it");
  const isPrivate = isPrivateNoise(releases);
  const stated = seal.manifest?.protection ?? null;
  if (stated !== null && stated !== (isPrivate ? "private" : "simulation")) {
    throw new Error("The signature says something else of its noise than its releases do");
  }
  seal.simulation = !isPrivate && seal.steps.promise.state !== FAILED;
  if (!isPrivate) {
    throw new Error(
      "NOT PRIVATE: the noise can be reproduced from its seed. This is a simulation and protects nobody",
    );
  }
  return step("noise", PASSED, "No seed reproduces the noise of any of its releases, so the certificate says.");
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
