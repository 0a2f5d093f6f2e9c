// Rows of text that several panels show.

import { element } from "../../web/parts/dom.js";
import { formatState } from "./state.js";

/** Pairs of a name and its content as a list. @param {any[][]} pairs */
export function pairList(pairs) {
  const nodes = pairs.map(([name, content]) => [element("dt", {}, name), element("dd", {}, content)]);
  return element("dl", {}, nodes);
}

/** A row of translations: a name, a text, a number. @param {boolean} current @param {any[]} cells */
export function translationRow(current, ...cells) {
  const nodes = cells.map((cell) => element("div", {}, cell));
  return element("div", { class: "translation", "aria-current": current ? "true" : null }, nodes);
}

/** @param {Read} output */
export function failureTags(output) {
  return output.failures.map((failure) => element("span", { class: "failure" }, failure));
}

/** A link to a sentence in the explorer. @param {Sentence} sentence @param {string} system @param {any} text */
export function explorerLink(sentence, system, text) {
  return element("a", { href: formatState({ panel: "attention", attention: String(sentence.id), system }) }, text);
}
