/**
 * A recurrent network with or without attention, as in nmt/model: encode, start, step.
 *
 * A state is a value: a step returns another one and leaves it as it is, so that a search may go back to any of them.
 */

import { Attention } from "./attention.js";
import { makeCell } from "./cells.js";
import { added, joined, logSoftmax, Part } from "./weights.js";

/**
 * @typedef {import("./attention.js").Memory} Memory
 * @typedef {import("./cells.js").Recurrence} Recurrence
 * @typedef {Recurrence & {directions: string}} EncoderOptions
 * @typedef {Recurrence & {readout_activation: string | null}} DecoderOptions
 * @typedef {object} Model the section `model` of a configuration
 * @property {EncoderOptions} encoder
 * @property {DecoderOptions} decoder
 * @property {import("./attention.js").Options & {input_feeding?: boolean, context?: string}} attention
 *
 * @typedef {object} State a decoder between two steps
 * @property {Memory} memory
 * @property {number} position target position of the next step, from 0
 * @property {Float32Array} hidden s_i, of the first layer
 * @property {Float32Array[]} upper states of the layers above the first
 * @property {Float32Array} [fed] Luong's h~_i, where the next step is fed it
 * @property {Float32Array} [covered] sum of the weights so far
 *
 * @typedef {{logProbs: Float32Array, state: State, weights?: Float32Array}} Step
 */

/** One layer in one direction, or a layer of the decoder above the first. */
class Layer {
  /** @param {Recurrence} options @param {Part} part */
  constructor(options, part) {
    this.inputGates = part.linear("input_gates");
    this.cell = makeCell(options, part.part("cell"));
    this.initial = part.linearIfAny("initial");
    this.residual = options.residual;
  }

  /** @param {Float32Array} below @param {Float32Array} state @returns {Float32Array} the next state */
  step(below, state) {
    return this.cell.step(this.inputGates.apply(below), state);
  }

  /** @param {Float32Array[]} below a vector for each position @param {boolean} backward */
  read(below, backward) {
    let state = new Float32Array(this.cell.width);
    const outputs = new Array(below.length);
    for (let k = 0; k < below.length; k += 1) {
      const j = backward ? below.length - 1 - k : k;
      state = Float32Array.from(this.step(below[j], state));
      outputs[j] = this.cell.output(state);
    }
    return { outputs, last: this.cell.output(state) };
  }
}

/** A network that has been trained. */
export class Network {
  /**
   * @param {Model} model
   * @param {import("./weights.js").Tensors} tensors
   */
  constructor(model, tensors) {
    const all = new Part(tensors);
    const { encoder, decoder, attention } = model;
    if (encoder.type === "transformer" || decoder.type === "transformer") {
      throw new Error("this engine has no Transformer; it runs recurrent networks");
    }
    this.encoderOptions = encoder;
    const sides = encoder.directions === "both" ? [0, 1] : [0];
    this.layers = Array.from({ length: encoder.layers }, (_, above) =>
      sides.map((way) => new Layer(encoder, all.part(`encoder.layers.${above}.${way}`))),
    );
    this.sourceEmbedding = all.tensor("source_embedding.weight");
    this.targetEmbedding = all.has("target_embedding") ? all.tensor("target_embedding.weight") : this.sourceEmbedding;

    const part = all.part("decoder");
    this.attends = attention.type !== "none";
    this.attention = this.attends ? new Attention(attention, part.part("attention")) : undefined;
    this.fixedContext = attention.context === "initial_state" ? "none" : "summary";
    this.luong = attention.type === "luong";
    this.feeds = this.luong && attention.input_feeding !== false;
    this.covers = this.attends && attention.score.type === "coverage";
    this.initial = part.linear("initial");
    this.embeddingGates = part.linear("embedding_gates");
    this.cell = makeCell(decoder, part.part("cell"));
    this.above = Array.from({ length: decoder.layers - 1 }, (_, i) => new Layer(decoder, part.part(`upper.${i}`)));
    this.maxout = (decoder.readout_activation ?? (this.luong ? "tanh" : "maxout")) === "maxout";
    this.contextGates = part.linearIfAny("context_gates");
    this.contextReadout = part.linearIfAny("context_readout");
    this.stateReadout = part.linearIfAny("state_readout");
    this.embeddingReadout = part.linearIfAny("embedding_readout");
    this.feedingGates = part.linearIfAny("feeding_gates");
    this.combine = part.linearIfAny("combine");
    this.output = all.has("output") ? all.linear("output") : tied(all, this.targetEmbedding);
  }

  /** @param {number[]} ids source pieces, the end symbol included @returns {Memory} */
  encode(ids) {
    let annotations = ids.map((id) => row(this.sourceEmbedding, id));
    /** @type {Float32Array} */
    let last = new Float32Array();
    this.layers.forEach((directions, above) => {
      const read = directions.map((direction, way) => direction.read(annotations, way === 1));
      const below = annotations;
      annotations = ids.map((_, j) => joined(...read.map(({ outputs }) => outputs[j])));
      if (above && this.encoderOptions.residual) annotations = annotations.map((output, j) => added(output, below[j]));
      last = joined(...read.map((direction) => direction.last));
    });
    return { annotations, summary: last, keys: [], ...this.attention?.prepare(annotations) };
  }

  /** s_0 = tanh(W_s backward_1), in each layer. @param {Memory} memory @returns {State} */
  start(memory) {
    const { summary } = memory;
    const bridge = summary.subarray(summary.length - this.encoderOptions.hidden);
    const first = (/** @type {import("./weights.js").Linear | undefined} */ layer) =>
      /** @type {import("./weights.js").Linear} */ (layer).apply(bridge).map(Math.tanh);
    return {
      memory,
      position: 0,
      hidden: first(this.initial),
      upper: this.above.map((layer) => first(layer.initial)),
      fed: this.feeds ? new Float32Array(/** @type {number} */ (this.feedingGates?.inputs)) : undefined,
      covered: this.covers ? new Float32Array(memory.annotations.length) : undefined,
    };
  }

  /**
   * Go one piece further.
   *
   * @param {number} previous the piece before, at first the start symbol
   * @param {State} state
   * @param {Float32Array} [clamped] attention weights to use instead of the network's own
   * @returns {Step}
   */
  step(previous, state, clamped) {
    const embedded = row(this.targetEmbedding, previous);
    const gates = added(this.embeddingGates.apply(embedded), state.fed && this.feedingGates?.apply(state.fed));
    const attend = (/** @type {Float32Array} */ query) => this.#attend(query, state, clamped);
    let units;
    let hidden;
    let read;
    let climbed;
    if (this.luong) {
      hidden = this.cell.step(gates, state.hidden);
      climbed = this.#climb(hidden, state);
      read = attend(climbed.output);
      units = /** @type {import("./weights.js").Linear} */ (this.combine).apply(joined(read.context, climbed.output));
    } else {
      read = attend(this.cell.output(state.hidden));
      hidden = this.cell.step(added(gates, this.contextGates?.apply(read.context)), state.hidden);
      climbed = this.#climb(hidden, state);
      const { stateReadout, embeddingReadout, contextReadout } = this;
      units = added(
        /** @type {import("./weights.js").Linear} */ (stateReadout).apply(climbed.output),
        embeddingReadout?.apply(embedded),
        contextReadout?.apply(read.context),
      );
    }
    const readout = this.maxout
      ? new Float32Array(units.length / 2).map((_, i) => Math.max(units[2 * i], units[2 * i + 1]))
      : units.map(Math.tanh);
    const { weights } = read;
    return {
      logProbs: logSoftmax(this.output.apply(readout)),
      state: {
        memory: state.memory,
        position: state.position + 1,
        hidden,
        upper: climbed.upper,
        fed: this.feeds ? readout : undefined,
        covered: state.covered && added(state.covered, weights),
      },
      weights,
    };
  }

  /** @param {Float32Array} query @param {State} state @param {Float32Array} [clamped] */
  #attend(query, { memory, position, covered }, clamped) {
    if (!this.attention) return { context: this.fixedContext === "none" ? new Float32Array() : memory.summary };
    const weights = clamped ?? this.attention.weights(query, position, memory, covered);
    const context = new Float32Array(memory.annotations[0].length);
    weights.forEach((weight, j) => {
      const annotation = memory.annotations[j];
      for (let i = 0; i < context.length; i += 1) context[i] += weight * annotation[i];
    });
    return { context, weights };
  }

  /** One step of the layers above the first. @param {Float32Array} hidden @param {State} state */
  #climb(hidden, state) {
    let output = this.cell.output(hidden);
    const upper = this.above.map((layer, i) => {
      const next = layer.step(output, state.upper[i]);
      output = layer.residual ? added(layer.cell.output(next), output) : layer.cell.output(next);
      return next;
    });
    return { output, upper };
  }
}

/**
 * One row of a matrix.
 *
 * @param {import("./weights.js").Tensor} matrix
 * @param {number} index
 * @returns {Float32Array}
 */
function row({ data, shape }, index) {
  return data.subarray(index * shape[1], (index + 1) * shape[1]);
}

/**
 * The output layer whose weights are those of the embedding.
 *
 * @param {Part} all
 * @param {import("./weights.js").Tensor} embedding
 */
function tied(all, embedding) {
  all.tensors.set("output.weight", embedding);
  return all.linear("output");
}
