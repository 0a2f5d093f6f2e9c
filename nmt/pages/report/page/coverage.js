// How much of the source was read, and how sharply: the sum of each source word's weights, each output word's entropy.

import { element } from "../../web/parts/dom.js";
import { columnsOf } from "../../web/parts/model.js";
import { mean } from "../../web/parts/numbers.js";

/** {node, draw(model)}. */
export function coverageView() {
  const node = element("div", { class: "coverage" });
  const bars = (
    /** @type {string} */ title,
    /** @type {string} */ note,
    /** @type {[string, number][]} */ values,
    most = 1,
  ) =>
    element(
      "section",
      {},
      element("h4", {}, title),
      element("p", { class: "note" }, note),
      element(
        "ol",
        { class: "bars" },
        values.map(([word, value]) =>
          element(
            "li",
            {},
            element("bdi", {}, word),
            element("span", { class: "bar", "aria-hidden": "true", css: { "--w": Math.min(value / most, 1) } }),
            element("span", { class: "count" }, value.toFixed(2)),
          ),
        ),
      ),
    );
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
      const { read, entropies } = coverageOf(model);
      const named = (/** @type {string[]} */ words, /** @type {number[]} */ values) =>
        words.map((word, k) => /** @type {[string, number]} */ ([word, values[k]]));
      node.replaceChildren(
        bars(
          "Coverage",
          "The sum of a source word’s weights over all output pieces: near 0 was never read, far above its pieces more than once.",
          named(model.columns, read),
          Math.max(...read, 1),
        ),
        bars(
          "Entropy",
          `Bits of the weights while a word was written: 0 is one source piece, ${Math.log2(model.positions).toFixed(2)} all alike.`,
          named(model.rows, entropies),
          Math.log2(model.positions),
        ),
      );
    },
  };
}

/** The sum of each column's weights, and the mean entropy of each row's pieces. @param {Model} model */
function coverageOf(model) {
  const { matrix, columns, groups, firstOf } = model;
  const all = matrix ?? [];
  const read = columns.map((_, column) =>
    all.reduce((sum, row) => columnsOf(model, column).reduce((part, place) => part + row[place], sum), 0),
  );
  const entropies = groups.map((pieces, row) => mean(pieces.map((_, k) => model.entropies[firstOf[row] + k])));
  return { read, entropies };
}
