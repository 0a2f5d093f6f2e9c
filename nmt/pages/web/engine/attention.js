/**
 * How a recurrent decoder weighs the annotations: the scores, windows, heads and hard attention of
 * nmt/model/attention.py, local_attention.py, coverage.py, multi_head.py and hard.py.
 */

import { added, dot, joined, sigmoid, softmax } from "./weights.js";

/**
 * @typedef {import("./weights.js").Part} Part
 * @typedef {{type: string, window?: number, normalize?: boolean}} Scope
 *
 * @typedef {object} Options
 * @property {string} type
 * @property {{type: string}} score
 * @property {number} heads
 * @property {Scope} scope
 * @property {object | null} hard
 * @property {string} [context] of the system without attention
 *
 * @typedef {object} Prepared what no query changes
 * @property {Keys[]} [keys] of each head
 * @property {Float32Array[]} [values] what is weighed, of all heads side by side
 *
 * @typedef {object} Keys what the queries of a head are compared with
 * @property {ArrayLike<number>[]} vectors one for each source piece
 * @property {Float32Array} [fertility] of each source piece, where coverage is divided by it
 *
 * @typedef {object} Score
 * @property {(annotations: Float32Array[]) => Keys} keys
 * @property {(query: Float32Array, keys: Keys, covered?: Float32Array) => Float32Array} energies e_ij of all j
 */

/**
 * v·tanh(W s + U h): Bahdanau's, and Luong's concat.
 *
 * tanh(a + b) = 1 - 2 / (1 + exp(2a) exp(2b)): the exponentials are those of a query and of a key, not of each pair.
 *
 * @implements {Score}
 */
class Additive {
  /** @param {Part} part */
  constructor(part) {
    this.query = part.linear("query");
    this.key = part.linear("key");
    this.energy = part.linear("energy").weight;
  }

  /** @param {Float32Array[]} annotations @returns {Keys} */
  keys(annotations) {
    return { vectors: this.key.all(annotations).map(exponentials) };
  }

  /** @param {Float32Array} query @param {Keys} keys */
  energies(query, { vectors }) {
    const q = exponentials(this.query.apply(query));
    return Float32Array.from(vectors, (key) => this.energyOf(q, key));
  }

  /** @param {Float64Array} q @param {ArrayLike<number>} key */
  energyOf(q, key) {
    let energy = 0;
    for (let i = 0; i < key.length; i += 1) energy += this.energy[i] * (1 - 2 / (1 + q[i] * key[i]));
    return energy;
  }
}

/** exp(2x), in double precision, whose range is enough for any x. @param {Float32Array} x */
const exponentials = (x) => Float64Array.from(x, (unit) => Math.exp(2 * unit));

/** The additive score that also reads the sum of the earlier weights (Tu et al. 2016). */
class Coverage extends Additive {
  /** @param {Part} part */
  constructor(part) {
    super(part);
    this.fertility = part.linear("fertility");
    this.coverage = part.linear("coverage").weight;
  }

  /** @param {Float32Array[]} annotations */
  keys(annotations) {
    const fertility = Float32Array.from(this.fertility.all(annotations), ([units]) => 2 * sigmoid(units));
    return { ...super.keys(annotations), fertility };
  }

  /** @param {Float32Array} query @param {Keys} keys @param {Float32Array} covered */
  energies(query, { vectors, fertility = new Float32Array() }, covered = fertility) {
    const q = this.query.apply(query);
    return Float32Array.from(vectors, (key, j) => {
      const shifted = q.map((unit, i) => unit + this.coverage[i] * (covered[j] / fertility[j]));
      return this.energyOf(exponentials(shifted), key);
    });
  }
}

/**
 * s·h and its relatives: the annotation may have a layer, and both may be scaled or made of length one.
 *
 * @implements {Score}
 */
class Product {
  /** @param {Part} part @param {string} type */
  constructor(part, type) {
    this.key = part.linearIfAny("key");
    this.type = type;
    this.cosine = type === "cosine";
    this.beta = this.cosine ? Math.exp(part.tensor("log_scale").data[0]) : 1;
  }

  /** @param {Float32Array[]} annotations @returns {Keys} */
  keys(annotations) {
    const vectors = this.key?.all(annotations) ?? annotations;
    return { vectors: this.cosine ? vectors.map(ofLengthOne) : vectors };
  }

  /** @param {Float32Array} query @param {Keys} keys */
  energies(query, { vectors }) {
    const q = this.cosine ? ofLengthOne(query) : query;
    const scale = this.type === "scaled_dot" ? 1 / Math.sqrt(q.length) : this.beta;
    return Float32Array.from(vectors, (key) => scale * dot(q, key));
  }
}

/** (W s)_j, from the state and the position. @implements {Score} */
class Location {
  /** @param {Part} part */
  constructor(part) {
    this.position = part.linear("position");
  }

  /** @param {Float32Array[]} annotations @returns {Keys} */
  keys(annotations) {
    return { vectors: annotations };
  }

  /** @param {Float32Array} query @param {Keys} keys */
  energies(query, { vectors }) {
    const energies = this.position.apply(query);
    return Float32Array.from(vectors, (_, j) => energies[j] ?? -Infinity);
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
  cosine: Product,
  location: Location,
};

/** A score and its scope. */
class Head {
  /** @param {Options} options @param {Part} part */
  constructor({ score, scope }, part) {
    const Kind = SCORES[score.type];
    if (!Kind) throw new Error(`this engine has no score '${score.type}'; it has ${Object.keys(SCORES).join(", ")}`);
    this.scope = scope;
    this.score = new Kind(scope.type === "global" ? part : part.part("scored"), score.type);
    this.center =
      scope.type === "local_p" ? { hidden: part.linear("hidden"), center: part.linear("center") } : undefined;
  }

  /**
   * alpha_ij of all source positions j.
   *
   * @param {Float32Array} query
   * @param {Keys} keys
   * @param {import("./recurrent.js").State} state
   */
  weights(query, keys, { position, covered }) {
    const energies = this.score.energies(query, keys, covered);
    return this.scope.type === "global" ? softmax(energies) : this.#windowed(energies, query, position);
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

/** One head or several, soft or hard. */
class Attention {
  /** @param {Options} options @param {Part} part the decoder's attention */
  constructor(options, part) {
    this.hard = Boolean(options.hard);
    const places = options.heads > 1 ? Array.from({ length: options.heads }, (_, head) => `heads.${head}`) : [];
    this.heads = places.map((place) => new Head(options, part.part(place)));
    if (!places.length) this.heads = [new Head(options, this.hard ? part.part("soft") : part)];
    // of all heads; one head has none of these
    const layer = (/** @type {string} */ name) => (places.length ? part.linearIfAny(name) : undefined);
    this.query = layer("query");
    this.key = layer("key");
    this.value = layer("value");
    this.output = layer("output");
  }

  /** @param {Float32Array[]} annotations @returns {Prepared} */
  prepare(annotations) {
    const vectors = this.key?.all(annotations) ?? annotations;
    const keys = this.heads.map(({ score }, head) => score.keys(vectors.map((each) => this.#share(each, head))));
    return { keys, values: this.value?.all(annotations) ?? annotations };
  }

  /**
   * The context of a query, and the weights, of several heads their mean.
   *
   * @param {Float32Array} query
   * @param {import("./recurrent.js").State} state
   * @param {Float32Array} [clamped] weights to use instead, in every head
   * @returns {{context: Float32Array, weights?: Float32Array}}
   */
  read(query, state, clamped) {
    const { keys = [], values = [] } = state.memory;
    const queries = this.query?.apply(query) ?? query;
    const weights = this.heads.map((each, head) => {
      const soft = clamped ?? each.weights(this.#share(queries, head), keys[head], state);
      return this.hard && !clamped ? oneAtLargest(soft) : soft;
    });
    const contexts = weights.map((each, head) =>
      weighted(
        each,
        values.map((value) => this.#share(value, head)),
      ),
    );
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

/** The context is the summary, at every step or in the first state alone. */
class NoAttention {
  /** @param {Options} options */
  constructor({ context }) {
    this.initialStateOnly = context === "initial_state";
  }

  /** @returns {Prepared} */
  prepare() {
    return {};
  }

  /**
   * @param {Float32Array} query
   * @param {import("./recurrent.js").State} state
   * @returns {{context: Float32Array, weights?: Float32Array}}
   */
  read(query, { memory }) {
    return { context: this.initialStateOnly ? new Float32Array() : memory.summary };
  }
}

/** @param {Options} options @param {Part} part */
export const makeAttention = (options, part) =>
  options.type === "none" ? new NoAttention(options) : new Attention(options, part);

/** sum_j weight_j value_j. @param {Float32Array} weights @param {Float32Array[]} values @returns {Float32Array} */
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
