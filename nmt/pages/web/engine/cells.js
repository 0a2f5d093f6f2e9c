/** Recurrent cells, as in nmt/model/cells.py: how a state is updated by the input's part of the gates. */

import { added, joined, sigmoid } from "./weights.js";

/**
 * @typedef {import("./weights.js").Part} Part
 *
 * @typedef {object} Recurrence the options of an encoder or decoder
 * @property {string} type
 * @property {number} hidden
 * @property {number} layers
 * @property {boolean} residual
 *
 * @typedef {object} Cell
 * @property {number} width units of the state
 * @property {(inputs: Float32Array[], states: Float32Array[]) => Float32Array[]} step of several rows, by the input's gates
 * @property {(state: Float32Array) => Float32Array} output
 *
 * @typedef {(options: Recurrence, part: Part) => Cell} MakeCell
 */

/**
 * Layer normalization of groups of gates (Ba et al. 2016); without weights, nothing.
 *
 * @param {Part} part
 * @returns {(gates: Float32Array) => Float32Array}
 */
function makeNorm(part) {
  /** @type {{gain: Float32Array, shift: Float32Array}[]} */
  const groups = [];
  for (let i = 0; part.has(`norms.${i}.weight`); i += 1)
    groups.push({ gain: part.tensor(`norms.${i}.weight`).data, shift: part.tensor(`norms.${i}.bias`).data });
  if (!groups.length) return (gates) => gates;
  return (gates) => {
    let from = 0;
    const normalized = groups.map(({ gain, shift }) => {
      const units = gates.subarray(from, (from += gain.length));
      const mean = units.reduce((a, b) => a + b, 0) / units.length;
      const variance = units.reduce((sum, unit) => sum + (unit - mean) ** 2, 0) / units.length;
      const scale = 1 / Math.sqrt(variance + 1e-5);
      return units.map((unit, i) => (unit - mean) * scale * gain[i] + shift[i]);
    });
    return joined(...normalized);
  };
}

/** @type {MakeCell} */
function makeGru({ hidden: n }, part) {
  const recurrent = part.linear("recurrent");
  const recurrentNorm = makeNorm(part.part("recurrent_norm"));
  const candidateRecurrent = part.linearIfAny("candidate_recurrent");
  const candidateNorm = makeNorm(part.part("candidate_norm"));
  return {
    width: n,
    step(inputs, states) {
      const recurrents = recurrent.all(states).map(recurrentNorm);
      const resets = states.map((state, r) => state.map((_, i) => sigmoid(inputs[r][i] + recurrents[r][i])));
      // the reset gate after the product of the candidate, as in cuDNN, or before it (Cho et al. 2014)
      const before = candidateRecurrent
        ?.all(states.map((state, r) => state.map((s, i) => resets[r][i] * s)))
        .map(candidateNorm);
      return states.map((state, r) => {
        const [x, u, reset] = [inputs[r], recurrents[r], resets[r]];
        return state.map((s, i) => {
          const update = sigmoid(x[n + i] + u[n + i]);
          const candidate = Math.tanh(x[2 * n + i] + (before ? before[r][i] : reset[i] * u[2 * n + i]));
          return (1 - update) * candidate + update * s;
        });
      });
    },
    output: (state) => state,
  };
}

/** The state is [h ; c]. @type {MakeCell} */
function makeLstm({ hidden: n }, part) {
  const recurrent = part.linear("recurrent");
  const recurrentNorm = makeNorm(part.part("recurrent_norm"));
  const memoryNorm = makeNorm(part.part("memory_norm"));
  const output = (/** @type {Float32Array} */ state) => state.subarray(0, n);
  return {
    width: 2 * n,
    step(inputs, states) {
      const recurrents = recurrent.all(states.map(output)).map(recurrentNorm);
      return states.map((state, r) => {
        const g = added(inputs[r], recurrents[r]);
        const memory = state.subarray(n).map((c, i) => sigmoid(g[n + i]) * c + sigmoid(g[i]) * Math.tanh(g[2 * n + i]));
        const hidden = memoryNorm(memory).map((c, i) => sigmoid(g[3 * n + i]) * Math.tanh(c));
        return joined(hidden, memory);
      });
    },
    output,
  };
}

/** The state is c. @type {MakeCell} */
function makeSsru({ hidden: n }) {
  return {
    width: n,
    step: (inputs, states) =>
      states.map((state, r) =>
        state.map((c, i) => {
          const keep = sigmoid(inputs[r][i]);
          return keep * c + (1 - keep) * inputs[r][n + i];
        }),
      ),
    output: (state) => state.map((c) => Math.max(0, c)),
  };
}

/** By `type`. @type {Record<string, MakeCell>} */
const CELLS = { gru: makeGru, lstm: makeLstm, ssru: makeSsru };

/** @type {MakeCell} */
export function makeCell(options, part) {
  const inputNorm = makeNorm(part.part("input_norm"));
  const { step, ...cell } = CELLS[options.type](options, part);
  return { ...cell, step: (inputs, states) => step(inputs.map(inputNorm), states) };
}
