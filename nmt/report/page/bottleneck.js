"use strict";
// What a vector of fixed width costs: the same system with encoders of several widths, with and without attention.

/** The run whose width is nearest; of two the narrower. Undefined without runs. */
function nearestRun(runs, width) {
  const distance = (run) => Math.abs(run.width - width);
  return [...runs].sort((a, b) => distance(a) - distance(b) || a.width - b.width)[0];
}

function bottleneckPanel(report, go) {
  const systemOf = new Map(report.systems.map((system) => [system.name, system]));
  const runs = report.bottleneck
    .map((run) => ({ ...run, ...systemOf.get(run.system) }))
    .sort((a, b) => a.width - b.width);
  const widths = [...new Set(runs.map((run) => run.width))];
  const kinds = [
    ["off", "without"],
    ["on", "with"],
  ].filter(([kind]) => runs.some((run) => run.attention === (kind === "on")));
  const width = slider(
    "Width of the vector",
    { min: 0, max: widths.length - 1, step: 1, say: (k) => `${widths[k]} units` },
    (k) => go({ width: String(widths[k]) }, { replace: true }),
  );
  const attention = segments("Attention", kinds, (kind) => go({ on: kind }));
  const curve = element("div", { class: "plot" });
  const byWidth = element("div", { class: "plot" });
  const says = element("p", { class: "says", role: "status" });
  const few = element("p", { class: "note" }, weakNote(runs[0].length, report.min_sentences));
  const legend = kinds.map(([kind, name]) => [
    " ",
    element("span", { class: "named" }, swatch(lookOf(kind === "on" ? 1 : 0)), `${name} attention`),
  ]);
  const body = [
    element("div", { class: "controls" }, width.node, kinds.length > 1 ? attention.node : null),
    says,
    element(
      "div",
      { class: "pair" },
      figure(["BLEU by source length (faint: other widths)", legend], curve, few.textContent ? few : null),
      figure("BLEU of the whole test set by width", byWidth),
    ),
  ];

  function update(state) {
    const at = Number(choice(state, "width", widths.map(String)));
    const kind = choice(state, "on", keysOf(kinds));
    const mine = runs.filter((run) => run.attention === (kind === "on"));
    const run = nearestRun(mine, at);
    const other = nearestRun(
      runs.filter((each) => each.attention !== run.attention),
      run.width,
    );
    width.set(widths.indexOf(run.width));
    width.control.disabled = mine.length < 2;
    attention.set(kind);
    says.replaceChildren(...sentence(run, other));
    drawCurve(mine, run, other);
    drawWidths(run);
  }

  function drawCurve(mine, run, other) {
    const line = (each, weight) => {
      const points = bleuPoints(each.length, report.min_sentences);
      const look = lookOf(each.attention ? 1 : 0);
      return {
        name: each.system,
        look,
        weight,
        tag: String(each.width),
        points: weight === "strong" ? points : points.map(({ x, y, weak }) => ({ x, y, weak })),
      };
    };
    columnChart(curve, {
      label: `BLEU by source length with ${run.width} units`,
      axis: `Source length in ${report.languages.unit}`,
      names: run.length.map(binText),
      texts: run.length.map((row) => `${binText(row)}: ${scoreText(row)}, ${row.n} sentences`),
      y: axisOf(
        "BLEU",
        runs.flatMap((each) => bleuExtent(each.length, report.min_sentences)),
      ),
      series: [
        ...mine.filter((each) => each !== run).map((each) => line(each, "faint")),
        ...(other ? [line(other, "")] : []),
        line(run, "strong"),
      ],
    });
  }

  function drawWidths(run) {
    const isOn = (kind) => kind === "on";
    const said = ({ bleu, attention: on }) => `BLEU ${decimal(bleu.value)} ${on ? "with" : "without"} attention`;
    columnChart(byWidth, {
      label: "BLEU by width",
      height: curve.clientWidth < 480 ? 240 : 340,
      axis: "Units",
      names: widths.map(String),
      texts: widths.map(
        (value) =>
          `${value} units: ${runs
            .filter((each) => each.width === value)
            .map(said)
            .join(", ")}`,
      ),
      y: axisOf(
        "BLEU",
        runs.flatMap(({ bleu }) => [bleu.value, bleu.high]),
      ),
      series: kinds.map(([kind, name]) => ({
        name,
        look: lookOf(isOn(kind) ? 1 : 0),
        weight: isOn(kind) === run.attention ? "strong" : "",
        points: runs
          .filter((each) => each.attention === isOn(kind))
          .map(({ width: units, bleu }) => ({
            x: widths.indexOf(units),
            y: bleu.value,
            low: bleu.low,
            high: bleu.high,
          })),
      })),
      selected: widths.indexOf(run.width),
      choose: (k, replace) => go({ width: String(widths[k]) }, { replace }),
    });
  }

  function sentence(run, other) {
    const [first, last] = [run.length[0], run.length.at(-1)];
    const strong = (value) => element("strong", {}, decimal(value));
    const parts = [
      `${run.width} units ${run.attention ? "with" : "without"} attention: BLEU `,
      strong(run.bleu?.value),
      " in all, ",
      strong(first?.bleu),
      ` at ${first ? binText(first) : ""} ${report.languages.unit} and `,
      strong(last?.bleu),
      ` at ${last ? binText(last) : ""}`,
    ];
    if (!other) return [...parts, "."];
    return [
      ...parts,
      `; ${other.width} units ${other.attention ? "with" : "without"} attention: BLEU `,
      strong(other.bleu?.value),
      " in all, ",
      strong(other.length[0]?.bleu),
      " and ",
      strong(other.length.at(-1)?.bleu),
      ".",
    ];
  }

  return { body, update };
}
