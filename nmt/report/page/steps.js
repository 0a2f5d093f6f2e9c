"use strict";
// The output token by token: the source lit by the attention of a step, and the candidates among which it was chosen.

/** {node, draw(model), light(model, step, whole, column)}; `point(step)`, `leave()`, `choose(step)`. */
function stepView({ point, leave, choose }) {
  const source = element("p", { class: "tokens", dir: "auto" });
  const output = element("p", {
    class: "tokens",
    role: "listbox",
    "aria-label": "Output, token by token",
    "aria-orientation": "horizontal",
    dir: "auto",
  });
  const heading = element("h3", {});
  const weights = element("p", { class: "weights", role: "status" });
  const entropy = element("p", { class: "entropy" });
  const candidates = element("ol", { class: "candidates", "aria-label": "Candidates of this step" });
  const previous = element("button", { type: "button", "aria-label": "Previous step" }, "←");
  const next = element("button", { type: "button", "aria-label": "Next step" }, "→");
  let options = [];
  let places = [];
  let at = 0;

  previous.addEventListener("click", () => choose(Math.max(at - 1, 0)));
  next.addEventListener("click", () => choose(Math.min(at + 1, options.length - 1)));
  output.addEventListener("keydown", (event) => {
    const number = options.indexOf(event.target);
    const rtl = getComputedStyle(output).direction === "rtl";
    const key = rtl ? ({ ArrowLeft: "ArrowRight", ArrowRight: "ArrowLeft" }[event.key] ?? event.key) : event.key;
    const to = movedBy(key, number, options.length);
    if (to === null) return;
    event.preventDefault();
    choose(to);
    options[to].focus();
  });
  output.addEventListener("pointerleave", leave);

  function draw(model) {
    places = model.sourcePieces.map((piece) => element("span", isolated(piece), shownPiece(piece)));
    source.replaceChildren(...spaced(places, model.sourcePieces));
    options = model.targetPieces.map((piece, step) =>
      element(
        "span",
        {
          ...isolated(piece),
          role: "option",
          tabindex: "-1",
          on: { pointerenter: () => point(step), click: () => choose(step) },
        },
        shownPiece(piece),
      ),
    );
    output.replaceChildren(...spaced(options, model.targetPieces));
  }

  /** Show a step, or the `whole` row of the heat map that it is in, the weight of a column first. */
  function light(model, step, whole, column) {
    at = model.step; // hovering does not move it
    const together = model.matrix?.filter((_, k) => (whole ? model.rowOf[k] === model.rowOf[step] : k === step));
    options.forEach((option, number) => {
      option.setAttribute("aria-selected", String(number === step));
      option.classList.toggle("ahead", number > step);
      option.tabIndex = number === at ? 0 : -1;
    });
    places.forEach((place, column) =>
      place.style.setProperty("--w", mean((together ?? []).map((row) => row[column])).toFixed(4)),
    );
    heading.replaceChildren("Step ", element("span", { class: "count" }, String(step + 1)), ` of ${options.length}`);
    previous.disabled = at <= 0;
    next.disabled = at >= options.length - 1;
    weights.replaceChildren(...weightsInWords(model, step, whole, column));
    entropy.replaceChildren(...entropyInWords(model, step));
    candidates.replaceChildren(...candidatesOf(model, step));
  }

  const row = (label, tokens) =>
    element("div", { class: "sentence-row" }, element("span", { class: "label" }, label), tokens);
  const node = element(
    "section",
    { class: "steps", "aria-label": "Step by step" },
    row("Source", source),
    row("Output", output),
    element(
      "div",
      { class: "step" },
      element("div", {}, element("div", { class: "step-head" }, heading, previous, next), weights, entropy),
      element("div", {}, element("h4", {}, "Candidates"), candidates),
    ),
  );
  return { node, draw, light };
}

/** SentencePiece's mark shows where a word begins, so it becomes a space between the tokens. */
function shownPiece(piece) {
  return piece === "▁" ? "␣" : piece.replace(/^▁/, "");
}

/** Whether a piece is a symbol such as </s>, not text. */
function isSymbol(piece) {
  return /^<.*>$/.test(piece);
}

/** Symbols are read from left to right in any sentence; letters join across pieces. */
function isolated(piece) {
  return isSymbol(piece) ? { dir: "ltr" } : {};
}

function spaced(nodes, pieces) {
  return nodes.flatMap((node, k) => (k && (pieces[k].startsWith("▁") || pieces[k] === "</s>") ? [" ", node] : [node]));
}

/** The source word that is pointed at, and those with most weight at a step or in its whole row. */
function weightsInWords(model, step, whole, column) {
  if (!model.weights) return ["This system has no attention: every step sees the same vector."];
  const row = model.rowOf[step];
  const pointed = ([, place]) => place === column;
  const best = (whole ? model.weights[row] : model.stepWeights[step])
    .map((weight, place) => [weight, place])
    .sort((a, b) => pointed(b) - pointed(a) || b[0] - a[0])
    .filter(([weight], k) => !k || (k < 3 && weight >= 0.005));
  return [
    element("bdi", { class: "word" }, whole ? model.rows[row] : shownPiece(model.targetPieces[step])),
    " attends to ",
    ...best.flatMap(([weight, place], k) => [
      k ? ", " : "",
      element("bdi", { class: "word" }, model.columns[place]),
      " ",
      element("span", { class: "count" }, weight.toFixed(2)),
    ]),
  ];
}

function entropyInWords(model, step) {
  if (!model.matrix) return [];
  const value = (bits, name) => element("strong", { data: { value: name } }, bits.toFixed(2));
  return [
    "Entropy ",
    value(model.entropies[step], "entropy"),
    " bits at this step, ",
    value(mean(model.entropies), "mean-entropy"),
    " on average; ",
    Math.log2(model.sourcePieces.length).toFixed(2),
    " would be uniform.",
  ];
}

function candidatesOf(model, step) {
  const { output } = model;
  const piece = model.targetPieces[step];
  const shown = model.unit === "pieces" ? (candidate) => candidate : asWritten(shownPiece(wordSoFar(model, step)));
  const listed = output.steps[step] ?? [];
  const rows = listed.some(([candidate]) => candidate === piece)
    ? listed
    : [...listed, [piece, output.chosen[step] ?? null]];
  return rows.map(([candidate, probability]) =>
    element(
      "li",
      { class: candidate === piece ? "chosen" : null },
      element("bdi", {}, shown(candidate)),
      element("span", { class: "bar", "aria-hidden": "true", css: { "--w": probability ?? 0 } }),
      element("span", { class: "count" }, probability === null ? "–" : probability.toFixed(3)),
      candidate === piece ? element("span", { class: "tag" }, "chosen") : null,
    ),
  );
}

/** What the output has of the word that a step may go on with; nothing in a language without spaces. */
function wordSoFar({ targetPieces, targetUnit }, step) {
  if (targetUnit !== "words") return "";
  const before = targetPieces.slice(0, step);
  const begin = before.findLastIndex((piece) => piece.startsWith("▁"));
  return begin < 0 ? before.join("") : wordText(before.slice(begin));
}

/** A candidate as a reader expects it: without the mark where it begins a word, else behind the word that it continues. */
function asWritten(begun) {
  return (candidate) =>
    !begun || candidate.startsWith("▁") || isSymbol(candidate)
      ? shownPiece(candidate)
      : [element("span", { class: "begun" }, begun), candidate];
}
