// Choosing a sentence: a search box with a list of matches (the combobox of WAI-ARIA), and previous and next.

import { element, labelled, plainText, setDisabled } from "../../web/parts/dom.js";

const MOST_MATCHES = 12;

/**
 * {node, set(sentence)}; `choose(id)` is called with the number of the chosen sentence.
 *
 * @param {Sentence[]} sentences
 * @param {(id: number) => void} choose
 * @param {string} [lang] of the sentences
 */
export function sentencePicker(sentences, choose, lang) {
  /** @type {Sentence[]} */
  let matches = [];
  let active = -1;
  /** @type {Sentence} */
  let shown;
  const list = element("ul", {
    id: "matches",
    role: "listbox",
    tabindex: "-1", // browsers let Tab stop at what scrolls
    "aria-label": "Sentences found",
    hidden: true,
  });
  const input = element("input", {
    type: "search",
    role: "combobox",
    autocomplete: "off",
    spellcheck: "false",
    "aria-expanded": "false",
    "aria-controls": "matches",
    "aria-autocomplete": "list",
    placeholder: "number or words",
  });
  const beside = (/** @type {number} */ offset) => sentences[sentences.indexOf(shown) + offset];
  const stepBy = (/** @type {number} */ offset, /** @type {string} */ label) =>
    element("button", { type: "button", on: { click: () => beside(offset) && choose(beside(offset).id) } }, label);
  const [previous, next] = [stepBy(-1, "Previous"), stepBy(1, "Next")];

  function open() {
    const query = input.value.trim().toLowerCase();
    matches = sentences.filter((sentence) => found(sentence, query)).slice(0, MOST_MATCHES);
    active = -1;
    list.replaceChildren(...matches.map(option));
    list.hidden = false;
    mark();
    if (!matches.length)
      list.append(
        element("li", { class: "hint", role: "option", "aria-disabled": "true" }, "No sentence has these words."),
      );
  }

  /** @param {Sentence} sentence @param {number} k */
  function option(sentence, k) {
    const mousedown = (/** @type {Event} */ event) => event.preventDefault(); // the field keeps the focus
    return element(
      "li",
      { id: `match-${k}`, role: "option", on: { mousedown, click: () => take(k) } },
      element("span", { class: "count" }, String(sentence.id)),
      " ",
      plainText(sentence.source, lang),
    );
  }

  function mark() {
    input.setAttribute("aria-expanded", String(!list.hidden));
    if (active >= 0) input.setAttribute("aria-activedescendant", `match-${active}`);
    else input.removeAttribute("aria-activedescendant");
    matches.forEach((_, k) => list.children[k].setAttribute("aria-selected", String(k === active)));
    if (active >= 0) list.children[active].scrollIntoView({ block: "nearest" });
  }

  function close() {
    list.hidden = true;
    active = -1;
    mark();
  }

  /** @param {number} k */
  function take(k) {
    const sentence = matches[k];
    close();
    input.value = "";
    if (sentence) choose(sentence.id);
  }

  input.addEventListener("input", open);
  input.addEventListener("focus", open);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      event.preventDefault(); // clearing the box would open the list again
      input.value = "";
      return close();
    }
    if (event.key === "Enter") return list.hidden || !matches.length ? undefined : take(Math.max(active, 0));
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return undefined;
    event.preventDefault();
    if (list.hidden) open();
    active = Math.min(Math.max(active + (event.key === "ArrowDown" ? 1 : -1), 0), matches.length - 1);
    return mark();
  });
  return {
    node: element("div", { class: "picker" }, labelled("Find a sentence", input), list, previous, next),
    /** @param {Sentence} sentence */
    set(sentence) {
      shown = sentence;
      setDisabled(previous, !beside(-1));
      setDisabled(next, !beside(1));
    },
  };
}

/** Whether a sentence has this number, or these words in its source or reference. @param {Sentence} sentence @param {string} query */
function found(sentence, query) {
  return (
    String(sentence.id) === query ||
    [sentence.source, sentence.reference].some((text) => text.toLowerCase().includes(query))
  );
}
