// Addresses that name what the report does not have: a link may be of another report, or typed. The nearest state is
// shown, and the page says what is missing. Only missing names are reported; sliders and steps stop at their ends in silence.

import { filmedSentences } from "./film.js";
import { parseState } from "./state.js";

/**
 * What the values of a panel's state name: key to [kind, all names of that kind].
 *
 * @param {ReportData} report
 * @param {string} panel
 * @returns {Record<string, [string, string[]]>}
 */
function namesOf(report, panel) {
  /** @type {[string, string[]]} */
  const system = ["system", report.systems.map(({ name }) => name)];
  /** @type {Record<string, Record<string, [string, string[]]>>} */
  const kinds = {
    attention: {
      attention: ["sentence", report.sentences.map(({ id }) => String(id))],
      system,
      view: ["layer and head", report.systems.flatMap(({ views }) => views)],
    },
    translate: { system },
    sentences: { system, against: system },
    film: { film: ["sentence", filmedSentences(report).map((_, number) => String(number + 1))] },
  };
  return kinds[panel] ?? {};
}

/**
 * Read an address: {state, missing}. What is missing from the report is left out of the state, or replaced.
 *
 * @param {ReportData} report
 * @param {string} fragment
 * @param {string[]} panels
 */
export function readAddress(report, fragment, panels) {
  const state = parseState(fragment, panels);
  const [panel] = new URLSearchParams(fragment.replace(/^#/, "")).keys();
  if (panel !== undefined && !panels.includes(panel)) {
    return { state: { panel: state.panel }, missing: [`no panel “${panel}”`] };
  }
  const missing = [];
  for (const [key, [kind, names]] of Object.entries(namesOf(report, state.panel))) {
    const name = state[key] ?? "";
    if (name === "" || names.includes(name)) continue;
    missing.push(`no ${kind} “${name}”`);
    state[key] = kind === "system" ? "" : nearest(name, names); // a panel knows its best system to begin with
  }
  return { state, missing };
}

/** The nearest as a number, the first where names are no numbers, or "". @param {string} wanted @param {string[]} names */
function nearest(wanted, names) {
  const distance = (/** @type {string} */ name) => Math.abs(Number(name) - Number(wanted));
  return names.reduce((best, name) => (distance(name) < distance(best) ? name : best), names[0] ?? "");
}
