"use strict";
// Quality against sentence length: BLEU of each bin with its interval, and the reasons measured beside it.

const THIRDS = [["early", "First third"], ["middle", "Second third"], ["late", "Last third"]];
const byThird = (name) => THIRDS.map(([third, title]) => [`${name}_${third}`, title]);
const REASONS = {
  recall: ["Recall of content words", byThird("recall"), "Share of the reference's content words that the translation has, by third of the reference."],
  probability: ["Log-probability", byThird("log_probability"), "Nats per piece of the reference, by third of the reference."],
  attention: [
    "Attention",
    [["entropy", "Entropy, in nats"], ["distance_from_diagonal", "Distance from the diagonal"]],
    "Means over the pieces of the reference; the distance is a share of the source.",
  ],
  failures: [
    "Failures",
    [["stops_early", "Stops early"], ["runs_on", "Runs on"], ["repeats", "Repeats"]],
    "Share of the translations.",
  ],
};

const binText = ({ low, high }) => (low === high ? String(low) : `${low}–${high}`);

function lengthPanel(report, go) {
  const names = report.systems.map((system) => system.name);
  const word = report.languages.unit;
  const unitOptions = [[word, word], ["pieces", "pieces"]].slice(0, report.systems.some((s) => s.length_pieces.length) ? 2 : 1);
  const reasons = Object.keys(REASONS).filter((key) =>
    report.systems.some(({ diagnosis }) => diagnosis.some((row) => REASONS[key][1].some(([measure]) => row[measure] !== null)))
  );
  const controls = {
    systems: systemBoxes(report.systems, (chosen) => go({ systems: formatNames(chosen, names) })),
    unit: segments("Length in", unitOptions, (unit) => go({ unit, bin: "" })),
    reason: segments("Reason", reasons.map((key) => [key, REASONS[key][0]]), (reason) => go({ reason })),
  };
  const curve = element("div", { class: "plot" });
  const detail = element("div", { class: "detail", "aria-live": "polite" });
  const why = element("div", { class: "multiples" });
  const note = element("p", { class: "note" });
  const numbers = element("details", {}, element("summary", {}, "All numbers of this chart"));
  const body = [
    element("div", { class: "controls" }, controls.systems.node, unitOptions.length > 1 ? controls.unit.node : null),
    element("div", { class: "beside" }, curve, detail),
    numbers,
  ];
  if (reasons.length) {
    body.push(
      element("h3", {}, "Reasons"),
      element("div", { class: "controls" }, controls.reason.node),
      note,
      why
    );
  }

  function update(state) {
    const shown = report.systems.filter((system) => namesIn(state, "systems", names).includes(system.name));
    const unit = choice(state, "unit", unitOptions.map(([value]) => value));
    const rowsOf = (system) => (unit === "pieces" ? system.length_pieces : system.length);
    const bins = rowsOf(shown.find((system) => rowsOf(system).length) ?? shown[0]);
    const selected = numberIn(state, "bin", 1, bins.length, 0) - 1;
    controls.systems.set(shown.map((system) => system.name));
    controls.unit.set(unit);
    const explain = (k) => detail.replaceChildren(...binDetail(report, shown, rowsOf, k, unit));
    const choose = (k, replace) => go({ bin: String(k + 1) }, { replace });
    const stops = bins.map((bin, k) => ({ x: k, width: 1, text: binLabel(shown, rowsOf, k, unit) }));
    const axis = { label: `Source length in ${unit}`, low: -0.5, high: bins.length - 0.5, ticks: bins.map((bin, k) => ({ at: k, text: binText(bin) })) };
    const points = shown.flatMap((system) => rowsOf(system).flatMap((row) => [row.bleu, row.bleu_high]));
    chart(curve, {
      label: `BLEU by source length in ${unit}`,
      x: axis,
      y: { label: "BLEU", ...axisOf(points.filter((value) => value !== null)) },
      series: shown.map((system, number) => ({
        name: system.name,
        look: system.look,
        points: rowsOf(system).map((row, k) => ({
          x: k + dodge(number, shown.length), y: row.bleu, low: row.bleu_low, high: row.bleu_high,
        })),
      })),
      bars: bins.map((bin, k) => ({ x: k, width: 1, value: bin.n })),
      stops, selected, hover: explain, choose,
    });
    explain(selected);
    numbers.replaceChildren(numbers.firstChild, allNumbers(shown, rowsOf, bins, unit));
    if (reasons.length) drawReasons(choice(state, "reason", reasons), shown, selected, choose);
  }

  function drawReasons(reason, shown, selected, choose) {
    controls.reason.set(reason);
    const [, measures, meaning] = REASONS[reason];
    const bins = shown.find((system) => system.diagnosis.length)?.diagnosis ?? [];
    const shared = reason === "attention" ? null : measures.map(([measure]) => measure);
    note.textContent = `${meaning} Source length in ${word}.`;
    measures.forEach(([measure, title], k) => {
      why.children[k] ?? why.append(element("figure", {}, element("figcaption", {}), element("div", { class: "plot" })));
      const [caption, host] = why.children[k].children;
      caption.textContent = title;
      const values = (shared ?? [measure]).flatMap((key) => shown.flatMap((system) => system.diagnosis.map((row) => row[key])));
      chart(host, {
        label: `${REASONS[reason][0]}: ${title}`,
        height: 220,
        x: { label: "", low: -0.5, high: bins.length - 0.5, ticks: bins.map((bin, at) => ({ at, text: binText(bin) })) },
        y: { label: "", ...axisOf(values.filter((value) => value !== null), { count: 4 }) },
        series: shown.map(({ name, look, diagnosis }) => ({ name, look, points: diagnosis.map((row, at) => ({ x: at, y: row[measure] })) })),
        stops: bins.map((bin, at) => ({
          x: at, width: 1,
          text: `${binText(bin)} ${word}: ${shown.map((s) => `${s.name} ${decimal(s.diagnosis[at]?.[measure], 2)}`).join(", ")}`,
        })),
        selected, choose,
      });
    });
    while (why.children.length > measures.length) why.lastChild.remove();
  }

  return { body, update };
}

/** Systems beside one another within a bin, so that their intervals do not cover each other. */
function dodge(number, count) {
  return count > 1 ? (number / (count - 1) - 0.5) * Math.min(0.08 * count, 0.5) : 0;
}

function binLabel(shown, rowsOf, k, unit) {
  const row = rowsOf(shown[0])[k];
  const scores = shown.map((system) => {
    const { bleu, bleu_low, bleu_high } = rowsOf(system)[k];
    return `${system.name} ${decimal(bleu)} (${decimal(bleu_low)} to ${decimal(bleu_high)})`;
  });
  return `${row ? binText(row) : ""} ${unit}, ${row?.n} sentences, BLEU ${scores.join(", ")}`;
}

/** What is said about a bin: n, BLEU with its interval, length ratio, and two sentences to explore. */
function binDetail(report, shown, rowsOf, k, unit) {
  const there = shown.filter((system) => rowsOf(system)[k]);
  if (!there.length) return [element("p", { class: "hint" }, "Point at a bin, or move to it with the arrow keys, to read its numbers.")];
  const bin = rowsOf(there[0])[k];
  const rows = there.map((system) => {
    const row = rowsOf(system)[k];
    return [
      element("span", { class: "named" }, swatch(system.look), element("bdi", {}, system.name)),
      decimal(row.bleu),
      `${decimal(row.bleu_low)}–${decimal(row.bleu_high)}`,
      decimal(row.length_ratio, 2),
    ];
  });
  const examples = [...new Set(there.flatMap((system) => rowsOf(system)[k].examples))].slice(0, 2);
  return [
    element("h3", {}, `${binText(bin)} ${unit}`, element("small", {}, ` n = ${bin.n.toLocaleString("en")}`)),
    table("BLEU of this bin; ratio of the lengths of translation and reference", ["System", "BLEU", "95%", "Ratio"], rows),
    ...(examples.length ? [element("h4", {}, "Two of them"), ...examples.map((index) => exampleOf(report.sentences[index], there[0].name))] : []),
  ];
}

function exampleOf(sentence, system) {
  return element(
    "p",
    { class: "example" },
    element("span", { dir: "auto" }, sentence.source),
    " ",
    element("a", { href: formatState({ panel: "attention", attention: String(sentence.id), system }) }, `Explore no. ${sentence.id}`)
  );
}

function allNumbers(shown, rowsOf, bins, unit) {
  const rows = bins.map((bin, k) => [
    binText(bin), String(bin.n),
    ...shown.map((system) => {
      const row = rowsOf(system)[k];
      return row ? `${decimal(row.bleu)} (${decimal(row.bleu_low)}–${decimal(row.bleu_high)})` : "–";
    }),
  ]);
  return table("BLEU with 95% intervals, by source length", [unit, "n", ...shown.map((system) => system.name)], rows);
}
