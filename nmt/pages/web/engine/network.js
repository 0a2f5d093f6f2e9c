/**
 * A network, as in nmt/model: encode, start, step.
 *
 * A state is a value: a step returns another one and leaves it as it is, so that a search may go back to any of them.
 */

import { RecurrentDecoder, RecurrentEncoder } from "./recurrent.js";
import { logSoftmax, Part } from "./weights.js";

/**
 * @typedef {object} Model the section `model` of a configuration
 * @property {import("./recurrent.js").EncoderOptions} encoder
 * @property {import("./recurrent.js").DecoderOptions} decoder
 * @property {import("./attention.js").Options} attention
 *
 * @typedef {object} Encoded
 * @property {Float32Array[]} annotations h_j, one for each source piece
 * @property {Float32Array} summary
 * @property {Float32Array} bridge what the first state of a recurrent decoder is made of
 *
 * @typedef {Encoded & import("./attention.js").Prepared} Memory what is known of a sentence
 *
 * @typedef {object} State a decoder between two steps; each decoder has more in it
 * @property {Memory} memory
 * @property {number} position target position of the next step, from 0
 *
 * @typedef {object} Reading what a decoder makes of one step
 * @property {Float32Array} readout
 * @property {any} state
 * @property {Float32Array} [weights] of the source pieces
 *
 * @typedef {{logProbs: Float32Array, state: State, weights?: Float32Array}} Step
 *
 * @typedef {object} Encoder
 * @property {(ids: number[]) => Encoded} read
 *
 * @typedef {object} Decoder
 * @property {boolean} attends
 * @property {(encoded: Encoded) => State} start
 * @property {(previous: number[], states: any[], clamped: (Float32Array | undefined)[]) => Reading[]} step
 */

/** A network that has been trained. */
export class Network {
  /**
   * @param {Model} model
   * @param {import("./weights.js").Tensors} tensors
   */
  constructor({ encoder, decoder, attention }, tensors) {
    const all = new Part(tensors);
    const embedding = all.tensor("source_embedding.weight");
    const target = all.has("target_embedding") ? all.tensor("target_embedding.weight") : embedding;
    /** @type {Encoder} */
    this.encoder = new RecurrentEncoder(encoder, all.part("encoder"), embedding);
    /** @type {Decoder} */
    this.decoder = new RecurrentDecoder(decoder, attention, all.part("decoder"), target);
    if (!all.has("output")) tensors.set("output.weight", target); // tied
    this.output = all.linear("output");
  }

  /** Whether steps have attention weights. */
  get attends() {
    return this.decoder.attends;
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
   * @param {(Float32Array | undefined)[]} [clamped] attention weights to use instead of the network's own
   * @returns {Step[]}
   */
  step(previous, states, clamped = []) {
    const read = this.decoder.step(previous, states, clamped);
    const logits = this.output.all(read.map(({ readout }) => readout));
    return read.map(({ state, weights }, r) => ({ logProbs: logSoftmax(logits[r]), state, weights }));
  }
}
