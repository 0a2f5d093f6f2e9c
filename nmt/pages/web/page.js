// The exported page: it translates by itself what is typed.

import { Translator } from "./engine/translator.js";
import { byId, langsOf } from "./parts/dom.js";
import { linesPage } from "./parts/lines.js";

const translator = await Translator.load(".");
const { source_language: source, target_language: target, model } = /** @type {any} */ (translator.config);
byId("heading").textContent = document.title = `Translate ${source} to ${target}`;
const { encoder, decoder, attention } = model;
const network = `Encoder: ${encoder.type}. Decoder: ${decoder.type}. Attention: ${attention.type}.`;
byId("about").textContent = `${network} Greedy search.`;

/** @param {string} line @param {AbortSignal} signal @returns {Promise<Line>} */
async function translate(line, signal) {
  await new Promise((resume) => setTimeout(resume)); // keys that are pressed between two lines are handled first
  signal.throwIfAborted();
  const found = translator.translate(line, { beam: 1, candidates: 5 });
  return found.cut ? { ...found, warning: "Too long: only its beginning is read." } : found;
}

const langs = langsOf(source, target);
byId("page").append(...linesPage(translate, 0, langs));
byId("source").lang = langs.source ?? "";
byId("source").focus();
