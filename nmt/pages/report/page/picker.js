"use strict";
// Choosing a sentence: a search box with a list of matches (the combobox of WAI-ARIA), and previous and next.

const MOST_MATCHES = 12;

/** {node, set(sentence)}; `choose(id)` is called with the number of the chosen sentence. */
function sentencePicker(sentences, choose) {
  let matches = [];
  let active = -1;
  let shown = null;
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
  const beside = (offset) => sentences[sentences.indexOf(shown) + offset];
  const step = (offset) => {
    const next = beside(offset);
    if (next) choose(next.id);
  };
  const previous = element("button", { type: "button", on: { click: () => step(-1) } }, "Previous");
  const next = element("button", { type: "button", on: { click: () => step(1) } }, "Next");

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

  function option(sentence, k) {
    return element(
      "li",
      { id: `match-${k}`, role: "option", on: { pointerdown: (event) => (event.preventDefault(), take(k)) } },
      element("span", { class: "count" }, String(sentence.id)),
      " ",
      plainText(sentence.source),
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
    if (event.key === "Enter") return take(Math.max(active, 0));
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return undefined;
    event.preventDefault();
    if (list.hidden) open();
    active = Math.min(Math.max(active + (event.key === "ArrowDown" ? 1 : -1), 0), matches.length - 1);
    return mark();
  });
  return {
    node: element("div", { class: "picker" }, labelled("Find a sentence", input), list, previous, next),
    set(sentence) {
      shown = sentence;
      previous.disabled = !beside(-1);
      next.disabled = !beside(1);
    },
  };
}

/** Whether a sentence has this number, or these words in its source or reference. */
function found(sentence, query) {
  return (
    String(sentence.id) === query ||
    [sentence.source, sentence.reference].some((text) => text.toLowerCase().includes(query))
  );
}
