// The output word by word or piece by piece: the source lit by the attention of a step, and the candidates among which
// its pieces were chosen.

import { announcer, element, refill, setDisabled } from "./dom.js";
import { gridMove } from "./heatmap.js";
import { mean, wordText } from "./numbers.js";

/**
 * {node, draw(model), light(model, step, column)}.
 *
 * @param {{point: (step: number) => void, leave: () => void, choose: (step: number) => void}} on
 */
export function stepView({ point, leave, choose }) {
  const source = element("p", { class: "tokens", dir: "auto" });
  const output = element("p", {
    class: "tokens",
    role: "listbox",
    "aria-label": "Output, step by step",
    "aria-orientation": "horizontal",
    dir: "auto",
  });
  const heading = element("h3", {});
  const weights = element("p", { class: "weights" });
  const spoken = announcer();
  const entropy = element("p", { class: "entropy" });
  const candidates = element("div", {});
  const step = (/** @type {string} */ label, /** @type {string} */ arrow, /** @type {number} */ by) =>
    element("button", { type: "button", "aria-label": label, on: { click: () => options[at + by] && choose(at + by) } }, arrow);
  const [previous, next] = [step("Previous step", "←", -1), step("Next step", "→", 1)];
  /** @type {HTMLElement[]} */
  let options = [];
  /** @type {HTMLElement[]} */
  let places = [];
  let at = 0;

  output.addEventListener("keydown", (event) => {
    const number = options.findIndex((each) => each === event.target);
    const rtl = getComputedStyle(output).direction === "rtl";
    const to = number < 0 ? null : gridMove(event, [0, number], [1, options.length], rtl);
    if (!to) return;
    event.preventDefault();
    choose(to[1]);
    options[to[1]].focus();
  });
  output.addEventListener("pointerleave", leave);

  /** @param {Model} model */
  function draw(model) {
    const { langs } = model;
    places = model.columns.map((text) =>
      element("span", { dir: isSymbol(text) ? "ltr" : null, lang: langs.source }, shownPiece(text)),
    );
    source.replaceChildren(...spaced(places, model.sourceStarts));
    options = model.rows.map((text, number) =>
      element(
        "span",
        {
          dir: isSymbol(text) ? "ltr" : null,
          lang: langs.target,
          role: "option",
          tabindex: "-1",
          ...(model.rowPlaces[number][0] < (model.forced ?? 0) ? { class: "forced", "aria-description": "given" } : {}),
          on: { pointerenter: () => point(number), click: () => choose(number) },
        },
        shownPiece(text),
      ),
    );
    const starts = model.rowPlaces.map(([first]) => model.targetPieces[first]);
    output.replaceChildren(...spaced(options, starts));
  }

  /**
   * Show a step, and the weight of a column first.
   *
   * @param {Model} model
   * @param {number} shown
   * @param {number | null} column
   */
  function light(model, shown, column) {
    at = model.step; // hovering does not move it
    options.forEach((option, number) => {
      option.setAttribute("aria-selected", String(number === shown));
      option.classList.toggle("ahead", number > shown);
      option.tabIndex = number === at ? 0 : -1;
    });
    places.forEach((place, k) => place.style.setProperty("--w", (model.weights?.[shown][k] ?? 0).toFixed(4)));
    const unit = model.unit === "words" ? "Word" : "Piece";
    heading.replaceChildren(
      `${unit} `,
      element("span", { class: "count" }, String(shown + 1)),
      ` of ${options.length}`,
    );
    setDisabled(previous, at <= 0);
    setDisabled(next, at >= options.length - 1);
    weights.replaceChildren(...weightsInWords(model, shown, column));
    if (shown === at) spoken.say(weights.textContent ?? "");
    entropy.replaceChildren(...entropyInWords(model, shown));
    refill(
      candidates,
      model.rowPlaces[shown].map((place) => candidatesOf(model, place)),
    );
  }

  const row = (/** @type {string} */ label, /** @type {HTMLElement} */ tokens) =>
    element("div", { class: "sentence-row" }, element("span", { class: "label" }, label), tokens);
  const node = element(
    "section",
    { class: "steps", "aria-label": "Step by step" },
    row("Source", source),
    row("Output", output),
    element(
      "div",
      { class: "step" },
      element(
        "div",
        {},
        element("div", { class: "step-head" }, heading, previous, next),
        weights,
        spoken.node,
        entropy,
      ),
      element("div", {}, element("h4", {}, "Candidates"), candidates),
    ),
  );
  return { node, draw, light };
}

/** SentencePiece's mark shows where a word begins, so it becomes a space between the tokens. @param {string} piece */
function shownPiece(piece) {
  return piece === "▁" ? "␣" : piece.replace(/^▁/, "");
}

/** Whether a piece is a symbol such as </s>: no text, and read from left to right in any sentence. @param {string} piece */
function isSymbol(piece) {
  return /^<.*>$/.test(piece);
}

/** @param {HTMLElement[]} nodes @param {string[]} pieces */
function spaced(nodes, pieces) {
  return nodes.flatMap((node, k) => (k && (pieces[k].startsWith("▁") || pieces[k] === "</s>") ? [" ", node] : [node]));
}

/**
 * The source word that is pointed at, and those with most weight.
 *
 * @param {Model} model
 * @param {number} step
 * @param {number | null} column
 */
function weightsInWords(model, step, column) {
  if (!model.weights) return ["This system has no attention: every step sees the same vector."];
  const best = model.weights[step]
    .map((weight, place) => ({ weight, place, pointed: Number(place === column) }))
    .sort((a, b) => b.pointed - a.pointed || b.weight - a.weight)
    .filter(({ weight }, k) => !k || (k < 3 && weight >= 0.005));
  return [
    element("bdi", { class: "word", lang: model.langs.target }, model.rows[step]),
    " attends to ",
    ...best.flatMap(({ weight, place }, k) => [
      k ? ", " : "",
      element("bdi", { class: "word", lang: model.langs.source }, model.columns[place]),
      " ",
      element("span", { class: "count" }, weight.toFixed(2)),
    ]),
  ];
}

/** @param {Model} model @param {number} step */
function entropyInWords(model, step) {
  if (!model.matrix) return [];
  const value = (/** @type {number} */ bits, /** @type {string} */ name) =>
    element("strong", { data: { value: name } }, bits.toFixed(2));
  return [
    "Entropy ",
    value(mean(model.rowPlaces[step].map((place) => model.entropies[place])), "entropy"),
    " bits here, ",
    value(mean(model.entropies), "mean-entropy"),
    " on average; 0 is one source piece, ",
    Math.log2(model.positions).toFixed(2),
    " all alike.",
  ];
}

/** The candidates of a piece of the output. @param {Model} model @param {number} place */
function candidatesOf(model, place) {
  const { output, branch, langs } = model;
  const piece = model.targetPieces[place];
  const begun = model.unit === "pieces" ? null : shownPiece(wordSoFar(model, place));
  const listed = output.steps[place] ?? [];
  const rows = listed.some(([candidate]) => candidate === piece)
    ? listed
    : [...listed, /** @type {const} */ ([piece, output.chosen[place]])];
  const items = rows.map(([candidate, probability]) => {
    const chosen = candidate === piece;
    const text = element("bdi", { lang: langs.target }, begun === null ? candidate : asWritten(begun, candidate));
    const click = () => branch?.(place, candidate);
    return element(
      "li",
      { class: chosen ? "chosen" : null },
      branch && !chosen ? element("button", { type: "button", on: { click } }, text) : text,
      element("span", { class: "bar", "aria-hidden": "true", css: { "--w": probability } }),
      element("span", { class: "count" }, probability.toFixed(3)),
      chosen ? element("span", { class: "tag" }, "chosen") : null,
    );
  });
  return element("ol", { class: "candidates", "aria-label": `Candidates of piece ${place + 1}` }, items);
}

/** What is there of the word that a step may go on with; nothing without spaces. @param {Model} model @param {number} step */
function wordSoFar({ targetPieces, targetUnit }, step) {
  if (targetUnit !== "words") return "";
  const before = targetPieces.slice(0, step);
  const begin = before.findLastIndex((piece) => piece.startsWith("▁"));
  return begin < 0 ? before.join("") : wordText(before.slice(begin));
}

/** A candidate without its mark, or behind the word that it goes on with. @param {string} begun @param {string} candidate */
function asWritten(begun, candidate) {
  return !begun || candidate.startsWith("▁") || isSymbol(candidate)
    ? shownPiece(candidate)
    : [element("span", { class: "begun" }, begun), candidate];
}
