// What the decoder's state points to: the pieces whose rows of the output layer are nearest to what it reads.

import { path, penalty } from "../../web/engine/search.js";
import { element } from "../../web/parts/dom.js";
import { bars } from "./coverage.js";

const NEAREST = 6;
const POINTS =
  "Cosine of the vector that the output layer reads at this step with the layer’s row of each piece. A piece’s logit is the cosine times both lengths, plus its bias.";
const MIXES = "This system has such a vector for each source piece, and mixes what follows from them.";

/** {node, draw(model, reading)}. */
export function statesView() {
  const node = element("div", { class: "coverage states" });
  return {
    node,
    /** @param {Model} model @param {import("./engines.js").LiveReading} reading */
    draw(model, { beam, search: { pieces, alpha }, translator }) {
      const score = (/** @type {import("./beam.js").Hypothesis} */ { logProb, length }) =>
        logProb / penalty(length, alpha);
      const best = beam.flatMap(({ ended }) => ended).reduce((a, b) => (score(b) > score(a) ? b : a));
      const first = model.firstOf[model.step];
      const nearest = path(best)
        .slice(first, first + model.groups[model.step].length)
        .map(({ token, readout }) => {
          const found = readout ? translator.nearest(readout, NEAREST) : [];
          const [names, cosines] = [found.map(([piece]) => piece), found.map(([, cosine]) => cosine)];
          return bars(`Nearest pieces where ${pieces[token]} was chosen`, readout ? POINTS : MIXES, names, cosines, 1);
        });
      node.replaceChildren(...nearest);
    },
  };
}
