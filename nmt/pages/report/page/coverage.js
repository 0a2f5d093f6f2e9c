// How much of the source was read, and how sharply: the sum of each source word's weights, each output word's entropy.

import { decimal, element } from "../../web/parts/dom.js";
import { mean } from "../../web/parts/numbers.js";

/** {node, draw(model)}. */
export function coverageView() {
  const node = element("div", { class: "coverage" });
  return {
    node,
    /** @param {Model} model */
    draw(model) {
      if (!model.matrix) {
        node.replaceChildren(
          element("p", { class: "hint" }, "This system has no attention: it covers nothing in particular."),
        );
        return;
      }
      const { weights, columns, rows, rowPlaces, langs } = model;
      const read = columns.map((_, column) =>
        (weights ?? []).reduce((sum, row, k) => sum + row[column] * rowPlaces[k].length, 0), // rows are means over pieces
      );
      const entropies = rowPlaces.map((places) => mean(places.map((place) => model.entropies[place])));
      const most = Math.log2(model.positions);
      const covered =
        "The sum of a source word’s weights over all output pieces: near 0 was never read, far above its pieces more than once.";
      const spread = `Bits of the weights while a word was written: 0 is one source piece, ${most.toFixed(2)} all alike.`;
      node.replaceChildren(
        bars("Coverage", covered, columns, read, Math.max(...read, 1), langs.source),
        bars("Entropy", spread, rows, entropies, most, langs.target),
      );
    },
  };
}

/**
 * @param {string} title
 * @param {string} note
 * @param {string[]} words
 * @param {number[]} values
 * @param {number} most the value of a full bar
 * @param {string} [lang]
 */
export function bars(title, note, words, values, most, lang) {
  const items = words.map((word, k) => [
    element("bdi", { lang }, word),
    element("span", {
      class: "bar",
      "aria-hidden": "true",
      css: { "--w": Math.min(Math.max(values[k] / most, 0), 1) },
    }),
    element("span", { class: "count" }, decimal(values[k], 2)),
  ]);
  const rows = items.map((item) => element("li", {}, item));
  const list = element("ol", { class: "bars" }, rows);
  return element("section", {}, element("h4", {}, title), element("p", { class: "note" }, note), list);
}
