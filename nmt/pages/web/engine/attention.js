/**
 * How a decoder weighs the annotations: the scores, windows and hard attention of nmt/model/attention.py,
 * local_attention.py, coverage.py and hard.py.
 */

import { dot, sigmoid, softmax } from "./weights.js";

/**
 * @typedef {import("./weights.js").Part} Part
 * @typedef {{type: string, window?: number, normalize?: boolean}} Scope
 * @typedef {{type: string, score: {type: string}, heads: number, scope: Scope, hard: object | null}} Options
 *
 * @typedef {object} Memory what is known of a sentence
 * @property {Float32Array[]} annotations h_j, one for each source piece
 * @property {Float32Array} summary
 * @property {Float32Array[]} keys what queries are compared with, one for each source piece
 * @property {Float32Array} [fertility] of each source piece, where coverage is divided by it
 *
 * @typedef {object} Score
 * @property {(annotation: Float32Array) => Float32Array} key
 * @property {(query: Float32Array, memory: Memory, covered?: Float32Array) => Float32Array} energies e_ij of all j
 * @property {(annotation: Float32Array) => number} [fertility]
 */

/** v·tanh(W s + U h): Bahdanau's, and Luong's concat. @implements {Score} */
class Additive {
  /** @param {Part} part */
  constructor(part) {
    this.query = part.linear("query");
    this.keys = part.linear("key");
    this.energy = part.linear("energy").weight;
  }

  /** @param {Float32Array} annotation */
  key(annotation) {
    return this.keys.apply(annotation);
  }

  /** @param {Float32Array} query @param {Memory} memory */
  energies(query, memory) {
    const q = this.query.apply(query);
    return Float32Array.from(memory.keys, (key) => this.energyOf(q, key));
  }

  /** @param {Float32Array} q @param {Float32Array} key @param {(unit: number) => number} [more] */
  energyOf(q, key, more = () => 0) {
    let energy = 0;
    for (let i = 0; i < key.length; i += 1) energy += this.energy[i] * Math.tanh(q[i] + key[i] + more(i));
    return energy;
  }
}

/** The additive score that also reads the sum of the earlier weights (Tu et al. 2016). */
class Coverage extends Additive {
  /** @param {Part} part */
  constructor(part) {
    super(part);
    this.fertilities = part.linear("fertility");
    this.coverage = part.linear("coverage").weight;
  }

  /** @param {Float32Array} annotation */
  fertility(annotation) {
    return 2 * sigmoid(this.fertilities.apply(annotation)[0]);
  }

  /** @param {Float32Array} query @param {Memory} memory @param {Float32Array} covered */
  energies(query, memory, covered = new Float32Array(memory.keys.length)) {
    const q = this.query.apply(query);
    const fertility = /** @type {Float32Array} */ (memory.fertility);
    return Float32Array.from(memory.keys, (key, j) =>
      this.energyOf(q, key, (unit) => this.coverage[unit] * (covered[j] / fertility[j])),
    );
  }
}

/**
 * s·h and its relatives: the query and the annotation may each have a layer, be scaled or made of length one.
 *
 * @implements {Score}
 */
class Product {
  /** @param {Part} part @param {string} type */
  constructor(part, type) {
    this.queries = part.linearIfAny("query");
    this.keys = part.linearIfAny("key");
    this.type = type;
    this.cosine = type === "cosine";
    this.beta = this.cosine ? Math.exp(part.tensor("log_scale").data[0]) : 1;
  }

  /** @param {Float32Array} annotation */
  key(annotation) {
    const key = this.keys ? this.keys.apply(annotation) : annotation;
    return this.cosine ? ofLengthOne(key) : key;
  }

  /** @param {Float32Array} query @param {Memory} memory */
  energies(query, memory) {
    const raw = this.queries ? this.queries.apply(query) : query;
    const q = this.cosine ? ofLengthOne(raw) : raw;
    const scale = this.type === "scaled_dot" ? 1 / Math.sqrt(q.length) : this.beta;
    return Float32Array.from(memory.keys, (key) => scale * dot(q, key));
  }
}

/** (W s)_j, from the state and the position. @implements {Score} */
class Location {
  /** @param {Part} part */
  constructor(part) {
    this.position = part.linear("position");
  }

  key() {
    return new Float32Array();
  }

  /** @param {Float32Array} query @param {Memory} memory */
  energies(query, memory) {
    const energies = this.position.apply(query);
    return Float32Array.from(memory.keys, (_, j) => energies[j] ?? -Infinity);
  }
}

/** @param {Float32Array} vector @returns {Float32Array} */
function ofLengthOne(vector) {
  const length = Math.max(Math.sqrt(dot(vector, vector)), 1e-12);
  return vector.map((unit) => unit / length);
}

/** By `type`. @type {Record<string, new (part: Part, type: string) => Score>} */
const SCORES = {
  additive: Additive,
  concat: Additive,
  coverage: Coverage,
  dot: Product,
  scaled_dot: Product,
  general: Product,
  low_rank: Product,
  cosine: Product,
  location: Location,
};

/** One attention of a recurrent decoder: a score, its scope, soft or hard. */
export class Attention {
  /** @param {Options} options @param {Part} part the decoder's attention */
  constructor(options, part) {
    const { score, scope, heads, hard } = options;
    if (heads > 1) throw new Error("this engine has no attention of several heads");
    const Kind = SCORES[score.type];
    if (!Kind) throw new Error(`this engine has no score '${score.type}'; it has ${Object.keys(SCORES).join(", ")}`);
    const soft = hard ? part.part("soft") : part;
    this.scope = scope;
    this.hard = Boolean(hard);
    this.score = new Kind(scope.type === "global" ? soft : soft.part("scored"), score.type);
    this.center =
      scope.type === "local_p" ? { hidden: soft.linear("hidden"), center: soft.linear("center") } : undefined;
  }

  /**
   * What no query changes.
   *
   * @param {Float32Array[]} annotations
   * @returns {{keys: Float32Array[], fertility?: Float32Array}}
   */
  prepare(annotations) {
    const { score } = this;
    const fertility =
      score.fertility && Float32Array.from(annotations, (annotation) => score.fertility?.(annotation) ?? 1);
    return { keys: annotations.map((annotation) => score.key(annotation)), fertility };
  }

  /**
   * alpha_ij of all source positions j.
   *
   * @param {Float32Array} query
   * @param {number} position i, from 0
   * @param {Memory} memory
   * @param {Float32Array} [covered] the sum of the earlier weights
   * @returns {Float32Array}
   */
  weights(query, position, memory, covered) {
    const energies = this.score.energies(query, memory, covered);
    const weights = this.scope.type === "global" ? softmax(energies) : this.#windowed(energies, query, position);
    if (!this.hard) return weights;
    const likeliest = weights.indexOf(weights.reduce((a, b) => Math.max(a, b)));
    return weights.map((_, j) => (j === likeliest ? 1 : 0));
  }

  /**
   * Local attention (Luong et al. 2015, section 3.2).
   *
   * @param {Float32Array} energies
   * @param {Float32Array} query
   * @param {number} position
   */
  #windowed(energies, query, position) {
    const { window = 0, normalize } = this.scope;
    const length = energies.length;
    const share = this.center && sigmoid(this.center.center.apply(this.center.hidden.apply(query).map(Math.tanh))[0]);
    const center = share === undefined ? Math.min(position, length - 1) : Math.fround(length * Math.fround(share));
    const weights = softmax(energies.map((energy, j) => (Math.abs(j - center) > window ? -Infinity : energy)));
    if (share === undefined) return weights;
    const weakened = weights.map((weight, j) => weight * Math.exp(-2 * ((j - center) / window) ** 2));
    const sum = normalize ? weakened.reduce((a, b) => a + b, 0) : 1;
    return weakened.map((weight) => weight / sum);
  }
}
