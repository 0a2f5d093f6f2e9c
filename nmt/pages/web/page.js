// The exported page: it translates by itself what is typed.

import { Translator } from "./engine/translator.js";
import { byId } from "./parts/dom.js";
import { linesPage } from "./parts/lines.js";

const translator = await Translator.load(".");
const { source_language: source, target_language: target, model } = /** @type {any} */ (translator.config);
byId("heading").textContent = document.title = `Translate ${source} to ${target}`;
const { encoder, decoder, attention } = model;
byId("about").textContent = `Encoder: ${encoder.type}. Decoder: ${decoder.type}. Attention: ${attention.type}.`;
byId("page").append(
  ...linesPage((lines) => lines.map((line) => translator.translate(line, { beam: 1, candidates: 5 }))),
);
byId("source").focus();
