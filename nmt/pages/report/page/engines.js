// @ts-check
"use strict";
// The systems that translate in this page: loaded from its own parts when they are first needed.

/**
 * @typedef {import("../../web/engine/translator.js").Translator} Translator
 * @typedef {import("../../web/engine/translator.js").Translation} Translation
 * @typedef {import("../../web/engine/search.js").BeamStep} BeamStep
 * @typedef {{beam: number, prefix: string[], clamps: Map<number, number[]>}} Wanted
 *
 * @typedef {object} Reading what a report holds of a stored sentence; here with weights that are not packed
 * @property {string} text
 * @property {Record<string, number>} scores
 * @property {number} log_probability
 * @property {string[]} failures
 * @property {string[][]} source_words
 * @property {string[][]} target_words
 * @property {[string, number][][]} steps
 * @property {number[]} chosen
 * @property {Record<string, number[][]>} attention
 *
 * @typedef {object} Search
 * @property {Translation} translation
 * @property {BeamStep[]} beam
 * @property {{pieces: string[], alpha: number}} search pieces by id, exponent of the length penalty
 * @property {number} milliseconds
 *
 * @typedef {Reading & Search} LiveReading
 */

const LIVE_CANDIDATES = 5;
/** Seconds after which a translation is given up: the page answers nothing else meanwhile. */
const PATIENCE = 3;

/** Whether any system translates in this page. @param {ReportData} report */
function isLive(report) {
  return Object.values(report.engines).some((each) => typeof each !== "string");
}

/**
 * A function that loads a system, once.
 *
 * @param {ReportData} report
 * @returns {(name: string) => Promise<Translator>}
 */
function translators(report) {
  /** @type {Map<string, Promise<Translator>>} */
  const loaded = new Map();
  const load = async (/** @type {string} */ name) => {
    const parts = /** @type {Record<string, number>} */ (report.engines[name]);
    const bytes = (/** @type {string} */ file) => unpacked(`file-${parts[file]}`).arrayBuffer();
    const config = JSON.parse(new TextDecoder().decode(await bytes("config.json")));
    const weights = await bytes("model.safetensors");
    const source = new Uint8Array(await bytes("source.model"));
    const target = parts["target.model"] ? new Uint8Array(await bytes("target.model")) : undefined;
    return new engine["translator.js"].Translator({ config, weights, source, target });
  };
  return (name) => {
    const found = loaded.get(name) ?? load(name);
    loaded.set(name, found);
    return found;
  };
}

/**
 * Translate a sentence. Throws an Error if that takes too long.
 *
 * @param {Translator} translator
 * @param {string} text
 * @param {Wanted} wanted
 * @param {{view: string, languages: ReportData["languages"]}} shown
 * @returns {LiveReading}
 */
function liveReading(translator, text, { beam, prefix, clamps }, { view, languages }) {
  /** @type {BeamStep[]} */
  const steps = [];
  const began = performance.now();
  const watch = (/** @type {BeamStep} */ step) => {
    steps.push(step);
    if (performance.now() - began < 1000 * PATIENCE) return;
    throw new Error(`This takes more than ${PATIENCE} seconds: shorten the sentence, or choose a smaller beam.`);
  };
  const options = { beam, prefix, watch, candidates: LIVE_CANDIDATES };
  const weights = clamps.size ? { weights: (/** @type {number} */ step) => clamps.get(step) } : {};
  const translation = translator.translate(text, { ...options, ...weights });
  return {
    text: translation.text,
    scores: {},
    log_probability: translation.logProb,
    failures: [],
    source_words: wordsOf(translation.sourcePieces, languages.unit),
    target_words: wordsOf(translation.pieces, languages.target_unit),
    steps: translation.candidates,
    chosen: translation.probabilities,
    attention: translation.attention ? { [view]: translation.attention } : {},
    translation,
    beam: steps,
    search: { pieces: translator.target.pieces, alpha: translator.config.decoding.length_penalty },
    milliseconds: performance.now() - began,
  };
}

/** The pieces of each word; where words are not counted, each piece is one. @param {string[]} pieces @param {string} unit */
function wordsOf(pieces, unit) {
  /** @type {string[][]} */
  const words = [];
  for (const piece of pieces) {
    const last = words.at(-1);
    if (last && unit === "words" && !piece.startsWith("▁") && piece !== "</s>") last.push(piece);
    else words.push([piece]);
  }
  return words;
}

/** A text without halves of characters, of which no address can be made. @param {string} text */
function wellFormed(text) {
  return text.replace(/\p{Surrogate}/gu, "\ufffd");
}
