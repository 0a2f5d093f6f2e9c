"use strict";
// The explorer: one sentence under one system, its attention as heat map and links, and its output step by step.

const SHARPEST = -3; // log2 of the temperature at the ends of the slider
const FLATTEST = 3;

function attentionPanel(report, go) {
  const names = report.systems.map((system) => system.name);
  let model = null;
  let drawn = "";
  let painted = "";
  const toStep = (step) => go({ step: String(step + 1) }, { replace: true });
  const onRow = {
    point: preview,
    leave: () => preview(),
    choose(row, column) {
      if (model.step !== row) toStep(row);
      preview(row, column);
    },
  };
  const hasGold = report.sentences.some((sentence) => sentence.gold?.length);
  const controls = {
    picker: sentencePicker(report.sentences, (id) => go({ attention: String(id), step: "" })),
    system: dropDown(
      "System",
      names.map((name) => [name, name]),
      (system) => go({ system, step: "" }),
    ),
    view: dropDown("Layer and head", [], (view) => go({ view })),
    unit: segments(
      "Show",
      [
        ["words", "words"],
        ["pieces", "pieces"],
      ],
      (unit) => go({ unit, step: String(stepIn(model, unit) + 1) }),
    ),
    sharpness: slider(
      "Temperature",
      { min: SHARPEST, max: FLATTEST, step: 0.25, say: (power) => describeTemperature(temperatureOf(power)) },
      (power) => go({ temperature: temperatureOf(power) === 1 ? "" : String(temperatureOf(power)) }, { replace: true }),
    ),
  };
  const steps = stepView({ point: (step) => preview(step), leave: () => preview(), choose: toStep });
  const heat = heatMap(onRow);
  const heading = element("h3", { class: "sentence-title" });
  const translations = element("div", { class: "translations" });
  const legend = element("p", { class: "note" });
  const picture = figure("Heat map: rows are the output, columns the source", heat.node, legend);
  const none = element("p", { class: "hint", hidden: true }, "This system has no attention, so there is no heat map.");
  const body = [
    controls.picker.node,
    element(
      "div",
      { class: "controls" },
      [controls.system, controls.view, controls.unit, controls.sharpness].map(({ node }) => node),
    ),
    heading,
    steps.node,
    none,
    picture,
    element("h3", {}, "The same sentence under every system"),
    element(
      "p",
      { class: "note" },
      "Underlined words differ from the reference; in the reference, those that the chosen system lacks.",
    ),
    translations,
  ];

  function update(state) {
    model = exploredSentence(report, state);
    const { sentence, system, view, unit, temperature } = model;
    const key = [sentence.id, system, view, unit, window.innerWidth].join("\n");
    if (key !== drawn) drawAll();
    if (`${key}\n${temperature}` !== painted && model.weights) {
      heat.paint(model);
    }
    [drawn, painted] = [key, `${key}\n${temperature}`];
    controls.unit.set(unit);
    controls.sharpness.set(Math.log2(temperature));
    preview();
    return `sentence ${sentence.id}, ${system}`;
  }

  function drawAll() {
    const { sentence, system } = model;
    const own = report.systems.find(({ name }) => name === system).views;
    controls.picker.set(sentence);
    controls.system.set(system);
    controls.view.set(
      model.view,
      own.map((view) => [view, view]),
    );
    controls.view.node.hidden = own.length < 2;
    heading.replaceChildren(
      `Sentence ${sentence.id}`,
      element("small", {}, ` ${sentence.length} ${report.languages.unit}`),
      isLive(report) ? element("a", { class: "change", href: liveLink(sentence, system) }, "Change it") : "",
    );
    steps.draw(model);
    picture.hidden = !model.weights;
    none.hidden = Boolean(model.weights);
    controls.unit.node.hidden = !model.weights;
    controls.sharpness.node.hidden = !model.weights || model.hard;
    if (model.weights) heat.draw(model, picture.clientWidth);
    legend.textContent = legendOf(model, hasGold);
    const hadFocus = translations.contains(document.activeElement);
    translations.replaceChildren(...translationsOf(report, sentence, system));
    if (hadFocus) translations.querySelector("[aria-current] a").focus({ preventScroll: true });
  }

  /** Light the step under the pointer, or that of the address, and a column of its row. */
  function preview(step = model.step, column = null) {
    steps.light(model, step, column);
    if (model.weights) heat.light(step, model.weights[step]);
  }

  return { body, update };
}

function temperatureOf(power) {
  return Number((2 ** power).toPrecision(3));
}

function describeTemperature(temperature) {
  if (temperature === 1) return "1 (as trained)";
  return `${temperature} (${temperature < 1 ? "sharper" : "flatter"})`;
}

/** The sentence and the system that a state names. */
function exploredSentence(report, state) {
  const sentence = report.sentences.find(({ id }) => String(id) === state.attention) ?? report.sentences[0];
  const first = report.systems.find((system) => system.views.length) ?? report.systems[0];
  return explored(report, sentence, report.systems.find(({ name }) => name === state.system) ?? first, state);
}

/** All that is shown of a sentence under a system: a value computed from these alone. */
function explored(report, sentence, system, state) {
  const output = sentence.systems[system.name];
  const view = choice(state, "view", system.views);
  const unit = choice(state, "unit", ["words", "pieces"]);
  const temperature = numberIn(state, "temperature", 2 ** SHARPEST, 2 ** FLATTEST, 1);
  const sourceWords = output.source_words; // systems may have different tokenizers
  const [sourcePieces, targetPieces] = [sourceWords.flat(), output.target_words.flat()];
  const encoded = output.attention[view];
  const stored = typeof encoded === "string";
  const trained = stored ? decodeWeights(encoded, targetPieces.length) : (encoded ?? null);
  const matrix = trained && trained.map((row) => sharpened(row, temperature));
  const joined = unit === "words";
  const ofOnePiece = targetPieces.map((piece) => [piece]);
  const groups = joined ? output.target_words : ofOnePiece; // a row of the heat map, and a step, for each
  const links = sharedGold(sentence, output.target_words, report.languages.target_unit);
  return {
    sentence,
    system: system.name,
    output,
    view,
    unit,
    targetUnit: report.languages.target_unit,
    temperature,
    sourceStarts: joined ? sourceWords.map(([piece]) => piece) : sourcePieces,
    targetPieces,
    groups,
    matrix,
    hard: system.hard,
    weights: matrix && joined ? joinedWeights(matrix, output.target_words, sourceWords) : matrix,
    columns: joined ? sourceWords.map(wordText) : sourcePieces,
    rows: joined ? output.target_words.map(wordText) : targetPieces,
    firstOf: groups.map((_, k) => groups.slice(0, k).flat().length), // the first piece of each row
    entropies: matrix ? matrix.map(entropyBits) : [],
    positions: sourcePieces.length,
    links, // gold ones, of words
    gold: joined ? links : linksOfPieces(links, sourceWords, output.target_words),
    sourceRtl: report.languages.source_rtl,
    step: Math.round(numberIn(state, "step", 1, groups.length, 1)) - 1,
  };
}

/** The step in another unit that has the first piece of the current one. */
function stepIn({ output, firstOf, step }, unit) {
  return unit === "pieces" ? firstOf[step] : wordOfPiece(output.target_words)[firstOf[step]];
}

/**
 * Gold links as [source word, target word]. They join the source to the reference, and the rows are the output: a link is
 * shown if the output has its word of the reference too, in the same order.
 */
function sharedGold({ gold, reference }, targetWords, unit) {
  if (!gold) return [];
  const parts = (text) =>
    unit === "characters" ? Array.from(text.replace(/\s/g, "")) : text.split(/\s+/).filter(Boolean);
  const output = targetWords.flatMap((pieces, word) => parts(wordText(pieces)).map((text) => [text, word]));
  const common = new Map(
    commonPlaces(
      parts(reference),
      output.map(([text]) => text),
    ),
  );
  return gold.filter(([, place]) => common.has(place)).map(([source, place]) => [source, output[common.get(place)][1]]);
}

/** Links of words as links of all their pieces. */
function linksOfPieces(links, sourceWords, targetWords) {
  const places = (words, word) => wordOfPiece(words).flatMap((own, piece) => (own === word ? [piece] : []));
  return links.flatMap(([source, target]) =>
    places(sourceWords, source).flatMap((column) => places(targetWords, target).map((row) => [column, row])),
  );
}

function legendOf({ links, unit, sentence, hard }, hasGold) {
  const scale = hard
    ? "Each step looks at one position alone, which no temperature would change."
    : "An empty cell is 0, full color is 1; a row sums to 1.";
  const joined =
    unit === "words" ? " A word's weight is the sum over its source pieces, averaged over its target pieces." : "";
  if (!hasGold) return scale + joined;
  return `${scale}${joined} ${goldInWords(sentence.gold, links.length)}`;
}

/** Which of a sentence's gold links are framed. */
function goldInWords(gold, shown) {
  if (!gold?.length) return "This sentence has no gold links.";
  return `Frames are gold links, which people drew between the source and the reference: ${shown} of ${gold.length} end at a reference word that this output has, too.`;
}

function translationsOf(report, sentence, chosen) {
  const row = (current, ...cells) =>
    element(
      "div",
      { class: "translation", "aria-current": current ? "true" : null },
      cells.map((cell) => element("div", {}, cell)),
    );
  const reference = marked(sentence.reference, sentence.systems[chosen].text);
  return [
    row(false, "Source", plainText(sentence.source), ""),
    row(false, "Reference", reference, report.score),
    ...report.systems.map(({ name }) => {
      const output = sentence.systems[name];
      const link = explorerLink(sentence, name, element("bdi", {}, name));
      const text = [marked(output.text, sentence.reference), " ", failureTags(output)];
      return row(name === chosen, link, text, decimal(output.scores[report.score]));
    }),
  ];
}
