/**
 * Recurrent networks, as in nmt/model: encode, start, step.
 *
 * A state is a value: a step returns another one and leaves it as it is, so that a search may go back to any of them.
 */

import { Attention, weighted } from "./attention.js";
import { makeCell } from "./cells.js";
import { added, joined, logSoftmax, Part, tabulated } from "./weights.js";

/**
 * @typedef {import("./cells.js").Recurrence} Recurrence
 * @typedef {import("./attention.js").Reading} Reading
 * @typedef {import("./weights.js").Tensor} Tensor
 *
 * @typedef {object} Model the section `model` of a configuration
 * @property {Recurrence & {directions: string}} encoder
 * @property {Recurrence & {readout_activation: string | null}} decoder
 * @property {import("./attention.js").Options} attention
 *
 * @typedef {object} Encoded
 * @property {Float32Array[]} annotations h_j, one for each source piece
 * @property {Float32Array} summary
 * @property {Float32Array} bridge what the first state of the decoder is made of
 *
 * @typedef {object} State a decoder between two steps
 * @property {Encoded & import("./attention.js").Prepared} memory what is known of the sentence
 * @property {number} position target position of the next step, from 0
 * @property {Float32Array[]} hidden s_i of each layer
 * @property {Float32Array} [fed] Luong's h~_i, where the next step is fed it
 * @property {Float32Array} [covered] sum of the weights so far, of a score that reads it
 *
 * @typedef {object} Step
 * @property {Float32Array} logProbs of the pieces that may follow
 * @property {State} state
 * @property {Float32Array} [weights] of the source pieces
 * @property {Float32Array} [readout] what the output layer reads, where that is one vector
 * @property {[string, number][]} [likely] pieces that may follow, with their probabilities
 */

/** One layer in one direction, or a layer of the decoder. */
class Layer {
  /** @param {Recurrence} options @param {Part} part */
  constructor(options, part) {
    this.inputGates = part.linearIfAny("input_gates"); // the decoder's first layer has gates for each of its inputs
    this.cell = makeCell(options, part.part("cell"));
  }

  /** @param {Float32Array[]} gates of each position @param {boolean} backward @returns {Float32Array[]} outputs */
  read(gates, backward) {
    /** @type {Float32Array[]} */
    let states = [new Float32Array(this.cell.width)];
    const outputs = (backward ? gates.toReversed() : gates).map((each) => {
      states = this.cell.step([each], states);
      return this.cell.output(states[0]);
    });
    return backward ? outputs.reverse() : outputs;
  }
}

/** Layers in one or both directions. */
class Encoder {
  /** @param {Model["encoder"]} options @param {Part} part @param {Tensor} embedding */
  constructor(options, part, embedding) {
    const sides = options.directions === "both" ? [0, 1] : [0];
    this.residual = options.residual;
    this.layers = Array.from({ length: options.layers }, (_, above) =>
      sides.map((way) => new Layer(options, part.part(`layers.${above}.${way}`))),
    );
    this.tables = sides.map((way) => tabulated(embedding, part.linear(`layers.0.${way}.input_gates`)));
  }

  /** @param {number[]} ids @returns {Encoded} */
  read(ids) {
    /** @type {Float32Array[]} */
    let annotations = [];
    /** @type {Float32Array[]} */
    let last = [];
    this.layers.forEach((directions, above) => {
      const below = annotations;
      const read = directions.map((layer, way) =>
        layer.read((above && layer.inputGates?.all(below)) || this.tables[way](ids), way === 1),
      );
      annotations = ids.map((_, j) => joined(...read.map((outputs) => outputs[j])));
      if (above && this.residual) annotations = sums(annotations, below);
      last = read.map((outputs, way) => outputs[way ? 0 : ids.length - 1]);
    });
    return { annotations, summary: joined(...last), bridge: last[last.length - 1] };
  }
}

/** Bahdanau's decoder attends before its state is updated, Luong's after. */
class Decoder {
  /** @param {Model} model @param {Part} part @param {Tensor} embedding */
  constructor({ decoder, attention }, part, embedding) {
    this.attention = attention.type === "none" ? undefined : new Attention(attention, part.part("attention"));
    // without attention, the context is the summary: at every step, or in the first state alone
    this.readsSummary = attention.context !== "initial_state";
    this.luong = attention.type === "luong";
    this.marginal = attention.hard?.type === "marginal";
    this.covers = this.attention && attention.score.type === "coverage";
    this.maxout = (decoder.readout_activation ?? (this.luong ? "tanh" : "maxout")) === "maxout";
    this.residual = decoder.residual;
    const places = Array.from({ length: decoder.layers }, (_, i) => (i ? part.part(`upper.${i - 1}`) : part));
    this.layers = places.map((each) => new Layer(decoder, each));
    this.initials = places.map((each) => each.linear("initial"));
    this.embeddingGates = tabulated(embedding, part.linear("embedding_gates"));
    this.feedingGates = part.linearIfAny("feeding_gates");
    this.contextGates = part.linearIfAny("context_gates");
    this.contextReadout = part.linearIfAny("context_readout");
    // Luong's readout has one layer for context and output, Bahdanau's one for each of three
    this.readout = part.linear(this.luong ? "combine" : "state_readout");
    this.embeddingReadout = this.luong ? undefined : tabulated(embedding, part.linear("embedding_readout"));
  }

  /** s_0 = tanh(W_s backward_1), in each layer. @param {Encoded} encoded @returns {State} */
  start(encoded) {
    return {
      memory: { ...encoded, ...this.attention?.prepare(encoded.annotations) },
      position: 0,
      hidden: this.initials.map((layer) => layer.apply(encoded.bridge).map(Math.tanh)),
      fed: this.feedingGates && new Float32Array(this.feedingGates.inputs),
      covered: this.covers ? new Float32Array(encoded.annotations.length) : undefined,
    };
  }

  /**
   * One step of several rows: the readout of each, for the exact marginal one from every position as if it had all the
   * weight, the next state and the weights.
   *
   * @param {number[]} previous
   * @param {State[]} states
   * @param {Float32Array} [clamped]
   */
  step(previous, states, clamped) {
    const attend = (/** @type {Float32Array[]} */ queries) =>
      queries.map((query, r) => this.attention?.read(query, states[r], clamped) ?? this.#summary(states[r]));
    const before = this.luong ? undefined : attend(states.map(({ hidden }) => this.layers[0].cell.output(hidden[0])));
    const contexts = before?.map(({ context }) => context);
    const fed = this.feedingGates?.all(states.map((state) => /** @type {Float32Array} */ (state.fed)));
    const gates = sums(this.embeddingGates(previous), fed, contexts && this.contextGates?.all(contexts));
    const { hidden, outputs } = this.#update(gates, states);
    const read = before ?? attend(outputs);
    const units = contexts
      ? sums(this.readout.all(outputs), this.embeddingReadout?.(previous), this.contextReadout?.all(contexts))
      : this.readout.all(read.map(({ context }, r) => joined(context, outputs[r])));
    const activated = (/** @type {Float32Array} */ x) => (this.maxout ? maxout(x) : x.map(Math.tanh));
    return states.map(({ memory, position, covered }, r) => {
      const { weights } = read[r];
      const readout = activated(units[r]);
      const every = () => this.readout.all(memory.annotations.map((h) => joined(h, outputs[r]))).map(activated);
      const state = {
        memory,
        position: position + 1,
        hidden: hidden.map((layer) => layer[r]),
        fed: this.feedingGates && readout,
        covered: covered && added(covered, weights),
      };
      return { readout, every: this.marginal ? every() : undefined, state, weights };
    });
  }

  /** The context without attention. @param {State} state @returns {Reading} */
  #summary({ memory }) {
    return { context: this.readsSummary ? memory.summary : new Float32Array() };
  }

  /** States of all layers, outputs of the last. @param {Float32Array[]} gates @param {State[]} states */
  #update(gates, states) {
    /** @type {Float32Array[]} */
    let outputs = [];
    const hidden = this.layers.map(({ cell, inputGates }, i) => {
      const own = states.map((state) => state.hidden[i]);
      const next = cell.step(inputGates?.all(outputs) ?? gates, own);
      outputs = sums(next.map(cell.output), i && this.residual ? outputs : undefined);
      return next;
    });
    return { hidden, outputs };
  }
}

/** A network that has been trained. */
export class Network {
  /** @param {Model} model @param {import("./weights.js").Tensors} tensors */
  constructor(model, tensors) {
    /** Whether steps have attention weights. */
    this.attends = model.attention.type !== "none";
    const all = new Part(tensors);
    const source = all.tensor("source_embedding.weight");
    const target = all.has("target_embedding.weight") ? all.tensor("target_embedding.weight") : source;
    this.encoder = new Encoder(model.encoder, all.part("encoder"), source);
    this.decoder = new Decoder(model, all.part("decoder"), target);
    if (!all.has("output.weight")) tensors.set("output.weight", target); // tied
    this.output = all.linear("output");
  }

  /** The state before the first target piece. @param {number[]} ids source pieces, the end symbol included */
  start(ids) {
    return this.decoder.start(this.encoder.read(ids));
  }

  /**
   * Go one piece further in several hypotheses.
   *
   * @param {number[]} previous the piece before, of each; at first the start symbol
   * @param {State[]} states
   * @param {Float32Array} [clamped] attention weights to use instead of the network's own
   * @returns {Step[]}
   */
  step(previous, states, clamped) {
    const read = this.decoder.step(previous, states, clamped);
    const logits = this.output.all(read.map(({ readout }) => readout));
    return read.map(({ readout, every, state, weights }, r) => {
      if (every && weights) return { logProbs: this.#mixture(every, weights), state, weights };
      return { logProbs: logSoftmax(logits[r]), state, weights, readout };
    });
  }

  /** log sum_j weight_j p(y | h_j). @param {Float32Array[]} readouts @param {Float32Array} weights */
  #mixture(readouts, weights) {
    const each = this.output.all(readouts).map((logits) => logSoftmax(logits).map(Math.exp));
    return weighted(weights, each).map((probability) => Math.log(Math.max(probability, SMALLEST)));
  }
}

/** The smallest normal number of 32 bits, instead of 0. */
const SMALLEST = 2 ** -126;

/** Row by row. @param {Float32Array[]} rows @param {...(Float32Array[] | undefined)} others */
const sums = (rows, ...others) => rows.map((x, r) => added(x, ...others.map((other) => other?.[r])));

/** The larger of each pair (Goodfellow et al. 2013). @param {Float32Array} units */
const maxout = (units) => new Float32Array(units.length / 2).map((_, i) => Math.max(units[2 * i], units[2 * i + 1]));
