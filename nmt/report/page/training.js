"use strict";
// Learning curves of all systems, and what they wrote for the same sentences as they learned.

const CURVES = {
  bleu: ["Validation BLEU", "validation", 3, true],
  perplexity: ["Validation perplexity", "validation", 2, true],
  loss: ["Validation loss", "validation", 1, false],
  train: ["Training loss", "train", 1, false],
  speed: ["Target tokens/s", "train", 2, true],
  rate: ["Learning rate", "train", 3, true],
};
const MOST_STOPS = 60;

function trainingPanel(report, go) {
  const names = report.systems.map((system) => system.name);
  const has = (key) =>
    report.systems.some(({ training }) => training[CURVES[key][1]].some((row) => row[CURVES[key][2]] !== null));
  const curves = Object.keys(CURVES).filter(has);
  const sampled = report.systems.filter((system) => system.samples.length);
  const lines = new Map(
    sampled.flatMap(({ samples }) => samples.flatMap((sample) => sample.lines)).map((line) => [line.source, line]),
  );
  const sources = [...lines.keys()];
  const controls = {
    systems: systemBoxes(report.systems, (chosen) => go({ systems: formatNames(chosen, names) })),
    curve: dropDown(
      "Curve",
      curves.map((key) => [key, CURVES[key][0]]),
      (curve) => go({ curve }),
    ),
    system: dropDown(
      "System",
      sampled.map(({ name }) => [name, name]),
      (system) => go({ system }),
    ),
    sample: dropDown(
      "Sentence",
      sources.map((source, k) => [String(k + 1), source.length > 70 ? `${source.slice(0, 69)}…` : source]),
      (sample) => go({ sample }),
    ),
  };
  const plot = element("div", { class: "plot" });
  const readout = element("p", { class: "note", role: "status" });
  const samples = element("div", {});
  const gaps = element("p", { class: "note missing", role: "status" });
  const body = [
    element("div", { class: "controls" }, controls.systems.node, curves.length ? controls.curve.node : null),
    readout,
    plot,
  ];
  if (sampled.length) {
    body.push(
      element("h3", {}, "Samples over time"),
      element(
        "p",
        { class: "note" },
        "The same sentence at each validation. Underlined words differ from the reference.",
      ),
      element("div", { class: "controls" }, controls.system.node, controls.sample.node),
      gaps,
      samples,
    );
  }

  function update(state) {
    const shown = report.systems.filter((system) => namesIn(state, "systems", names).includes(system.name));
    controls.systems.set(shown.map((system) => system.name));
    if (curves.length) drawCurve(shown, choice(state, "curve", curves), state);
    if (sampled.length) {
      const system = sampled.find(({ name }) => name === state.system) ?? sampled[0];
      const number = numberIn(state, "sample", 1, sources.length, 1);
      controls.system.set(system.name);
      controls.sample.set(String(number));
      const line = lines.get(sources[number - 1]);
      const found = samplesOf(system, line.source);
      gaps.textContent = missingSamples(system, found, report.systems);
      gaps.hidden = !gaps.textContent;
      samples.replaceChildren(overTime(found, line));
    }
  }

  function drawCurve(shown, curve, state) {
    const [title, part, column, zero] = CURVES[curve];
    const pointsOf = ({ training }) => training[part].map((row) => ({ x: row[0], y: row[column] }));
    const all = shown.flatMap(pointsOf).filter((point) => point.y !== null);
    const last = Math.max(...all.map((point) => point.x), 1);
    const steps = [...new Set(all.map((point) => point.x))].sort((a, b) => a - b);
    const kept = steps.filter((_, k) => k % Math.ceil(steps.length / MOST_STOPS) === 0);
    const say = (step) =>
      shown.map((system) => {
        const near = pointsOf(system)
          .filter((point) => point.x <= step && point.y !== null)
          .at(-1);
        return `${system.name} ${near ? compact(near.y) : "–"}`;
      });
    const selected = kept.indexOf(numberIn(state, "step", 0, last, -1));
    const explain = (k) => {
      const best = shown
        .map(({ name, training }) => [name, training.validation.filter((row) => row[4]).at(-1)])
        .filter(([, row]) => row);
      readout.textContent =
        k >= 0
          ? `${title} after ${kept[k].toLocaleString("en")} updates: ${say(kept[k]).join(", ")}`
          : `Best validation after: ${best.map(([name, row]) => `${name} ${row[0].toLocaleString("en")}`).join(", ") || "–"} updates`;
    };
    controls.curve.set(curve);
    chart(plot, {
      label: `${title} by updates`,
      x: {
        label: "Updates",
        low: 0,
        high: last,
        ticks: roundTicks(0, last, 5).map((at) => ({ at, text: at.toLocaleString("en") })),
      },
      y: axisOf(
        title,
        all.map((point) => point.y),
        { zero },
      ),
      series: shown.map((system) => ({ name: system.name, look: system.look, points: pointsOf(system) })),
      stops: kept.map((step, k) => ({
        x: step,
        width: last / Math.max(kept.length, 1),
        text: `${step.toLocaleString("en")} updates: ${say(kept[k]).join(", ")}`,
      })),
      selected,
      hover: explain,
      choose: (k, replace) => go({ step: String(kept[k]) }, { replace }),
    });
    explain(selected);
  }

  return { body, update };
}

/** What a system wrote for a sentence, as [updates, line] pairs. */
function samplesOf({ samples }, source) {
  return samples
    .map(({ step, lines }) => [step, lines.find((line) => line.source === source)])
    .filter(([, line]) => line);
}

/** Which validations and which systems have no sample, and why; "" if none is missing. */
function missingSamples({ name, training }, found, systems) {
  const first = training.validation[0]?.[0];
  const begins = found[0]?.[0];
  const without = systems.filter(({ samples }) => !samples.length).map((system) => system.name);
  const parts = [];
  if (begins === undefined) parts.push(`${name} stored no sample of this sentence.`);
  else if (begins > first) {
    parts.push(
      `${name} was validated from update ${first.toLocaleString("en")} on, and its samples begin at update ` +
        `${begins.toLocaleString("en")}: none were stored before (training.validation.samples says how many).`,
    );
  }
  if (without.length) parts.push(`Without any samples: ${without.join(", ")}.`);
  return parts.join(" ");
}

/** The hypotheses of one sentence, a row for each validation. */
function overTime(found, { source, reference }) {
  return pairList({ class: "over-time" }, [
    ["Source", plainText(source)],
    ["Reference", plainText(reference)],
    ...found.map(([step, line]) => [`Update ${step.toLocaleString("en")}`, marked(line.hypothesis, reference)]),
  ]);
}
