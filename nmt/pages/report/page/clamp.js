// The weights of a live translation: a heat map whose cells can be given a weight.

import { element, figure, setDisabled, slider } from "../../web/parts/dom.js";
import { heatMap } from "../../web/parts/heatmap.js";
import { formatClamps, withWeight } from "./changes.js";

/**
 * {node, draw(model), show(model, cell), light(model, step)}.
 *
 * @param {Go} go
 */
export function weightsView(go) {
  /** @type {Model | null} */
  let model = null;
  let column = 0;
  /** The cell that is being moved, and the weights before: a weight of 1 and back leaves the others as they were. */
  let held = { cell: "", places: [0], rows: [[0]] };
  const choose = (/** @type {number} */ row, /** @type {number | null} */ place) =>
    go({ step: String(row + 1), cell: place === null ? "" : String(place + 1) }, { replace: true });
  const heat = heatMap({ point: () => {}, leave: () => {}, choose });
  const description = element("p", { class: "description" });
  const weight = slider("Weight", { min: 0, max: 1, step: 0.01, say: (value) => value.toFixed(2) }, give);
  const button = (/** @type {string} */ label, /** @type {() => void} */ click) =>
    element("button", { type: "button", on: { click } }, label);
  const even = button("Even out the step", () => setRows((row) => row.map(() => 1 / row.length)));
  const release = button("The network’s own", () => {
    held.cell = "";
    setRows(() => null);
  });
  const picture = figure(
    "Choose a cell and give it a weight: the others of its row share the rest. What follows is translated again.",
    heat.node,
    element("div", { class: "clamp" }, description, weight.node, even, release),
  );
  const node = element("div", {}, picture);

  /** Change the rows of the step; null: let the network have its own. @param {(row: number[], k: number) => number[] | null} change */
  function setRows(
    change,
    places = model ? model.rowPlaces[model.step] : [],
    rows = places.map((place) => model?.matrix?.[place] ?? []),
  ) {
    if (!model) return;
    const clamps = new Map(model.held);
    places.forEach((place, k) => {
      const row = change(rows[k], k);
      if (row) clamps.set(place, row);
      else clamps.delete(place);
    });
    go({ clamps: formatClamps(clamps) }, { replace: true });
  }

  /** @param {number} value */
  function give(value) {
    if (!model?.matrix) return;
    const cell = `${model.step} ${column} ${model.unit}`;
    if (held.cell !== cell) {
      const places = model.rowPlaces[model.step];
      held = { cell, places, rows: places.map((place) => /** @type {number[][]} */ (model?.matrix)[place]) };
    }
    const columns = model.columnPlaces[column];
    setRows((row) => withWeight(row, columns, value), held.places, held.rows);
  }

  return {
    node,
    /** Draw a translation. @param {Model} next */
    draw(next) {
      picture.hidden = false;
      heat.draw(next, picture.clientWidth || node.parentElement?.clientWidth || 600);
      heat.paint(next);
      heat.hold(next.rowPlaces.map((places) => places.some((place) => next.held?.has(place))));
    },
    /** Say what the chosen cell is. @param {Model} next @param {string | undefined} cell */
    show(next, cell) {
      model = next;
      picture.hidden = !next.weights;
      if (!next.weights) return;
      const row = next.weights[next.step];
      const place = Number(cell) - 1;
      column = Number.isInteger(place) && row[place] !== undefined ? place : row.indexOf(Math.max(...row));
      if (!next.held?.size || held.cell !== `${next.step} ${column} ${next.unit}`) held.cell = "";
      description.replaceChildren(
        element("bdi", { class: "word", lang: next.langs.target }, next.rows[next.step]),
        " attends to ",
        element("bdi", { class: "word", lang: next.langs.source }, next.columns[column]),
      );
      if (document.activeElement !== weight.control || !held.cell) weight.set(row[column]);
      heat.pick(next.step, column);
      setDisabled(release, !next.rowPlaces[next.step].some((each) => next.held?.has(each)));
    },
    /** @param {Model} next @param {number} step */
    light(next, step) {
      if (next.weights) heat.light(step, next.weights[step]);
    },
  };
}
