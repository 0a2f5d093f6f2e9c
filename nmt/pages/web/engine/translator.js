/** Text to text: what a page, Node or an extension calls. */

import { Network } from "./network.js";
import { Tokenizer } from "./pieces.js";
import { likeliest, path, search } from "./search.js";
import { readSafetensors } from "./weights.js";

/**
 * @typedef {import("./search.js").Hypothesis} Hypothesis
 *
 * @typedef {object} Configuration what `nmt-export` writes as config.json
 * @property {import("./network.js").Model} model
 * @property {boolean} shared whether both languages have one tokenizer
 * @property {boolean} reverse_source
 * @property {Decoding} decoding
 * @property {[number, number[]][]} tags source pieces that name a language, and the ids of each as text
 * @property {number | null} to the piece of a source without one
 *
 * @typedef {object} Decoding
 * @property {number} beam_size
 * @property {number} largest_beam hypotheses that it may have
 * @property {number} length_penalty
 * @property {number} max_source pieces that are read
 * @property {number} max_characters that are read
 * @property {number} max_length_factor
 * @property {number} more_pieces that a translation may have, in addition to this factor times those of the source
 * @property {number} min_length_factor
 * @property {number} no_repeat_ngram
 *
 * @typedef {object} Options
 * @property {number} [beam] hypotheses kept at each step; 1: greedy search
 * @property {string[]} [prefix] pieces that the translation begins with
 * @property {(step: number) => ArrayLike<number> | undefined} [weights] attention weights to use at a step, from 0;
 *   undefined: the network's own
 * @property {(step: import("./search.js").BeamStep) => void} [watch] is called at each step of the search
 * @property {number} [candidates] likeliest next pieces that are reported for each step
 *
 * @typedef {object} Translation
 * @property {string} text
 * @property {string[]} pieces target pieces, with the end symbol if it was written
 * @property {string[]} sourcePieces with the end symbol
 * @property {number[][] | null} attention a row for each target piece; null for a network without attention
 * @property {[string, number][][]} candidates for each target piece the likeliest pieces with their probabilities, given
 *   the pieces before it; as many as were asked for
 * @property {number[]} probabilities of each target piece, given those before it
 * @property {number} logProb natural logarithm of the probability of all pieces
 * @property {boolean} cut whether the end of the source was left out
 *
 * @typedef {(name: string) => Promise<ArrayBuffer>} Read
 */

/** Reads the files of a folder by their names. @param {string} folder its address or path @returns {Read} */
function reader(folder) {
  const base = folder.replace(/\/?$/, "/");
  return async (name) => {
    if (typeof location === "undefined" && !/^https?:/.test(base)) {
      const module = "node:fs/promises"; // a variable: bundlers and tsc leave it alone
      const { readFile } = await import(module);
      return new Uint8Array(await readFile(base.startsWith("file:") ? new URL(base + name) : base + name)).buffer;
    }
    const response = await fetch(base + name);
    if (!response.ok) throw new Error(`${base}${name}: ${response.status} ${response.statusText}`);
    return response.arrayBuffer();
  };
}

/** A trained network with its tokenizers. */
export class Translator {
  /**
   * @param {Configuration} config
   * @param {import("./weights.js").Tensors} weights
   * @param {Tokenizer} source
   * @param {Tokenizer} target
   */
  constructor(config, weights, source, target) {
    this.config = config;
    this.source = source;
    this.target = target;
    this.network = new Network(config.model, weights);
  }

  /**
   * Load what `nmt-export` has written.
   *
   * @param {string | URL | Read} folder its address, outside browsers also its path, or what reads its files
   */
  static async load(folder) {
    const read = typeof folder === "function" ? folder : reader(String(folder));
    const bytes = async (/** @type {string} */ name) => new Uint8Array(await read(name));
    const config = JSON.parse(new TextDecoder().decode(await bytes("config.json")));
    const weights = readSafetensors(await read("weights.safetensors"));
    const source = new Tokenizer(await bytes("source.model"));
    const target = config.shared ? source : new Tokenizer(await bytes("target.model"));
    return new Translator(config, weights, source, target);
  }

  /** The source ids of a text, with the piece of its tag, and whether the end was left out. @param {string} text */
  read(text) {
    const { decoding, tags, to } = this.config;
    const most = decoding.max_characters;
    const first = [...text.slice(0, 2 * most)].slice(0, most).join(""); // a character has one or two places
    const all = this.source.encode(first);
    const ids = all.slice(0, decoding.max_source);
    const cut = ids.length < all.length || first.length < text.length;
    const own = tags.find(([, typed]) => typed.every((id, i) => ids[i] === id));
    if (own) return { ids: [own[0], ...ids.slice(own[1].length)], cut };
    return { ids: to === null || !ids.length ? ids : [to, ...ids], cut };
  }

  /**
   * Translate one line; a blank one has a blank translation.
   *
   * @param {string} text
   * @param {Options} [options] those of the run, unless given
   * @returns {Translation}
   */
  translate(text, options = {}) {
    const { decoding } = this.config;
    const { beam = decoding.beam_size, prefix = [], candidates = 0, weights, watch } = options;
    if (!Number.isInteger(beam) || beam < 1 || beam > decoding.largest_beam)
      throw new RangeError(`beam: ${beam}; must be a whole number from 1 to ${decoding.largest_beam}`);
    const { ids, cut } = this.read(text);
    if (!ids.length) {
      const none = { text: "", pieces: [], sourcePieces: [], candidates: [], probabilities: [] };
      return { ...none, attention: null, logProb: 0, cut };
    }
    const { pieces } = this.target;
    // from the order of the text to that of the network, the end symbol last, and back: the order undoes itself
    const order = [...ids.keys()];
    if (this.config.reverse_source) order.reverse();
    order.push(ids.length);
    const reordered = (/** @type {ArrayLike<number>} */ row) => order.map((j) => row[j]);
    const limits = {
      bos: this.target.bos,
      eos: this.target.eos,
      forbidden: [this.target.pad, this.target.bos],
      longest: Math.floor(ids.length * decoding.max_length_factor) + decoding.more_pieces,
      least: Math.ceil(ids.length * decoding.min_length_factor),
      noRepeat: decoding.no_repeat_ngram,
    };
    const step = (/** @type {Hypothesis[]} */ live) => {
      const own = weights?.(live[0].state.position);
      const clamped = own && Float32Array.from(reordered(own));
      const previous = live.map(({ token }) => token);
      const states = live.map(({ state }) => state);
      const steps = this.network.step(previous, states, clamped);
      for (const each of candidates ? steps : []) {
        const best = likeliest(each.logProbs, candidates, limits.forbidden);
        each.likely = best.map((id) => [pieces[id], Math.exp(each.logProbs[id])]);
      }
      return steps;
    };
    const start = this.network.start(reordered([...ids, this.source.eos]));
    const forced = prefix.map((piece) =>
      piece === pieces[limits.eos] ? limits.eos : (this.target.ids.get(piece) ?? this.target.unknown),
    );
    const lengthPenalty = decoding.length_penalty;
    const found = search(step, start, limits, { beam, lengthPenalty, watch, prefix: forced });
    const steps = path(found);
    const tokens = steps.map(({ token }) => token);
    return {
      text: this.target.decode(tokens).replace(/[\r\n]/g, " "),
      pieces: tokens.map((token) => pieces[token]),
      sourcePieces: [...ids, this.source.eos].map((id) => this.source.pieces[id]),
      attention: this.network.attends ? steps.map((each) => reordered(each.weights ?? [])) : null,
      candidates: steps.map(({ likely = [] }) => likely),
      probabilities: steps.map(({ logProb, parent }) => Math.exp(logProb - (parent?.logProb ?? 0))),
      logProb: found.logProb,
      cut,
    };
  }
}
