"use strict";
// Quality against sentence length: BLEU of each bin with its interval, and the reasons measured beside it.

const THIRDS = [
  ["early", "First third"],
  ["middle", "Second third"],
  ["late", "Last third"],
];
const byThird = (name) => THIRDS.map(([third, title]) => [`${name}_${third}`, title]);
const REASONS = {
  recall: [
    "Recall of content words",
    byThird("recall"),
    "Share of the reference's content words that the translation has, by third of the reference.",
  ],
  probability: [
    "Log-probability",
    byThird("log_probability"),
    "Nats per piece of the reference, by third of the reference.",
  ],
  attention: [
    "Attention",
    [
      ["entropy", "Entropy, in bits"],
      ["distance_from_diagonal", "Distance from the diagonal"],
    ],
    "Means over the pieces of the reference; the distance is a share of the source.",
  ],
  failures: [
    "Failures",
    [
      ["stops_early", "Stops early"],
      ["runs_on", "Runs on"],
      ["repeats", "Repeats"],
    ],
    "Share of the translations.",
  ],
};

const binText = ({ low, high }) => (low === high ? String(low) : `${low}–${high}`);

function lengthPanel(report, go) {
  const names = report.systems.map((system) => system.name);
  const word = report.languages.unit;
  const least = report.min_sentences;
  const pieces = report.systems.some((system) => system.length_pieces.length);
  const unitOptions = [[word, word], ...(pieces ? [["pieces", "pieces"]] : [])];
  const reasons = Object.keys(REASONS).filter((key) =>
    report.systems.some(({ diagnosis }) =>
      diagnosis.some((row) => REASONS[key][1].some(([measure]) => row[measure] !== null)),
    ),
  );
  const controls = {
    systems: systemBoxes(report.systems, (chosen) => go({ systems: formatNames(chosen, names) })),
    unit: segments("Length in", unitOptions, (unit) => go({ unit, bin: "" })),
    reason: segments(
      "Reason",
      reasons.map((key) => [key, REASONS[key][0]]),
      (reason) => go({ reason }),
    ),
  };
  const curve = element("div", { class: "plot" });
  const detail = element("div", { class: "detail", "aria-live": "polite" });
  const why = element("div", { class: "multiples" });
  const note = element("p", { class: "note" });
  let drawn = "";
  const few = element("p", { class: "note" });
  const numbers = element("details", {}, element("summary", {}, "All numbers of this chart"));
  const body = [
    element("div", { class: "controls" }, controls.systems.node, unitOptions.length > 1 ? controls.unit.node : null),
    element("div", { class: "beside" }, element("div", {}, curve, few, numbers), detail),
  ];
  if (reasons.length) {
    body.push(element("h3", {}, "Reasons"), element("div", { class: "controls" }, controls.reason.node), note, why);
  }

  function update(state) {
    const unit = choice(state, "unit", keysOf(unitOptions));
    const rowsOf = (system) => (unit === "pieces" ? system.length_pieces : system.length);
    const chosen = namesIn(state, "systems", names);
    const shown = report.systems.filter((system) => chosen.includes(system.name) && rowsOf(system).length);
    const bins = shown.length ? rowsOf(shown[0]) : [];
    const selected = numberIn(state, "bin", 1, bins.length, 0) - 1;
    const explain = (k) => detail.replaceChildren(...binDetail(report, shown, rowsOf, k, unit));
    controls.systems.set(chosen);
    controls.unit.set(unit);
    columnChart(curve, {
      label: `BLEU by source length in ${unit}`,
      axis: `Source length in ${unit}`,
      names: bins.map(binText),
      texts: bins.map((bin, k) => binLabel(shown, rowsOf, k, unit)),
      y: axisOf(
        "BLEU",
        shown.flatMap((system) => bleuExtent(rowsOf(system), least)),
      ),
      series: shown.map(({ name, look, ...system }, number) => ({
        name,
        look,
        points: bleuPoints(rowsOf(system), least, dodge(number, shown.length)),
      })),
      bars: bins.map((bin, k) => ({ x: k, width: 1, value: bin.n })),
      selected,
      hover: explain,
      choose: (k, replace) => go({ bin: String(k + 1) }, { replace }),
    });
    explain(selected);
    few.textContent = weakNote(bins, least);
    few.hidden = !few.textContent;
    numbers.replaceChildren(numbers.firstChild, allNumbers(shown, rowsOf, bins, unit));
    if (reasons.length) drawReasons(choice(state, "reason", reasons), shown, unit === "pieces" ? -1 : selected);
  }

  /** The charts of a reason; they are always binned as the first length curve is. */
  function drawReasons(reason, shown, selected) {
    controls.reason.set(reason);
    const [title, measures, meaning] = REASONS[reason];
    const bins = shown.find((system) => system.diagnosis.length)?.diagnosis ?? [];
    const together = reason === "attention" ? null : keysOf(measures); // measures of one unit share an axis
    note.textContent = `${meaning} Source length in ${word}. ${weakNote(bins, least)}`;
    const hosts = measures.map(([, caption], k) => why.children[k]?.children[1] ?? element("div", { class: "plot" }));
    if (reason !== drawn) why.replaceChildren(...measures.map(([, caption], k) => figure(caption, hosts[k])));
    drawn = reason;
    measures.forEach(([measure, caption], k) =>
      columnChart(hosts[k], {
        label: `${title}: ${caption}`,
        height: 220,
        axis: "",
        names: bins.map(binText),
        texts: bins.map(
          (bin, at) =>
            `${binText(bin)} ${word}: ${shown.map((system) => `${system.name} ${decimal(system.diagnosis[at]?.[measure], 2)}`).join(", ")}`,
        ),
        y: axisOf(
          "",
          (together ?? [measure]).flatMap((key) => shown.flatMap(({ diagnosis }) => diagnosis.map((row) => row[key]))),
          { count: 4 },
        ),
        series: shown.map(({ name, look, diagnosis }) => ({
          name,
          look,
          points: diagnosis.map((row, x) => ({ x, y: row[measure], weak: row.n < least })),
        })),
        selected,
        choose: (at, replace) => go({ bin: String(at + 1), unit: "" }, { replace }),
      }),
    );
  }

  return { body, update };
}

/** The points of a length curve with their intervals; those of fewer than `least` sentences are weak. */
function bleuPoints(rows, least, offset = 0) {
  return rows.map((row, k) => ({
    x: k + offset,
    y: row.bleu,
    low: row.bleu_low,
    high: row.bleu_high,
    weak: row.n < least,
  }));
}

/** What the axis of a length curve has to hold: its points, and the intervals that are drawn. */
function bleuExtent(rows, least) {
  return rows.flatMap((row) => [row.bleu, row.n < least ? null : row.bleu_high]);
}

/** Systems beside one another within a bin, so that their intervals do not cover each other. */
function dodge(number, count) {
  return count > 1 ? (number / (count - 1) - 0.5) * Math.min(0.08 * count, 0.5) : 0;
}

function binLabel(shown, rowsOf, k, unit) {
  const rows = shown.map((system) => rowsOf(system)[k]);
  return `${binText(rows[0])} ${unit}, ${rows[0].n} sentences, ${rows.map((row, at) => `${shown[at].name} ${scoreText(row)}`).join(", ")}`;
}

function scoreText(row) {
  return `BLEU ${decimal(row.bleu)} (${decimal(row.bleu_low)} to ${decimal(row.bleu_high)})`;
}

/** What is said about a bin: n, BLEU with its interval, length ratio, and two sentences to explore. */
function binDetail(report, shown, rowsOf, k, unit) {
  if (!shown.length || k < 0) {
    return [element("p", { class: "hint" }, "Point at a bin, or move to it with the arrow keys, to read its numbers.")];
  }
  const bin = rowsOf(shown[0])[k];
  const rows = shown.map((system) => {
    const row = rowsOf(system)[k];
    const name = element("span", { class: "named" }, swatch(system.look), element("bdi", {}, system.name));
    return [
      name,
      decimal(row.bleu),
      `${decimal(row.bleu_low)}–${decimal(row.bleu_high)}`,
      decimal(row.length_ratio, 2),
    ];
  });
  const examples = [...new Set(shown.flatMap((system) => rowsOf(system)[k].examples))].slice(0, 2);
  return [
    element("h3", {}, `${binText(bin)} ${unit}`, element("small", {}, ` n = ${bin.n.toLocaleString("en")}`)),
    table(
      "BLEU of this bin; ratio of the lengths of translation and reference",
      ["System", "BLEU", "95%", "Ratio"],
      rows,
    ),
    ...(examples.length ? [element("h4", {}, "Two of them")] : []),
    ...examples.map((index) => exampleOf(report.sentences[index], shown[0].name)),
  ];
}

function exampleOf(sentence, system) {
  const source = plainText(sentence.source);
  return element("p", { class: "example" }, source, " ", explorerLink(sentence, system, `Explore no. ${sentence.id}`));
}

function allNumbers(shown, rowsOf, bins, unit) {
  const rows = bins.map((bin, k) => [
    binText(bin),
    String(bin.n),
    ...shown.map((system) => {
      const row = rowsOf(system)[k];
      return row ? `${decimal(row.bleu)} (${decimal(row.bleu_low)}–${decimal(row.bleu_high)})` : "–";
    }),
  ]);
  return table("BLEU with 95% intervals, by source length", [unit, "n", ...shown.map((system) => system.name)], rows);
}
