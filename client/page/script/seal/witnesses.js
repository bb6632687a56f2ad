// The log of boards, and who has seen it (see common/boards/log, and c2sp.org/tlog-proof, tlog-cosignature).
// Everything that was logged is read: witnesses see that a log only grows, not that it holds one board for a version.

import { fromBase64, joined, textOf, toHex, utf8 } from "../board/bytes.js";
import { asciiOnly, rawElements, rawMembers } from "../board/raw_json.js";
import { isSigned } from "./ed25519.js";
import { sha256 } from "./sha2.js";

const PROOF_FORMAT = "c2sp.org/tlog-proof@v1";
const LOG_KEY = 1;
const WITNESS_KEY = 4;
const LAST_SECOND = 2n ** 63n;
const LOGGED = new RegExp(
  "^fedboard-board-log-1\nrun ([^\n]{1,256})\nversion (0|[1-9][0-9]{0,9})\nboard ([0-9a-f]{64})\n" +
    "manifest ([0-9a-f]{64})\nledger (0|[1-9][0-9]{0,9}) (-|[0-9a-f]{64})\nreleases ([0-9a-f]{64})\n$",
);

/**
 * Check that enough witnesses have seen a log which shows this board, and no other for its version.
 *
 * `proof` is the text of a proof, `policy` has `log`, `witnesses` (each `name` and `key`), `quorum` (`least` and
 * `members`) and `bears`; `signed` is the manifest as it came, `manifest` the same, opened, and `board` the board.
 * Gives how many entries the log has, and who cosigned it. Throws where anything is wrong.
 */
export async function witnessedBoard(proof, policy, { signed, manifest, board }) {
  const { texts, note, lines } = parsedProof(proof);
  await requireCheckpoint(note, lines, texts, policy.log);
  const names = await whoCosigned(note, lines, policy);
  if (!isMet(policy.quorum, names)) {
    throw new Error(`Only ${names.size} of its ${policy.witnesses.length} witnesses have seen this state of the log`);
  }
  const entries = texts.map(parsedEntry);
  const first = requireRules(entries);
  const logged = first.get(manifest.version);
  if (logged !== undefined && logged.board !== manifest.board_digest) {
    throw new Error("The log shows another board for this version: somebody shows different boards to different people");
  }
  const digest = toHex(await sha256(utf8(signed.content)));
  const found = entries.find((entry) => entry.manifest === digest);
  const same = found?.run === manifest.run && found.version === manifest.version;
  if (!same || logged === undefined) throw new Error("The log does not show this board");
  await requireSameLedger(first, logged, board);
  return { entries: entries.length, names: [...names] };
}

/** The entries' texts, the text of the checkpoint, and the lines below it. */
function parsedProof(proof) {
  const cut = proof.indexOf("\n\n");
  const [format, extra, index] = proof.slice(0, cut).split("\n");
  if (cut < 0 || format !== PROOF_FORMAT || !extra?.startsWith("extra ") || !index?.startsWith("index ")) {
    throw new Error("What is here is no proof of a log");
  }
  const history = textOf(fromBase64(extra.slice(6)));
  const texts = history.split("\n\n");
  if (texts.pop() !== "") throw new Error("The history of the log is cut short");
  const rest = proof.slice(cut + 2);
  const end = rest.lastIndexOf("\n\n");
  if (end < 0 || !rest.endsWith("\n")) throw new Error("The log's checkpoint is no signed note");
  const lines = rest.slice(end + 2, -1).split("\n").map(parsedLine);
  return { texts: texts.map((text) => `${text}\n`), note: rest.slice(0, end + 1), lines };
}

function parsedLine(line) {
  const [dash, name, content, ...more] = line.split(" ");
  const raw = fromBase64(content ?? "");
  if (dash !== "—" || more.length || raw.length < 5) throw new Error("A signature below the checkpoint is none");
  return { name, id: toHex(raw.subarray(0, 4)), content: raw.subarray(4) };
}

/** The key of a line `name+id+key`. */
async function parsedKey(text, kind) {
  const [name, id, ...rest] = text.split("+");
  const content = fromBase64(rest.join("+"));
  const own = toHex((await sha256(joined([utf8(`${name}\n`), content]))).subarray(0, 4));
  if (content[0] !== kind || content.length !== 33 || own !== id) throw new Error("A key of its policy is none");
  return { name, id, raw: content.subarray(1) };
}

/** The lines that say that a key made them; throws where one of them lies. */
async function linesOf(key, lines, verifies) {
  const own = lines.filter(({ name, id }) => name === key.name && id === key.id);
  for (const line of own) {
    if (!(await verifies(line))) throw new Error("A signature below the checkpoint is not its key's");
  }
  return own.length;
}

async function whoCosigned(note, lines, policy) {
  const names = new Set();
  for (const { name, key: text } of policy.witnesses) {
    const key = await parsedKey(text, WITNESS_KEY);
    const cosigned = await linesOf(key, lines, ({ content }) => isCosigned(key, content, note));
    if (cosigned) names.add(name);
  }
  return names;
}

async function isCosigned(key, content, note) {
  if (content.length !== 8 + 64) return false;
  const time = new DataView(content.buffer, content.byteOffset, 8).getBigUint64(0);
  if (time === 0n || time >= LAST_SECOND) return false;
  return isSigned(key.raw, content.slice(8), utf8(`cosignature/v1\ntime ${time}\n${note}`));
}

async function requireCheckpoint(note, lines, texts, log) {
  const key = await parsedKey(log, LOG_KEY);
  const [origin, size, root] = note.split("\n");
  if (origin !== key.name || size !== String(texts.length)) throw new Error("The checkpoint is not this log's");
  if (!(await linesOf(key, lines, ({ content }) => isSigned(key.raw, content, utf8(note))))) {
    throw new Error("The log's key did not sign the checkpoint");
  }
  const leaves = await Promise.all(texts.map((text) => sha256(joined([Uint8Array.of(0), utf8(text)]))));
  if (toHex(await rootOf(leaves)) !== toHex(fromBase64(root))) {
    throw new Error("The history is not the one that was cosigned");
  }
}

/** The root of a tree (RFC 6962, section 2.1). */
async function rootOf(leaves) {
  if (leaves.length < 2) return leaves[0] ?? sha256(new Uint8Array());
  let half = 1;
  while (half * 2 < leaves.length) half *= 2;
  const sides = [await rootOf(leaves.slice(0, half)), await rootOf(leaves.slice(half))];
  return sha256(joined([Uint8Array.of(1), ...sides]));
}

function isMet({ least, members }, names) {
  const met = members.filter((one) => (typeof one === "string" ? names.has(one) : isMet(one, names)));
  return met.length >= least;
}

function parsedEntry(text) {
  const found = LOGGED.exec(text);
  if (found === null) throw new Error("The log holds what is no entry");
  const [, run, version, board, manifest, rows, head, releases] = found;
  return { run, version: Number(version), board, manifest, rows: Number(rows), head, releases };
}

/** One run, one board for a version, a ledger that only grows; the first entry of each version. */
function requireRules(entries) {
  const first = new Map();
  const stated = ({ board, rows, head, releases }) => JSON.stringify([board, rows, head, releases]);
  for (const entry of entries) {
    if (entry.run !== entries[0].run) throw new Error("The log holds the boards of two runs");
    const known = first.get(entry.version) ?? entry;
    if (stated(known) !== stated(entry)) {
      throw new Error(`The log holds two boards for version ${entry.version}: somebody shows different boards`);
    }
    first.set(entry.version, known);
  }
  const inOrder = [...first.keys()].sort((one, other) => one - other).map((version) => first.get(version));
  inOrder.slice(1).forEach((after, n) => {
    const before = inOrder[n];
    const same = after.rows !== before.rows || (after.head === before.head && after.releases === before.releases);
    if (after.rows < before.rows || !same) throw new Error("The ledger in the log was rolled back or rewritten");
  });
  return first;
}

/** The ledger of the board's certificate is the logged one, and continues that of every earlier board. */
async function requireSameLedger(first, logged, board) {
  const certificate = board.description.certificate ?? null;
  const raw = certificate === null ? null : rawMembers(board.raw.get("certificate").value).get("releases").value;
  const releases = raw === null ? [] : rawElements(raw).map(asciiOnly);
  const head = certificate?.ledger_head ?? "-";
  if (logged.rows !== releases.length || logged.head !== head) {
    throw new Error("The log states another ledger than the board's certificate");
  }
  for (const entry of first.values()) {
    if (entry.version > logged.version) continue;
    const begun = `[${releases.slice(0, entry.rows).join(",")}]`;
    if (toHex(await sha256(utf8(begun))) !== entry.releases) {
      throw new Error("The ledger was rolled back or rewritten: it does not continue what was logged");
    }
  }
}
