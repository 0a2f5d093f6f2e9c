// The exported page: it translates by itself what is typed.

import { Translator } from "./engine/translator.js";
import { byId } from "./parts/dom.js";
import { linesPage } from "./parts/lines.js";

const translator = await Translator.load(".");
const { source_language: source, target_language: target, model } = /** @type {any} */ (translator.config);
byId("heading").textContent = document.title = `Translate ${source} to ${target}`;
byId("about").textContent =
  `${model.encoder.type} encoder, ${model.decoder.type} decoder, attention: ${model.attention.type}.`;
byId("page").append(
  ...linesPage((lines) => lines.map((line) => translator.translate(line, { beam: 1, candidates: 5 }))),
);
byId("source").focus();
