// The test sentences as a list: best and worst, gains of one system over another, failures; filter, sort, search.

import { announcer, decimal, dropDown, element, field, labelled, plainText, signed } from "../../web/parts/dom.js";
import { marked } from "../../web/parts/numbers.js";
import { explorerLink, failureTags, pairList } from "./rows.js";
import { choice } from "./state.js";

const MOST_ROWS = 100;
const FILTERS = [
  ["all", "All sentences"],
  ["extremes", "Best and worst of each length"],
  ["failures", "Any failure"],
];

/**
 * @typedef {{system: string, against: string, show: string, sort: string, search: string}} Query
 * @typedef {(sentence: Sentence) => number} Key
 */

/** @param {ReportData} report @param {Go} go @returns {Panel} */
export function sentencesPanel(report, go) {
  const names = report.systems.map((system) => system.name);
  const outputs = report.sentences.flatMap(({ systems }) => Object.values(systems));
  const kinds = [...new Set(outputs.flatMap(({ failures }) => failures))].sort();
  const filters = [
    ...FILTERS.slice(0, kinds.length ? 3 : 2),
    ...kinds.map((kind) => [kind, kind[0].toUpperCase() + kind.slice(1)]),
  ];
  const sorts = (/** @type {string} */ against) => [
    ["worst", `${report.score}, lowest first`],
    ["best", `${report.score}, highest first`],
    ...(against
      ? [
          ["gain", `Gain over ${against}`],
          ["loss", `Loss against ${against}`],
        ]
      : []),
    ["longest", "Longest first"],
    ["shortest", "Shortest first"],
    ["unlikely", "Least probable per piece"],
    ["order", "Order of the test set"],
  ];
  const controls = {
    system: dropDown("System", names, (system) => go({ system })),
    against: dropDown("Compared with", [], (against) => go({ against, sort: against ? "gain" : "" })),
    show: dropDown("Show", filters, (show) => go({ show })),
    sort: dropDown("Sort by", sorts(""), (sort) => go({ sort })),
  };
  const search = field("input", { type: "search", placeholder: "words of any text" }, (text) =>
    go({ search: text }, { replace: true }),
  );
  const count = element("p", { class: "note" });
  const spoken = announcer();
  const list = element("ol", { class: "sentences" });
  const all = Object.values(controls).map((control) => control.node);
  if (names.length < 2) all.splice(1, 1);
  const body = [element("div", { class: "controls" }, all, labelled("Search", search)), count, spoken.node, list];

  /** @param {State} state */
  function update(state) {
    const system = choice(state, "system", names);
    const against = state.against !== system && names.includes(state.against) ? state.against : "";
    const options = sorts(against);
    const values = (/** @type {string[][]} */ pairs) => pairs.map(([value]) => value);
    const query = {
      system,
      against,
      show: choice(state, "show", values(filters)),
      sort: choice(state, "sort", values(options)),
      search: (state.search ?? "").trim().toLowerCase(),
    };
    controls.system.set(system);
    controls.against.set(against, [["", "–"], ...names.filter((name) => name !== system)]);
    controls.show.set(query.show);
    controls.sort.set(query.sort, options);
    controls.sort.control.disabled = query.show === "extremes";
    search.value = state.search ?? "";
    const rows = selectSentences(report, query);
    count.textContent = `${rows.length.toLocaleString("en")} of ${report.sentences.length.toLocaleString("en")} sentences${rows.length > MOST_ROWS ? `, the first ${MOST_ROWS} shown` : ""}. Underlined words differ from the reference.`;
    spoken.say(count.textContent);
    list.replaceChildren(...rows.slice(0, MOST_ROWS).map((sentence) => sentenceRow(report, sentence, query)));
    return "";
  }

  return { body, update };
}

/** The sentences that a query asks for, in its order. @param {ReportData} report @param {Query} query */
function selectSentences(report, { system, against, show, sort, search }) {
  const output = (/** @type {Sentence} */ sentence) => sentence.systems[system];
  /** @type {Key} */
  const score = (sentence) => output(sentence).scores[report.score];
  /** @type {Key} */
  const gain = (sentence) => score(sentence) - (sentence.systems[against]?.scores[report.score] ?? 0);
  /** @type {Key} */
  const perPiece = (sentence) => output(sentence).log_probability / Math.max(output(sentence).chosen.length, 1);
  /** @type {Record<string, Key>} */
  const keys = {
    worst: score,
    best: (s) => -score(s),
    gain: (s) => -gain(s),
    loss: gain,
    longest: (s) => -s.length,
    shortest: (s) => s.length,
    unlikely: perPiece,
    order: (s) => s.id,
  };
  let rows = report.sentences;
  if (show === "extremes") rows = extremes(report, rows, score);
  else if (show === "failures") rows = rows.filter((s) => output(s).failures.length);
  else if (show !== "all") rows = rows.filter((s) => output(s).failures.includes(show));
  if (search) rows = rows.filter((s) => textsOf(s).some((text) => text.toLowerCase().includes(search)));
  if (show === "extremes") return rows;
  return [...rows].sort((a, b) => keys[sort](a) - keys[sort](b) || a.id - b.id);
}

/** @param {Sentence} sentence */
function textsOf({ id, source, reference, systems }) {
  return [source, reference, ...Object.values(systems).map(({ text }) => text), `no. ${id}`];
}

/**
 * The best and the worst sentence of each bin of length, shortest bin first.
 *
 * @param {ReportData} report
 * @param {Sentence[]} rows
 * @param {Key} score
 */
function extremes(report, rows, score) {
  return report.bins.flatMap(({ low, high }) => {
    const members = rows
      .filter(({ length }) => low <= length && length <= high)
      .sort((a, b) => score(b) - score(a) || a.id - b.id);
    return members.length > 1 ? [members[0], members[members.length - 1]] : members;
  });
}

/** @param {ReportData} report @param {Sentence} sentence @param {Query} query */
function sentenceRow(report, sentence, { system, against }) {
  const { langs } = report;
  const output = sentence.systems[system];
  const other = sentence.systems[against];
  const facts = [
    `${sentence.length} ${report.languages.unit}`,
    ...Object.entries(output.scores).map(([label, value]) => `${label} ${decimal(value)}`),
    other
      ? `${report.score} ${signed(output.scores[report.score] - other.scores[report.score])} over ${against}`
      : null,
    `log p ${decimal(output.log_probability)}`,
  ].filter(Boolean);
  const pairs = [
    ["Source", plainText(sentence.source, langs.source)],
    ["Reference", plainText(sentence.reference, langs.target)],
    [element("bdi", {}, system), marked(output.text, sentence.reference, langs.target)],
    ...(other ? [[element("bdi", {}, against), marked(other.text, sentence.reference, langs.target)]] : []),
  ];
  const link = explorerLink(sentence, system, `No. ${sentence.id}`);
  const head = [link, facts.map((fact) => element("span", {}, fact)), failureTags(output)];
  return element("li", {}, element("p", { class: "facts" }, head), pairList(pairs));
}
