// The explorer: one sentence under one system, its attention as heat map and links, and its output step by step.

import { decimal, dropDown, element, plainText, refill, setDisabled, slider, unitSwitch } from "../../web/parts/dom.js";
import { modelOf, stepIn } from "../../web/parts/model.js";
import { commonPlaces, marked, unitsOf, wordText } from "../../web/parts/numbers.js";
import { translationView } from "../../web/parts/view.js";
import { explorerLink, failureTags, translationRow } from "./rows.js";
import { choice, formatState, numberIn } from "./state.js";

const SHARPEST = -3; // log2 of the temperature at the ends of the slider
const FLATTEST = 3;

/** @param {ReportData} report @param {Go} go @returns {Panel} */
export function attentionPanel(report, go) {
  /** @type {ReturnType<typeof exploredSentence>} */
  let model;
  let drawn = "";
  const names = report.systems.map(({ name }) => name);
  const hasGold = report.sentences.some(({ systems }) => systems[names[0]].gold.length);
  const isLive = Object.values(report.engines).some((each) => typeof each !== "string");
  const choose = (/** @type {string} */ id) => go({ attention: id, step: "" });
  const beside = (/** @type {number} */ offset) => report.sentences[report.sentences.indexOf(model.sentence) + offset];
  const stepBy = (/** @type {number} */ offset, /** @type {string} */ label) => {
    const click = () => beside(offset) && choose(String(beside(offset).id));
    return element("button", { type: "button", on: { click } }, label);
  };
  const [previous, next] = [stepBy(-1, "Previous"), stepBy(1, "Next")];
  const controls = {
    sentence: dropDown(
      "Sentence",
      report.sentences.map(({ id, source }) => [String(id), `${id}: ${source}`]),
      choose,
    ),
    system: dropDown("System", names, (system) => go({ system, step: "" })),
    view: dropDown("Layer and head", [], (view) => go({ view })),
    unit: unitSwitch((unit) => go({ unit, step: String(stepIn(model, unit) + 1) })),
    sharpness: slider(
      "Temperature",
      { min: SHARPEST, max: FLATTEST, step: 0.25, say: (power) => describeTemperature(temperatureOf(power)) },
      (power) => go({ temperature: temperatureOf(power) === 1 ? "" : String(temperatureOf(power)) }, { replace: true }),
    ),
  };
  const view = translationView((step) => go({ step: String(step + 1) }, { replace: true }));
  const heading = element("h3", {});
  const translations = element("div", {});
  const note = "Underlined words differ from the reference; in the reference, those that the chosen system lacks.";
  const body = [
    element(
      "div",
      { class: "controls" },
      element("div", { class: "stepper" }, controls.sentence.node, previous, next),
      [controls.system, controls.view, controls.unit, controls.sharpness].map(({ node }) => node),
    ),
    heading,
    ...view.nodes,
    element("h3", {}, "The same sentence under every system"),
    element("p", { class: "note" }, note),
    translations,
  ];

  /** @param {State} state */
  function update(state) {
    model = exploredSentence(report, state);
    const { sentence, system, unit, temperature } = model;
    const key = [sentence.id, system, model.view, unit, window.innerWidth].join("\n");
    if (key !== drawn) drawAll();
    view.show(model);
    drawn = key;
    controls.unit.set(unit);
    controls.sharpness.set(Math.log2(temperature));
    return `sentence ${sentence.id}, ${system}`;
  }

  function drawAll() {
    const { sentence, system, views } = model;
    controls.sentence.set(String(sentence.id));
    setDisabled(previous, !beside(-1));
    setDisabled(next, !beside(1));
    controls.system.set(system);
    controls.view.set(model.view, views);
    controls.view.node.hidden = views.length < 2;
    const live = formatState({ panel: "translate", translate: sentence.source.toWellFormed(), system });
    heading.replaceChildren(
      `Sentence ${sentence.id}`,
      element("small", {}, ` ${sentence.length} ${report.languages.unit}`),
      isLive ? element("a", { class: "change", href: live }, "Change it") : "",
    );
    controls.unit.node.hidden = !model.weights;
    controls.sharpness.node.hidden = !model.weights || model.hard;
    view.draw(model, hasGold ? ` ${goldInWords(sentence.systems[system].gold.length, model.links.length)}` : "");
    refill(translations, translationsOf(report, sentence, system));
  }

  return { body, update };
}

/** @param {number} power */
function temperatureOf(power) {
  return Number((2 ** power).toPrecision(3));
}

/** @param {number} temperature */
function describeTemperature(temperature) {
  if (temperature === 1) return "1 (as trained)";
  return `${temperature} (${temperature < 1 ? "sharper" : "flatter"})`;
}

/** What is shown of the sentence and the system that a state names. @param {ReportData} report @param {State} state */
function exploredSentence(report, state) {
  const sentence = report.sentences.find(({ id }) => String(id) === state.attention) ?? report.sentences[0];
  const first = report.systems.find((each) => each.views.length) ?? report.systems[0];
  const { name: system, views, hard } = report.systems.find(({ name }) => name === state.system) ?? first;
  const { source_rtl: sourceRtl, target_unit: targetUnit } = report.languages;
  const output = sentence.systems[system];
  const links = sharedGold(output, sentence.reference, targetUnit);
  const shown = modelOf(output, {
    system,
    hard,
    links,
    sourceRtl,
    targetUnit,
    langs: report.langs,
    view: choice(state, "view", views),
    unit: choice(state, "unit", ["words", "pieces"]),
    temperature: numberIn(state, "temperature", 2 ** SHARPEST, 2 ** FLATTEST, 1),
    step: Math.round(numberIn(state, "step", 1, Infinity, 1)) - 1,
  });
  return { ...shown, sentence, views, links };
}

/**
 * Gold links as [source word, target word]. They join the source to the reference, and the rows are the output: a link is
 * shown if the output has its word of the reference too, in the same order.
 *
 * @param {Pick<Read, "gold" | "target_words">} output
 * @param {string} reference
 * @param {string} unit
 * @returns {number[][]}
 */
export function sharedGold({ gold, target_words: targetWords }, reference, unit) {
  const output = targetWords.flatMap((pieces, word) => unitsOf(wordText(pieces), unit).map((text) => ({ text, word })));
  const texts = output.map(({ text }) => text);
  const common = new Map(commonPlaces(unitsOf(reference, unit), texts));
  return gold.flatMap(([source, place]) => {
    const found = common.get(place);
    return found === undefined ? [] : [[source, output[found].word]];
  });
}

/** Which of a sentence's gold links are framed. @param {number} all @param {number} shown */
function goldInWords(all, shown) {
  if (!all) return "This sentence has no gold links.";
  return `Frames are gold links between the source and the reference: ${shown} of ${all} end at a reference word that this output has, too.`;
}

/** @param {ReportData} report @param {Sentence} sentence @param {string} chosen */
function translationsOf(report, sentence, chosen) {
  const { langs } = report;
  const reference = marked(sentence.reference, sentence.systems[chosen].text, langs.target);
  return [
    translationRow(false, "Source", plainText(sentence.source, langs.source), ""),
    translationRow(false, "Reference", reference, report.score),
    ...report.systems.map(({ name }) => {
      const output = sentence.systems[name];
      const link = explorerLink(sentence, name, element("bdi", {}, name));
      const text = [marked(output.text, sentence.reference, langs.target), " ", failureTags(output)];
      return translationRow(name === chosen, link, text, decimal(output.scores[report.score]));
    }),
  ];
}
