// Occlusion: the sentence without one of its words, and which words of the output change.

import { element } from "../../web/parts/dom.js";
import { commonPlaces, marked, unitsOf, wordTokens } from "../../web/parts/numbers.js";

const MOST_WORDS = 60;

/**
 * For each word of a text: the word, and the text without it. Characters, where the language has no spaces.
 *
 * @param {string} text
 * @param {string} unit
 */
export function withoutEachWord(text, unit) {
  const words = unitsOf(text, unit);
  const space = unit === "words" ? " " : "";
  const first = words.slice(0, MOST_WORDS);
  return first.map((word, k) => ({ word, rest: words.filter((_, other) => other !== k).join(space) }));
}

/** The share of the words of a text that another one lacks. @param {string} text @param {string} other */
function shareLost(text, other) {
  const [own, its] = [text, other].map(wordTokens);
  return own.length ? 1 - commonPlaces(own, its).length / own.length : 0;
}

/** {node, draw}. @param {Langs} langs */
export function leaveView(langs) {
  const list = element("ol", { class: "left-out" });
  const note = `Each line leaves one of the first ${MOST_WORDS} source words out. Underlined words were not in the translation of the whole sentence; the bar is the share of its words that are lost.`;
  return {
    node: element("div", {}, element("p", { class: "note" }, note), list),
    /** @param {({word: string} & Answer)[]} left @param {LiveReading} whole */
    draw(left, whole) {
      list.replaceChildren(
        ...left.map(({ word, reading, problem }) => {
          const lost = reading ? shareLost(whole.text, reading.text) : 0;
          const label = reading ? { role: "img", "aria-label": `${Math.round(100 * lost)}% lost` } : {};
          const bar = element("span", { class: "bar", ...label, css: { "--w": lost } });
          const text = reading ? marked(reading.text, whole.text, langs.target) : (problem ?? "…");
          return element("li", {}, element("del", { dir: "auto", lang: langs.source }, word), bar, text);
        }),
      );
    },
  };
}
