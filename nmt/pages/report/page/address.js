"use strict";
// Addresses that name what the report does not have: a link may be of another report, or typed. The nearest state is
// shown, and the page says what is missing. Only names are told of; sliders and steps stop at their ends in silence.

/** What the values of a panel's state name: key to [kind, all names of that kind]. */
function namesOf(report, panel) {
  const system = ["system", report.systems.map(({ name }) => name)];
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

/** Read an address: {state, missing}. What is missing from the report is left out of the state, or replaced. */
function readAddress(report, fragment, panels) {
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

/** The name that is nearest as a number; the first where names are no numbers; "" where there are none. */
function nearest(wanted, names) {
  const distance = (name) => Math.abs(Number(name) - Number(wanted));
  return names.reduce((best, name) => (distance(name) < distance(best) ? name : best), names[0] ?? "");
}
