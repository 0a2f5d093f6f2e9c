"use strict";
// What a vector of fixed width costs: the same system with encoders of several widths, with and without attention.

function bottleneckPanel(report, go) {
  const systemOf = new Map(report.systems.map((system) => [system.name, system]));
  const runs = report.bottleneck.map((run) => ({ ...run, ...systemOf.get(run.system) })).sort((a, b) => a.width - b.width);
  const widths = [...new Set(runs.map((run) => run.width))];
  const kinds = [["off", "without"], ["on", "with"]].filter(([kind]) => runs.some((run) => run.attention === (kind === "on")));
  const bins = runs[0].length;
  const width = slider(
    "Width of the vector",
    { min: 0, max: widths.length - 1, step: 1, say: (k) => `${widths[k]} units` },
    (k) => go({ width: String(widths[k]) }, { replace: true })
  );
  const attention = segments("Attention", kinds, (kind) => go({ on: kind }));
  const curve = element("div", { class: "plot" });
  const byWidth = element("div", { class: "plot" });
  const says = element("p", { class: "says", role: "status" });
  const body = [
    element("div", { class: "controls" }, width.node, kinds.length > 1 ? attention.node : null),
    says,
    element(
      "div",
      { class: "pair" },
      element("figure", {}, element("figcaption", {}, "BLEU by source length; faint lines are the other widths"), curve),
      element("figure", {}, element("figcaption", {}, "BLEU of the whole test set by width"), byWidth)
    ),
  ];

  function update(state) {
    const at = choice(state, "width", widths.map(String));
    const kind = choice(state, "on", kinds.map(([value]) => value));
    const mine = runs.filter((run) => run.attention === (kind === "on"));
    const run = mine.find((each) => String(each.width) === at) ?? mine[0];
    const others = runs.filter((each) => each.width === run.width && each.attention !== run.attention);
    width.set(widths.indexOf(run.width));
    attention.set(kind);
    says.replaceChildren(...sentence(run, others[0]));
    drawCurve(mine, run, others);
    drawWidths(run);
  }

  function drawCurve(mine, run, others) {
    const line = (each, weight) => ({
      name: each.system,
      look: lookOf(each.attention ? 1 : 0),
      weight,
      points: each.length.map((row, k) => ({ x: k, y: row.bleu, ...(weight === "strong" ? { low: row.bleu_low, high: row.bleu_high } : {}) })),
    });
    chart(curve, {
      label: `BLEU by source length with ${run.width} units`,
      x: { label: `Source length in ${report.languages.unit}`, low: -0.5, high: bins.length - 0.5, ticks: bins.map((bin, at) => ({ at, text: binText(bin) })) },
      y: { label: "BLEU", ...axisOf(runs.flatMap((each) => each.length.flatMap((row) => [row.bleu, row.bleu_high]))) },
      series: [...mine.filter((each) => each !== run).map((each) => line(each, "faint")), ...others.map((each) => line(each, "")), line(run, "strong")],
      stops: run.length.map((row, k) => ({ x: k, width: 1, text: `${binText(row)}: BLEU ${decimal(row.bleu)} (${decimal(row.bleu_low)} to ${decimal(row.bleu_high)}), ${row.n} sentences` })),
    });
  }

  function drawWidths(run) {
    chart(byWidth, {
      height: curve.clientWidth < 480 ? 240 : 320,
      label: "BLEU by width",
      x: { label: "Units", low: -0.5, high: widths.length - 0.5, ticks: widths.map((value, at) => ({ at, text: String(value) })) },
      y: { label: "BLEU", ...axisOf(runs.flatMap(({ bleu }) => (bleu ? [bleu.value, bleu.high] : []))) },
      series: kinds.map(([kind, name]) => ({
        name,
        look: lookOf(kind === "on" ? 1 : 0),
        weight: (kind === "on") === run.attention ? "strong" : "",
        points: runs
          .filter((each) => each.attention === (kind === "on") && each.bleu)
          .map((each) => ({ x: widths.indexOf(each.width), y: each.bleu.value, low: each.bleu.low, high: each.bleu.high })),
      })),
      stops: widths.map((value, k) => ({
        x: k, width: 1,
        text: `${value} units: ${runs.filter((each) => each.width === value).map((each) => `BLEU ${decimal(each.bleu?.value)} ${each.attention ? "with" : "without"} attention`).join(", ")}`,
      })),
      selected: widths.indexOf(run.width),
      choose: (k, replace) => go({ width: String(widths[k]) }, { replace }),
    });
  }

  function sentence(run, other) {
    const [first, last] = [run.length[0], run.length.at(-1)];
    const strong = (value) => element("strong", {}, decimal(value));
    const parts = [
      `${run.width} units ${run.attention ? "with" : "without"} attention: BLEU `, strong(run.bleu?.value), " in all, ",
      strong(first?.bleu), ` at ${first ? binText(first) : ""} ${report.languages.unit} and `,
      strong(last?.bleu), ` at ${last ? binText(last) : ""}`,
    ];
    if (!other) return [...parts, "."];
    return [...parts, `; ${other.attention ? "with" : "without"} attention `, strong(other.length[0]?.bleu), " and ", strong(other.length.at(-1)?.bleu), "."];
  }

  return { body, update };
}
