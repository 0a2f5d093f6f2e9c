// A sentence that a person types, under every system that translates in this page; and what follows from a change: of a
// word, of weights, of the beginning. All of it is in the address.

import {
  announcer,
  decimal,
  dropDown,
  element,
  field,
  labelled,
  plainText,
  refill,
  segments,
  unitSwitch,
} from "../../web/parts/dom.js";
import { modelOf } from "../../web/parts/model.js";
import { marked } from "../../web/parts/numbers.js";
import { stepView } from "../../web/parts/steps.js";
import { beamView } from "./beam.js";
import { formatClamps, parseClamps } from "./changes.js";
import { weightsView } from "./clamp.js";
import { coverageView } from "./coverage.js";
import { liveReading, translators } from "./engines.js";
import { leaveView, withoutEachWord } from "./leave.js";
import { translationRow } from "./rows.js";
import { choice, formatState, numberIn } from "./state.js";
import { statesView } from "./states.js";

const BEAMS = ["5", "1", "2", "3", "10"];
const LOOKS = [
  ["weights", "Attention"],
  ["beam", "Beam"],
  ["leave", "Leave a word out"],
  ["cover", "Coverage"],
  ["states", "States"],
];

/**
 * @typedef {import("./engines.js").Wanted} Wanted
 * @typedef {{system: string, text: string, wanted: Wanted}} LiveRequest
 */

/** What makes a request differ from another. @param {LiveRequest} request */
function requestKey({ system, text, wanted: { beam, prefix, clamps } }) {
  return [system, text, beam, prefix.join(" "), formatClamps(clamps)].join("\n");
}

/** @param {ReportData} report @param {Go} go @returns {Panel} */
export function livePanel(report, go) {
  const example = (report.sentences.find(({ length }) => Number(length) >= 5) ?? report.sentences[0]).source;
  const { langs } = report;
  const names = report.systems.map(({ name }) => name);
  const live = names.filter((name) => typeof report.engines[name] !== "string");
  const first = report.systems.find(({ name, views }) => live.includes(name) && views.length)?.name ?? live[0] ?? "";
  const load = translators(report);
  /** @type {Map<string, Answer>} */
  const answers = new Map();
  /** @type {State} */
  let state = { panel: "translate" };
  /** @type {Model | null} */
  let model = null;
  let read = ""; // the text of the model
  let begun = ""; // the pieces that the field for the beginning stands for
  let turn = 0;
  /** @type {number | undefined} */
  let pointed;
  let drawn = "";

  // --- what is shown ------------------------------------------------------------------------------------------------

  const text = field("textarea", { rows: "2", lang: langs.source }, (line) => {
    go({ ...UNCHANGED, translate: oneLine(line) || BLANK }, { replace: true });
  });
  const begin = field("input", { type: "text", lang: langs.target }, beginWith);
  const controls = {
    beam: dropDown(
      "Beam",
      [...BEAMS].sort((a, b) => Number(a) - Number(b)).map((beam) => [beam, beam === "1" ? "1 (greedy)" : beam]),
      (beam) => go({ beam }),
    ),
    unit: unitSwitch((unit) => go({ unit, step: "", cell: "" })),
  };
  const changes = element("p", { class: "changes" });
  const list = element("div", { class: "translations" });
  const note = element("p", { class: "note" });
  const problem = element("p", { class: "notice" });
  const spoken = announcer();
  function toStep(/** @type {number} */ step) {
    pointed = undefined;
    go({ step: String(step + 1), cell: "" }, { replace: true });
  }
  const steps = stepView({ point: (step) => light(step), leave: () => light(undefined), choose: toStep });
  const look = segments("Look at", LOOKS, (chosen) => go({ look: chosen }));
  const views = {
    weights: weightsView(go),
    beam: beamView((prefix) => go({ prefix: prefix.join(" "), step: "" }), langs),
    leave: leaveView(langs),
    cover: coverageView(),
    states: statesView(),
  };
  const below = element(
    "div",
    {},
    steps.node,
    element("div", { class: "look" }, look.node),
    Object.values(views).map(({ node }) => node),
  );
  const body = live.length
    ? [
        labelled(`Sentence (${report.languages.source})`, text),
        element(
          "div",
          { class: "controls" },
          labelled("The translation begins with", begin),
          controls.beam.node,
          controls.unit.node,
        ),
        list,
        note,
        changes,
        problem,
        spoken.node,
        below,
      ]
    : [element("p", { class: "hint" }, "No system of this report translates in the page:"), list];

  // --- requests -----------------------------------------------------------------------------------------------------

  const chosenSystem = () => (live.includes(state.system) ? state.system : first);
  const source = () => (state.translate || example).slice(0, LONGEST_TEXT);
  /** @returns {LiveRequest} */
  const free = (/** @type {string} */ system, sentence = source()) => ({
    system,
    text: sentence,
    wanted: { beam: Number(choice(state, "beam", BEAMS)), prefix: [], clamps: new Map() },
  });

  /** The request of what is shown in full: with the changes. @returns {LiveRequest} */
  function changed() {
    const request = free(chosenSystem());
    const prefix = (state.prefix ?? "").split(" ").filter(Boolean);
    return { ...request, wanted: { ...request.wanted, prefix, clamps: parseClamps(state.clamps ?? "") } };
  }

  /** Each word, and the request of the sentence without it. */
  const shortened = () => {
    const left = withoutEachWord(source(), report.languages.unit);
    return left.map(({ word, rest }) => ({ word, request: free(chosenSystem(), rest) }));
  };

  /** Answer the requests one by one; typing goes on between them, and makes those that are left obsolete. */
  async function answer(/** @type {LiveRequest[]} */ requests) {
    turn += 1;
    const own = turn;
    for (const request of requests) {
      const key = requestKey(request);
      if (answers.has(key)) continue;
      await new Promise((resume) => setTimeout(resume)); // what was typed is shown first
      if (own !== turn) return;
      answers.set(key, await attempt(request));
      draw();
    }
  }

  /** @param {LiveRequest} request @returns {Promise<Answer>} */
  async function attempt({ system, text: sentence, wanted }) {
    try {
      const translator = await load(system);
      const size = translator.read(sentence).ids.length + 1; // with the end symbol
      const clamps = new Map([...wanted.clamps].filter(([, row]) => row.length === size)); // others are of another text
      return { reading: liveReading(translator, sentence, { ...wanted, clamps }, report.languages) };
    } catch (error) {
      return { problem: error instanceof Error ? error.message : String(error) };
    }
  }

  /** @param {string} beginning */
  async function beginWith(beginning) {
    const { target } = await load(chosenSystem());
    const pieces = target.encode(beginning.toWellFormed()).map((id) => target.pieces[id]);
    begun = pieces.join(" ");
    go({ prefix: begun, step: "", cell: "" }, { replace: true });
  }

  // --- drawing ------------------------------------------------------------------------------------------------------

  /** @param {State} next */
  function update(next) {
    state = next;
    if (oneLine(text.value).trim() !== source().trim()) text.value = source();
    controls.beam.set(choice(state, "beam", BEAMS));
    controls.unit.set(shownUnit());
    if (live.length && source().trim()) {
      const others = live.filter((name) => name !== chosenSystem()).map((name) => free(name));
      const more = lookedAt() === "leave" ? shortened().map(({ request }) => request) : [];
      const requests = [changed(), free(chosenSystem()), ...others, ...more];
      if (answers.size > MOST_ANSWERS) answers.clear();
      void answer(requests);
    }
    draw();
    return live.length ? chosenSystem() : "";
  }

  const shownUnit = () => choice(state, "unit", ["words", "pieces"]);
  const lookedAt = () => /** @type {keyof typeof views} */ (choice(state, "look", Object.keys(views)));

  function draw() {
    const request = changed();
    const found = answers.get(requestKey(request));
    const blank = !source().trim() || found?.reading?.chosen.length === 0; // a text of invisible characters
    const plain = answers.get(requestKey(free(request.system)))?.reading;
    const legend = `On the right the log-probability. Underlined words differ from those of ${request.system}.`;
    note.textContent = blank ? "" : legend;
    refill(
      list,
      names.flatMap((name) => rows(name, request, plain)),
    );
    problem.textContent = blank ? "Type a sentence." : (found?.problem ?? cutNote(found?.reading));
    spoken.say(problem.textContent, " ", plainText(found?.reading?.text ?? "", report.langs.target));
    showBeginning(request.wanted.prefix);
    if (blank) refill(changes, []);
    else showChanges(request); // also those that are the reason of a problem
    below.hidden = blank || Boolean(found?.problem) || !(found?.reading || model); // nothing to show before an answer
    if (below.hidden) return;
    const isOther = read !== request.text || model?.system !== request.system;
    below.inert = !found?.reading && isOther; // what is shown is no change of this sentence
    if (!found?.reading) return; // until it is there, what was there stays
    drawReading(found.reading, request);
    look.set(lookedAt());
    for (const [name, view] of Object.entries(views)) view.node.hidden = name !== lookedAt();
    if (!model) return;
    if (lookedAt() === "beam") views.beam.draw(found.reading);
    if (lookedAt() === "leave") {
      const left = shortened().map((each) => ({ word: each.word, ...answers.get(requestKey(each.request)) }));
      views.leave.draw(left, found.reading);
    }
    if (lookedAt() === "cover") views.cover.draw(model);
    if (lookedAt() === "states") views.states.draw(model, found.reading);
  }

  /** Write a beginning that does not come from the field itself. @param {string[]} given */
  function showBeginning(given) {
    if (begun === given.join(" ")) return;
    begun = given.join(" ");
    const pieces = given.filter((piece) => piece !== "</s>");
    begin.value = pieces.join("").replaceAll("▁", " ").trim();
  }

  /** @param {LiveReading} reading @param {LiveRequest} request */
  function drawReading(reading, request) {
    const { source_rtl: sourceRtl, target_unit: targetUnit } = report.languages;
    const step = Math.round(numberIn(state, "step", 1, Infinity, 1)) - 1;
    read = request.text;
    model = {
      ...modelOf(reading, { system: request.system, unit: shownUnit(), targetUnit, sourceRtl, langs, step }),
      forced: request.wanted.prefix.length,
      held: request.wanted.clamps,
      branch: (place, piece) => {
        const prefix = [...reading.translation.pieces.slice(0, place), piece];
        go({ prefix: prefix.join(" "), step: "" });
      },
    };
    const key = [requestKey(request), model.unit, window.innerWidth].join("\n");
    if (key !== drawn) {
      steps.draw(model);
      if (model.weights) views.weights.draw(model);
      drawn = key;
      pointed = undefined;
    }
    views.weights.show(model, state.cell);
    light(pointed);
  }

  /** Light the step that is pointed at, or that of the address. @param {number | undefined} at */
  function light(at) {
    pointed = at;
    if (!model) return;
    const step = pointed ?? model.step;
    steps.light(model, step, null);
    views.weights.light(model, step);
  }

  /** One system of the list: its translation, or why it has none. @param {string} name @param {LiveRequest} request @param {LiveReading} [plain] */
  function rows(name, request, plain) {
    const current = name === request.system;
    const row = (/** @type {unknown[]} */ ...cells) => translationRow(current, ...cells);
    const reason = report.engines[name];
    if (typeof reason === "string")
      return [row(element("bdi", {}, name), element("span", { class: "note" }, `Not in this page. ${reason}`), "")];
    const { reading, problem: failed } = answers.get(requestKey(free(name))) ?? {};
    const href = formatState({ ...state, ...UNCHANGED, translate: state.translate ?? "", system: name });
    const link = element("a", { href }, element("bdi", {}, name));
    const own = (/** @type {LiveReading} */ each, /** @type {string} */ other, /** @type {unknown} */ head) =>
      row(
        [head, element("small", {}, ` ${each.milliseconds.toFixed(0)} ms`)],
        marked(each.text, other, langs.target),
        decimal(each.translation.logProb),
      );
    if (!source().trim()) return [row(link, "", "")];
    if (!reading) return [row(link, failed ?? "…", "")];
    const found = [own(reading, plain?.text ?? reading.text, link)];
    const isChanged = request.wanted.prefix.length > 0 || request.wanted.clamps.size > 0;
    if (!current || !isChanged) return found;
    const after = answers.get(requestKey(request));
    const waiting = row("changed", after ? "" : "…", ""); // it keeps its place: nothing moves under a finger
    return [...found, after?.reading ? own(after.reading, reading.text, "changed") : waiting];
  }

  /** Show the changes, each with a button that takes it back. @param {LiveRequest} request */
  function showChanges({ wanted: { prefix, clamps } }) {
    const button = (/** @type {string} */ label, /** @type {Record<string, string>} */ values) =>
      element("button", { type: "button", on: { click: () => go(values) } }, label);
    const given = prefix.length ? [button("The beginning is given ×", { prefix: "" })] : [];
    const weights = `${clamps.size} ${clamps.size > 1 ? "steps have" : "step has"} given weights ×`;
    refill(changes, clamps.size ? [...given, button(weights, { clamps: "" })] : given);
  }

  return { body, update };
}

/** The keys of a state that belong to one translation. */
const UNCHANGED = { prefix: "", clamps: "", step: "", cell: "" };
const BLANK = " "; // an empty text would be left out of the address, which then means the example
const LONGEST_TEXT = 20_000;
const MOST_ANSWERS = 200;

/** A text as one line, of which an address can be made. @param {string} text */
function oneLine(text) {
  return text.replace(/[\r\n]+/g, " ").toWellFormed();
}

/** @param {LiveReading} [reading] */
function cutNote(reading) {
  return reading?.translation.cut ? "Too long: only its beginning is read." : "";
}
