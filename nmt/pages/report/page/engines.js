// The systems that translate in this page: loaded from its own parts when they are first needed.

import { Translator } from "../../web/engine/translator.js";
import { byId } from "../../web/parts/dom.js";
import { readingOf } from "../../web/parts/model.js";

/**
 * @typedef {import("../../web/engine/search.js").BeamStep} BeamStep
 * @typedef {{beam: number, prefix: string[], clamps: Map<number, number[]>}} Wanted
 */

const LIVE_CANDIDATES = 5;
/** Seconds after which a translation is given up: the page answers nothing else meanwhile. */
const PATIENCE = 3;

/** Unpack a part of the page: bytes, compressed by gzip, in base64. @param {string} id */
export function unpacked(id) {
  const text = atob(byId(id).textContent ?? "");
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i); // Uint8Array.from takes eight times as long
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

/**
 * A function that loads a system, once.
 *
 * @param {ReportData} report
 * @returns {(name: string) => Promise<Translator>}
 */
export function translators(report) {
  /** @type {Map<string, Promise<Translator>>} */
  const loaded = new Map();
  const load = (/** @type {string} */ name) => {
    const files = /** @type {Record<string, number>} */ (report.engines[name]);
    return Translator.load((file) => unpacked(`file-${files[file]}`).arrayBuffer());
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
 * @param {ReportData["languages"]} languages
 * @returns {LiveReading}
 */
export function liveReading(translator, text, { beam, prefix, clamps }, languages) {
  /** @type {BeamStep[]} */
  const steps = [];
  const began = performance.now();
  const watch = (/** @type {BeamStep} */ step) => {
    steps.push(step);
    if (performance.now() - began < 1000 * PATIENCE) return;
    throw new Error(`This takes more than ${PATIENCE} seconds: shorten the sentence, or choose a smaller beam.`);
  };
  const weights = (/** @type {number} */ step) => clamps.get(step);
  const translation = translator.translate(text, { beam, prefix, weights, watch, candidates: LIVE_CANDIDATES });
  return {
    ...readingOf(translation, languages.unit, languages.target_unit),
    translation,
    beam: steps,
    translator,
    milliseconds: performance.now() - began,
  };
}
