/** Recurrent encoders and decoders, as in nmt/model/encoders.py and decoders.py. */

import { makeAttention } from "./attention.js";
import { makeCell } from "./cells.js";
import { added, joined, Table } from "./weights.js";

/**
 * @typedef {import("./cells.js").Recurrence} Recurrence
 * @typedef {import("./network.js").Encoded} Encoded
 * @typedef {import("./network.js").Reading} Reading
 * @typedef {import("./weights.js").Linear} Linear
 * @typedef {import("./weights.js").Part} Part
 * @typedef {import("./weights.js").Tensor} Tensor
 * @typedef {Recurrence & {directions: string}} EncoderOptions
 * @typedef {Recurrence & {readout_activation: string | null}} DecoderOptions
 *
 * @typedef {object} OwnState
 * @property {Float32Array} hidden s_i, of the first layer
 * @property {Float32Array[]} upper states of the layers above the first
 * @property {Float32Array} [fed] Luong's h~_i, where the next step is fed it
 * @property {Float32Array} [covered] sum of the weights so far
 * @typedef {import("./network.js").State & OwnState} State
 */

/** One layer in one direction, or a layer of the decoder above the first. */
class Layer {
  /** @param {Recurrence} options @param {Part} part */
  constructor(options, part) {
    this.inputGates = part.linear("input_gates");
    this.cell = makeCell(options, part.part("cell"));
    this.initial = part.linearIfAny("initial");
  }

  /** @param {Float32Array[]} gates of each position @param {boolean} backward @returns {Float32Array[]} outputs */
  read(gates, backward) {
    /** @type {Float32Array[]} */
    let states = [new Float32Array(this.cell.width)];
    const outputs = (backward ? gates.slice().reverse() : gates).map((each) => {
      states = this.cell.step([each], states);
      return this.cell.output(states[0]);
    });
    return backward ? outputs.reverse() : outputs;
  }
}

/** Layers in one or both directions. */
export class RecurrentEncoder {
  /** @param {EncoderOptions} options @param {Part} part @param {Tensor} embedding */
  constructor(options, part, embedding) {
    const sides = options.directions === "both" ? [0, 1] : [0];
    this.residual = options.residual;
    this.layers = Array.from({ length: options.layers }, (_, above) =>
      sides.map((way) => new Layer(options, part.part(`layers.${above}.${way}`))),
    );
    this.tables = this.layers[0].map(({ inputGates }) => new Table(embedding, inputGates));
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
        layer.read(above ? layer.inputGates.all(below) : this.tables[way].rows(ids), way === 1),
      );
      annotations = ids.map((_, j) => joined(...read.map((outputs) => outputs[j])));
      if (above && this.residual) annotations = sums(annotations, below);
      last = read.map((outputs, way) => outputs[way ? 0 : ids.length - 1]);
    });
    return { annotations, summary: joined(...last), bridge: last[last.length - 1] };
  }
}

/** Bahdanau's decoder attends before its state is updated, Luong's after. */
export class RecurrentDecoder {
  /**
   * @param {DecoderOptions} options
   * @param {import("./attention.js").Options} attention
   * @param {Part} part
   * @param {Tensor} embedding
   */
  constructor(options, attention, part, embedding) {
    this.attention = makeAttention(attention, part.part("attention"));
    this.attends = attention.type !== "none";
    this.luong = attention.type === "luong";
    this.covers = this.attends && attention.score.type === "coverage";
    this.maxout = (options.readout_activation ?? (this.luong ? "tanh" : "maxout")) === "maxout";
    this.residual = options.residual;
    this.initial = part.linear("initial");
    this.cell = makeCell(options, part.part("cell"));
    this.above = Array.from({ length: options.layers - 1 }, (_, i) => new Layer(options, part.part(`upper.${i}`)));
    this.gates = new Table(embedding, part.linear("embedding_gates"));
    this.feedingGates = part.linearIfAny("feeding_gates");
    this.contextGates = part.linearIfAny("context_gates");
    this.contextReadout = part.linearIfAny("context_readout");
    // Luong's readout has one layer for context and output, Bahdanau's one for each of three
    this.readout = part.linear(this.luong ? "combine" : "state_readout");
    this.embeddingReadout = this.luong ? undefined : new Table(embedding, part.linear("embedding_readout"));
  }

  /** s_0 = tanh(W_s backward_1), in each layer. @param {Encoded} encoded @returns {State} */
  start(encoded) {
    const first = (/** @type {Linear | undefined} */ layer) =>
      /** @type {Linear} */ (layer).apply(encoded.bridge).map(Math.tanh);
    return {
      memory: { ...encoded, ...this.attention.prepare(encoded.annotations) },
      position: 0,
      hidden: first(this.initial),
      upper: this.above.map((layer) => first(layer.initial)),
      fed: this.feedingGates && new Float32Array(this.feedingGates.inputs),
      covered: this.covers ? new Float32Array(encoded.annotations.length) : undefined,
    };
  }

  /**
   * One step of several rows.
   *
   * @param {number[]} previous
   * @param {State[]} states
   * @param {(Float32Array | undefined)[]} clamped
   * @returns {Reading[]}
   */
  step(previous, states, clamped) {
    const attend = (/** @type {Float32Array[]} */ queries) =>
      queries.map((query, r) => this.attention.read(query, states[r], clamped[r]));
    const before = this.luong ? undefined : attend(states.map(({ hidden }) => this.cell.output(hidden)));
    const contexts = before?.map(({ context }) => context);
    const fed = this.feedingGates?.all(states.map((state) => /** @type {Float32Array} */ (state.fed)));
    const ofContext = contexts && this.contextGates?.all(contexts);
    const { hidden, uppers, outputs } = this.#update(sums(this.gates.rows(previous), fed, ofContext), states);
    const read = before ?? attend(outputs);
    const units = contexts
      ? sums(this.readout.all(outputs), this.embeddingReadout?.rows(previous), this.contextReadout?.all(contexts))
      : this.readout.all(read.map(({ context }, r) => joined(context, outputs[r])));
    return states.map(({ memory, position, covered }, r) => {
      const readout = this.maxout ? maxout(units[r]) : units[r].map(Math.tanh);
      const { weights } = read[r];
      const state = {
        memory,
        position: position + 1,
        hidden: hidden[r],
        upper: uppers.map((layer) => layer[r]),
        fed: this.feedingGates && readout,
        covered: covered && added(covered, weights),
      };
      return { readout, state, weights };
    });
  }

  /**
   * One step of all layers: states of the first and of the others, outputs of the last.
   *
   * @param {Float32Array[]} gates
   * @param {State[]} states
   */
  #update(gates, states) {
    const hidden = this.cell.step(
      gates,
      states.map((state) => state.hidden),
    );
    let outputs = hidden.map((state) => this.cell.output(state));
    const uppers = this.above.map(({ cell, inputGates }, i) => {
      const next = cell.step(
        inputGates.all(outputs),
        states.map(({ upper }) => upper[i]),
      );
      const own = next.map((state) => cell.output(state));
      outputs = this.residual ? sums(own, outputs) : own;
      return next;
    });
    return { hidden, uppers, outputs };
  }
}

/** Row by row. @param {Float32Array[]} rows @param {...(Float32Array[] | undefined)} others */
const sums = (rows, ...others) => rows.map((x, r) => added(x, ...others.map((other) => other?.[r])));

/** The larger of each pair (Goodfellow et al. 2013). @param {Float32Array} units */
const maxout = (units) => new Float32Array(units.length / 2).map((_, i) => Math.max(units[2 * i], units[2 * i + 1]));
