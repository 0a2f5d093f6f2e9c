/** Recurrent cells, as in nmt/model/cells.py: how a state is updated by the input's part of the gates. */

import { added, joined, LayerNorm, sigmoid } from "./weights.js";

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
 * @property {number} hidden units of the output
 * @property {number} width units of the state
 * @property {(gates: Float32Array[], states: Float32Array[]) => Float32Array[]} step of several rows
 * @property {(state: Float32Array) => Float32Array} output
 */

/** Layer normalization of groups of gates (Ba et al. 2016); without weights, nothing. */
class Norm {
  /** @param {Part} part */
  constructor(part) {
    /** @type {LayerNorm[]} */
    this.groups = [];
    for (let i = 0; part.has(`norms.${i}`); i += 1) this.groups.push(new LayerNorm(part.part(`norms.${i}`)));
  }

  /** @param {Float32Array} gates @returns {Float32Array} */
  apply(gates) {
    if (!this.groups.length) return gates;
    let from = 0;
    return joined(...this.groups.map((norm) => norm.apply(gates.subarray(from, (from += norm.gain.length)))));
  }
}

/** @implements {Cell} */
class Gru {
  /** @param {Recurrence} options @param {Part} part */
  constructor(options, part) {
    this.hidden = this.width = options.hidden;
    this.inputNorm = new Norm(part.part("input_norm"));
    this.recurrent = part.linear("recurrent");
    this.recurrentNorm = new Norm(part.part("recurrent_norm"));
    this.candidate = part.linearIfAny("candidate_recurrent");
    this.candidateNorm = new Norm(part.part("candidate_norm"));
  }

  /** @param {Float32Array[]} gates @param {Float32Array[]} states */
  step(gates, states) {
    const n = this.hidden;
    const inputs = gates.map((each) => this.inputNorm.apply(each));
    const recurrents = this.recurrent.all(states).map((each) => this.recurrentNorm.apply(each));
    const resets = states.map((state, r) => state.map((_, i) => sigmoid(inputs[r][i] + recurrents[r][i])));
    // the reset gate after the product of the candidate, as in cuDNN, or before it (Cho et al. 2014)
    const before = this.candidate
      ?.all(states.map((state, r) => state.map((s, i) => resets[r][i] * s)))
      .map((each) => this.candidateNorm.apply(each));
    return states.map((state, r) => {
      const [x, u, reset] = [inputs[r], recurrents[r], resets[r]];
      return state.map((s, i) => {
        const update = sigmoid(x[n + i] + u[n + i]);
        const candidate = Math.tanh(x[2 * n + i] + (before ? before[r][i] : reset[i] * u[2 * n + i]));
        return (1 - update) * candidate + update * s;
      });
    });
  }

  /** @param {Float32Array} state */
  output(state) {
    return state;
  }
}

/** The state is [h ; c]. @implements {Cell} */
class Lstm {
  /** @param {Recurrence} options @param {Part} part */
  constructor(options, part) {
    this.hidden = options.hidden;
    this.width = 2 * options.hidden;
    this.inputNorm = new Norm(part.part("input_norm"));
    this.recurrent = part.linear("recurrent");
    this.recurrentNorm = new Norm(part.part("recurrent_norm"));
    this.memoryNorm = new Norm(part.part("memory_norm"));
  }

  /** @param {Float32Array[]} gates @param {Float32Array[]} states */
  step(gates, states) {
    const n = this.hidden;
    const recurrents = this.recurrent.all(states.map((state) => this.output(state)));
    return states.map((state, r) => {
      const g = added(this.inputNorm.apply(gates[r]), this.recurrentNorm.apply(recurrents[r]));
      const next = new Float32Array(2 * n);
      for (let i = 0; i < n; i += 1) {
        next[n + i] = sigmoid(g[n + i]) * state[n + i] + sigmoid(g[i]) * Math.tanh(g[2 * n + i]);
      }
      const shown = this.memoryNorm.apply(next.subarray(n));
      for (let i = 0; i < n; i += 1) next[i] = sigmoid(g[3 * n + i]) * Math.tanh(shown[i]);
      return next;
    });
  }

  /** @param {Float32Array} state */
  output(state) {
    return state.subarray(0, this.hidden);
  }
}

/** The state is c. @implements {Cell} */
class Ssru {
  /** @param {Recurrence} options @param {Part} part */
  constructor(options, part) {
    this.hidden = this.width = options.hidden;
    this.inputNorm = new Norm(part.part("input_norm"));
  }

  /** @param {Float32Array[]} gates @param {Float32Array[]} states */
  step(gates, states) {
    return states.map((state, r) => {
      const x = this.inputNorm.apply(gates[r]);
      return state.map((c, i) => {
        const keep = sigmoid(x[i]);
        return keep * c + (1 - keep) * x[this.hidden + i];
      });
    });
  }

  /** @param {Float32Array} state */
  output(state) {
    return state.map((c) => Math.max(0, c));
  }
}

/** By `type`. @type {Record<string, new (options: Recurrence, part: Part) => Cell>} */
const CELLS = { gru: Gru, lstm: Lstm, ssru: Ssru };

/** @param {Recurrence} options @param {Part} part @returns {Cell} */
export function makeCell(options, part) {
  const Kind = CELLS[options.type];
  if (!Kind)
    throw new Error(`this engine has no cell of type '${options.type}'; it has ${Object.keys(CELLS).join(", ")}`);
  return new Kind(options, part);
}
