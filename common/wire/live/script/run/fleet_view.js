// How the fleet stands: for the operator's own machine.

import { facts } from "../tables.js";
import { el, part } from "../shared/dom.js";

/** Show who is there and what ends soon, or nothing where this reader is not told. */
export function showFleet(fleet) {
  part("fleet").hidden = fleet === null;
  if (fleet === null) return;
  const versions = Object.entries(fleet.versions).map(([name, count]) => `${count} of ${name || "unknown"}`);
  facts("fleet-facts", [
    ["online", fleet.online === null ? "–" : `${fleet.online} of ${fleet.admitted}`],
    ["quorum", String(fleet.quorum)],
    ["by invitation", String(fleet.invited)],
    ["open invitations", String(fleet.open_invitations)],
    ["versions", versions.join(", ") || "–"],
    ...fleet.expires.map(({ what, at }) => [what, `until ${new Date(1000 * at).toISOString().slice(0, 10)}`]),
  ]);
  part("fleet-problems").replaceChildren(...fleet.problems.map((problem) => el("li", {}, problem)));
}
