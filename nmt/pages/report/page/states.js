// What the states hold: the pieces that the decoder's points to, and how far each source word moves the encoder's.

import { likeliest, path, score } from "../../web/engine/search.js";
import { dot } from "../../web/engine/weights.js";
import { element } from "../../web/parts/dom.js";
import { bars } from "./coverage.js";

const NEAREST = 6;
const POINTS =
  "Cosine of the vector that the output layer reads at this step with the layer’s row of each piece. A piece’s logit is the cosine times both lengths, plus its bias.";
const MIXES = "This system has such a vector for each source piece, and mixes what follows from them.";
const MOVES =
  "Distance between the direction’s annotations before and after a word, divided by the sum of their lengths: 0 if the word changes nothing, 1 at most, as for the first word that is read.";

/** {node, draw(model, reading)}. */
export function statesView() {
  const node = element("div", { class: "coverage states" });
  return {
    node,
    /** @param {Model} model @param {LiveReading} reading */
    draw(model, { beam, translator }) {
      const { pieces } = translator.target;
      const alpha = translator.config.decoding.length_penalty;
      const best = beam.flatMap(({ ended }) => ended).reduce((a, b) => (score(b, alpha) > score(a, alpha) ? b : a));
      const shown = path(best).filter((_, place) => model.rowPlaces[model.step].includes(place));
      const nearest = shown.map(({ token, readout }) => {
        const { names, cosines } = readout ? nearestPieces(translator, readout) : { names: [], cosines: [] };
        const title = `Nearest pieces where ${pieces[token]} was chosen`;
        return bars(title, readout ? POINTS : MIXES, names, cosines, 1, model.langs.target);
      });
      const { model: network, reverse_source: reversed } = translator.config;
      const { annotations } = best.state.memory;
      const end = annotations.length - 1; // the end symbol is read last, whatever the order of the others
      const places = model.columnPlaces.map((word) =>
        word.map((place) => (reversed && place < end ? end - 1 - place : place)),
      );
      const ways = network.encoder.directions === "both" ? 2 : 1;
      const moved = Array.from({ length: ways }, (_, way) => {
        const title = `Encoder, from the ${Boolean(way) === reversed ? "first word on" : "last word back"}`;
        return bars(title, MOVES, model.columns, moves(annotations, places, way, ways), 1, model.langs.source);
      });
      node.replaceChildren(...nearest, ...moved);
    },
  };
}

/**
 * The pieces whose rows of the output layer are nearest to what it reads, with their cosines.
 *
 * @param {import("../../web/engine/translator.js").Translator} translator
 * @param {Float32Array} readout
 */
function nearestPieces({ network, target: { pad, bos, pieces } }, readout) {
  const { weight, outputs, inputs } = network.output;
  const every = Float32Array.from({ length: outputs }, (_, id) => {
    const row = weight.subarray(id * inputs, (id + 1) * inputs);
    return dot(row, readout) / Math.sqrt(dot(row, row) * dot(readout, readout));
  });
  const ids = likeliest(every, NEAREST, [pad, bos]);
  return { names: ids.map((id) => pieces[id]), cosines: ids.map((id) => every[id]) };
}

/**
 * |h - g| / (|h| + |g|) for each word: h after it, g before it, of one direction.
 *
 * @param {Float32Array[]} annotations in the order of reading, all directions side by side
 * @param {number[][]} places of the pieces of each word in that order
 * @param {number} way 0: forward, 1: backward
 * @param {number} ways directions
 */
function moves(annotations, places, way, ways) {
  const units = annotations[0].length / ways;
  const own = (/** @type {number} */ place) =>
    annotations[place]?.subarray(way * units, (way + 1) * units) ?? new Float32Array(units);
  return places.map((word) => {
    const [low, high] = [Math.min(...word), Math.max(...word)];
    const [before, after] = way ? [own(high + 1), own(low)] : [own(low - 1), own(high)];
    const lengths = Math.hypot(...before) + Math.hypot(...after);
    return lengths && Math.hypot(...after.map((unit, i) => unit - before[i])) / lengths;
  });
}
