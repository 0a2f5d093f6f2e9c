// A translation step by step, with its heat map: in a report, in the page of a server, and in an exported page.

import { element, figure } from "./dom.js";
import { heatMap } from "./heatmap.js";
import { stepView } from "./steps.js";

/**
 * {nodes, draw(model, note), show(model)}; `choose(step)` is called when a step is chosen.
 *
 * @param {(step: number) => void} choose
 */
export function translationView(choose) {
  /** @type {Model} */
  let model;
  const preview = (step = model.step, /** @type {number | null} */ column = null) => {
    steps.light(model, step, column);
    if (model.weights) heat.light(step, model.weights[step]);
  };
  const steps = stepView({ point: (step) => preview(step), leave: () => preview(), choose });
  const heat = heatMap({
    point: preview,
    leave: () => preview(),
    choose(row, column) {
      if (model.step !== row) choose(row);
      preview(row, column);
    },
  });
  const legend = element("p", { class: "note" });
  const picture = figure("Heat map: rows are the output, columns the source", heat.node, legend);
  return {
    nodes: [steps.node, picture],
    /** Draw a translation; a note follows the legend. @param {Model} next @param {string} [note] */
    draw(next, note = "") {
      model = next;
      steps.draw(model);
      picture.hidden = !model.weights;
      legend.textContent = `${legendOf(model)}${note}`;
      if (model.weights) {
        heat.draw(model, picture.clientWidth);
        heat.paint(model);
      }
      preview();
    },
    /** Show another step or another temperature of what is drawn. @param {Model} next */
    show(next) {
      if (next.weights && next.temperature !== model.temperature) heat.paint(next);
      model = next;
      preview();
    },
  };
}

/** @param {Model} model */
function legendOf({ unit, hard }) {
  const scale = hard
    ? "Each step looks at only one position; no temperature changes that."
    : "An empty cell is 0, full color is 1; a row sums to 1.";
  const joined = "A word's weight is the sum over its source pieces, averaged over its target pieces.";
  return unit === "words" ? `${scale} ${joined}` : scale;
}
