"use strict";
// The output word by word or piece by piece: the source lit by the attention of a step, and the candidates among which
// its pieces were chosen.

/** {node, draw(model), light(model, step, column)}; `point(step)`, `leave()`, `choose(step)`. */
function stepView({ point, leave, choose }) {
  const source = element("p", { class: "tokens", dir: "auto" });
  const output = element("p", {
    class: "tokens",
    role: "listbox",
    "aria-label": "Output, step by step",
    "aria-orientation": "horizontal",
    dir: "auto",
  });
  const heading = element("h3", {});
  const weights = element("p", { class: "weights", role: "status" });
  const entropy = element("p", { class: "entropy" });
  const candidates = element("div", {});
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
    places = model.columns.map((text) => element("span", isolated(text), shownPiece(text)));
    source.replaceChildren(...spaced(places, model.sourceStarts));
    options = model.rows.map((text, step) =>
      element(
        "span",
        {
          ...isolated(text),
          role: "option",
          tabindex: "-1",
          class: model.firstOf[step] < (model.forced ?? 0) ? "forced" : null,
          on: { pointerenter: () => point(step), click: () => choose(step) },
        },
        shownPiece(text),
      ),
    );
    output.replaceChildren(
      ...spaced(
        options,
        model.groups.map(([piece]) => piece),
      ),
    );
  }

  /** Show a step, a row of the heat map, and the weight of a column of it first. */
  function light(model, step, column) {
    at = model.step; // hovering does not move it
    options.forEach((option, number) => {
      option.setAttribute("aria-selected", String(number === step));
      option.classList.toggle("ahead", number > step);
      option.tabIndex = number === at ? 0 : -1;
    });
    places.forEach((place, k) => place.style.setProperty("--w", (model.weights?.[step][k] ?? 0).toFixed(4)));
    const unit = model.unit === "words" ? "Word" : "Piece";
    heading.replaceChildren(`${unit} `, element("span", { class: "count" }, String(step + 1)), ` of ${options.length}`);
    previous.disabled = at <= 0;
    next.disabled = at >= options.length - 1;
    weights.replaceChildren(...weightsInWords(model, step, column));
    entropy.replaceChildren(...entropyInWords(model, step));
    candidates.replaceChildren(...model.groups[step].map((_, k) => candidatesOf(model, model.firstOf[step] + k)));
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

/** The source word that is pointed at, and those with most weight. */
function weightsInWords(model, step, column) {
  if (!model.weights) return ["This system has no attention: every step sees the same vector."];
  const pointed = ([, place]) => place === column;
  const best = model.weights[step]
    .map((weight, place) => [weight, place])
    .sort((a, b) => pointed(b) - pointed(a) || b[0] - a[0])
    .filter(([weight], k) => !k || (k < 3 && weight >= 0.005));
  return [
    element("bdi", { class: "word" }, model.rows[step]),
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
  const first = model.firstOf[step];
  return [
    "Entropy ",
    value(mean(model.entropies.slice(first, first + model.groups[step].length)), "entropy"),
    " bits here, ",
    value(mean(model.entropies), "mean-entropy"),
    " on average; 0 is one source piece, ",
    Math.log2(model.positions).toFixed(2),
    " all alike.",
  ];
}

/** The candidates of a piece of the output. */
function candidatesOf(model, place) {
  const { output } = model;
  const piece = model.targetPieces[place];
  const shown = model.unit === "pieces" ? (candidate) => candidate : asWritten(shownPiece(wordSoFar(model, place)));
  const listed = output.steps[place] ?? [];
  const rows = listed.some(([candidate]) => candidate === piece)
    ? listed
    : [...listed, [piece, output.chosen[place] ?? null]];
  const branched = (text, candidate) =>
    model.branch && candidate !== piece
      ? element("button", { type: "button", on: { click: () => model.branch(place, candidate) } }, text)
      : text;
  const item = ([candidate, probability]) =>
    element(
      "li",
      { class: candidate === piece ? "chosen" : null },
      branched(element("bdi", {}, shown(candidate)), candidate),
      element("span", { class: "bar", "aria-hidden": "true", css: { "--w": probability ?? 0 } }),
      element("span", { class: "count" }, probability === null ? "–" : probability.toFixed(3)),
      candidate === piece ? element("span", { class: "tag" }, "chosen") : null,
    );
  return element("ol", { class: "candidates", "aria-label": `Candidates of piece ${place + 1}` }, rows.map(item));
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

/** The place among `count` that an arrow key, Home or End leads to; the same for Enter; null for other keys. */
function movedBy(key, at, count) {
  const to = {
    ArrowRight: at + 1,
    ArrowDown: at + 1,
    ArrowLeft: at - 1,
    ArrowUp: at - 1,
    Home: 0,
    End: count - 1,
    Enter: at,
    " ": at,
  }[key];
  return to === undefined ? null : Math.min(Math.max(to, 0), count - 1);
}
