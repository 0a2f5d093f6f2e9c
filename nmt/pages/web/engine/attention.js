/**
 * How a recurrent decoder weighs the annotations: the scores, windows, heads and hard attention of
 * nmt/model/attention.py, coverage.py, multi_head.py and hard.py.
 */

import { added, dot, joined, sigmoid, softmax } from "./weights.js";

/**
 * @typedef {import("./network.js").State} State
 * @typedef {import("./weights.js").Part} Part
 *
 * @typedef {object} Options
 * @property {string} type
 * @property {{type: string}} score
 * @property {number} heads
 * @property {{type: string, window?: number, normalize?: boolean}} scope
 * @property {{type: string} | null} hard
 * @property {string} [context] without attention: "initial_state" if the decoder reads the summary there alone
 *
 * @typedef {object} Prepared what no query changes
 * @property {Keys[]} [keys] of each head
 * @property {Float32Array[]} [values] what is weighed, of all heads side by side
 *
 * @typedef {{context: Float32Array, weights?: Float32Array}} Reading
 *
 * @typedef {object} Keys what the queries of a head are compared with
 * @property {ArrayLike<number>[]} vectors one for each source piece
 * @property {Float32Array} [fertility] of each source piece, where coverage is divided by it
 *
 * @typedef {object} Score
 * @property {(annotations: Float32Array[]) => Keys} keys
 * @property {(query: Float32Array, keys: Keys, state: State) => Float32Array} energies e_ij of all j
 *
 * @typedef {(part: Part, type: string) => Score} MakeScore
 */

/** exp(2x), in double precision; beyond 354 it would be infinite, or 0. @param {Float32Array} x */
const exponentials = (x) => Float64Array.from(x, (unit) => Math.exp(2 * Math.max(-354, Math.min(354, unit))));

/**
 * v·tanh(W s + U h): Bahdanau's, and Luong's concat. With coverage (Tu et al. 2016) v·tanh(W s + U h + w C), of the sum
 * C of the earlier weights.
 *
 * tanh(a + b) = 1 - 2 / (1 + exp(2a) exp(2b)): the exponentials are those of a query and of a key, not of each pair.
 *
 * @type {MakeScore}
 */
function makeAdditive(part) {
  const query = part.linear("query");
  const key = part.linear("key");
  const { weight } = part.linear("energy");
  const fertility = part.linearIfAny("fertility");
  const coverage = part.linearIfAny("coverage")?.weight;
  const energy = (/** @type {Float64Array} */ q, /** @type {ArrayLike<number>} */ k) => {
    let sum = 0;
    for (let i = 0; i < k.length; i += 1) sum += weight[i] * (1 - 2 / (1 + q[i] * k[i]));
    return sum;
  };
  return {
    keys: (annotations) => ({
      vectors: key.all(annotations).map(exponentials),
      fertility: fertility && Float32Array.from(fertility.all(annotations), ([units]) => 2 * sigmoid(units)),
    }),
    energies(s, { vectors, fertility: divisors }, { covered }) {
      const units = query.apply(s);
      const q = exponentials(units);
      return Float32Array.from(vectors, (k, j) => {
        if (!coverage || !divisors || !covered) return energy(q, k);
        const share = covered[j] / divisors[j];
        return energy(exponentials(units.map((unit, i) => unit + coverage[i] * share)), k);
      });
    },
  };
}

/**
 * s·h and its relatives: the annotation may have a layer, and both may be scaled or made of length one.
 *
 * @type {MakeScore}
 */
function makeProduct(part, type) {
  const key = part.linearIfAny("key");
  const cosine = type === "cosine";
  const beta = cosine ? Math.exp(part.tensor("log_scale").data[0]) : 1;
  const directed = (/** @type {Float32Array} */ vector) => {
    const length = cosine ? Math.max(Math.sqrt(dot(vector, vector)), 1e-12) : 1;
    return cosine ? vector.map((unit) => unit / length) : vector;
  };
  return {
    keys: (annotations) => ({ vectors: (key?.all(annotations) ?? annotations).map(directed) }),
    energies(s, { vectors }) {
      const q = directed(s);
      const scale = type === "scaled_dot" ? 1 / Math.sqrt(q.length) : beta;
      return Float32Array.from(vectors, (k) => scale * dot(q, k));
    },
  };
}

/** (W s)_j, from the state and the position. @type {MakeScore} */
function makeLocation(part) {
  const position = part.linear("position");
  return {
    keys: (annotations) => ({ vectors: annotations }),
    energies(s, { vectors }) {
      const energies = position.apply(s);
      return Float32Array.from(vectors, (_, j) => energies[j] ?? -Infinity);
    },
  };
}

/** By `type`. @type {Record<string, MakeScore>} */
const SCORES = {
  additive: makeAdditive,
  concat: makeAdditive,
  coverage: makeAdditive,
  dot: makeProduct,
  scaled_dot: makeProduct,
  general: makeProduct,
  cosine: makeProduct,
  location: makeLocation,
};

/**
 * The keys of a head, and alpha_ij of all source positions j: the softmax of its score; with local attention, in a
 * window (Luong et al. 2015, section 3.2).
 *
 * @param {Options} options
 * @param {Part} part
 */
function makeHead({ score: { type }, scope }, part) {
  const { keys, energies } = SCORES[type](scope.type === "global" ? part : part.part("scored"), type);
  const { window = Infinity, normalize } = scope;
  const predicted = scope.type === "local_p";
  const [hidden, center] = predicted ? [part.linear("hidden"), part.linear("center")] : [];
  const weights = (/** @type {Float32Array} */ query, /** @type {Keys} */ compared, /** @type {State} */ state) => {
    const all = energies(query, compared, state);
    const share = hidden && center?.apply(hidden.apply(query).map(Math.tanh)).map(sigmoid)[0];
    const middle = share === undefined ? Math.min(state.position, all.length - 1) : Math.fround(all.length * share);
    const inside = softmax(all.map((energy, j) => (Math.abs(j - middle) > window ? -Infinity : energy)));
    if (!predicted) return inside;
    const weakened = inside.map((weight, j) => weight * Math.exp(-2 * ((j - middle) / window) ** 2));
    const sum = normalize ? weakened.reduce((a, b) => a + b, 0) : 1;
    return weakened.map((weight) => weight / sum);
  };
  return { keys, weights };
}

/** One head or several, soft or hard. */
export class Attention {
  /** @param {Options} options @param {Part} part the decoder's attention */
  constructor(options, part) {
    this.hard = Boolean(options.hard) && options.hard?.type !== "marginal"; // which reads every position
    const several = options.heads > 1;
    const parts = Array.from({ length: options.heads }, (_, head) => part.part(`heads.${head}`));
    const alone = this.hard ? part.part("soft") : part;
    this.heads = (several ? parts : [alone]).map((each) => makeHead(options, each));
    // layers that several heads share
    const layer = (/** @type {string} */ name) => (several ? part.linearIfAny(name) : undefined);
    this.query = layer("query");
    this.key = layer("key");
    this.value = layer("value");
    this.output = layer("output");
  }

  /** @param {Float32Array[]} annotations @returns {Prepared} */
  prepare(annotations) {
    const vectors = this.key?.all(annotations) ?? annotations;
    const keys = this.heads.map((each, head) => each.keys(vectors.map((vector) => this.#share(vector, head))));
    return { keys, values: this.value?.all(annotations) ?? annotations };
  }

  /**
   * The context of a query and its weights: with several heads, their mean.
   *
   * @param {Float32Array} query
   * @param {State} state
   * @param {Float32Array} [clamped] weights to use instead, in every head
   * @returns {Reading}
   */
  read(query, state, clamped) {
    const { keys = [], values = [] } = state.memory;
    const queries = this.query?.apply(query) ?? query;
    const weights = this.heads.map((each, head) => {
      const soft = clamped ?? each.weights(this.#share(queries, head), keys[head], state);
      return this.hard && !clamped ? oneAtLargest(soft) : soft;
    });
    const shares = this.heads.map((_, head) => values.map((value) => this.#share(value, head)));
    const contexts = weights.map((each, head) => weighted(each, shares[head]));
    if (!this.output) return { context: contexts[0], weights: weights[0] };
    const mean = added(weights[0], ...weights.slice(1)).map((weight) => weight / weights.length);
    return { context: this.output.apply(joined(...contexts)), weights: mean };
  }

  /** A head's units. @param {Float32Array} vector @param {number} head */
  #share(vector, head) {
    const units = vector.length / this.heads.length;
    return this.heads.length > 1 ? vector.subarray(head * units, (head + 1) * units) : vector;
  }
}

/** sum_j weight_j value_j. @param {Float32Array} weights @param {Float32Array[]} values */
export function weighted(weights, values) {
  const sum = new Float32Array(values[0].length);
  values.forEach((value, j) => {
    const weight = weights[j];
    for (let i = 0; i < sum.length; i += 1) sum[i] += weight * value[i];
  });
  return sum;
}

/** @param {Float32Array} weights */
function oneAtLargest(weights) {
  const largest = weights.indexOf(weights.reduce((a, b) => Math.max(a, b)));
  return weights.map((_, j) => (j === largest ? 1 : 0));
}
