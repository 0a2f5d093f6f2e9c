// The film of learning: the attention of every system to the same sentences, from validation to validation.

import { decimal, dropDown, element, figure, plainText, slider, unitSwitch } from "../../web/parts/dom.js";
import { heatMap } from "../../web/parts/heatmap.js";
import { decodeWeights, entropyBits, joinedWeights, mean, wordText } from "../../web/parts/numbers.js";
import { pairList } from "./rows.js";
import { choice, numberIn } from "./state.js";

/**
 * @typedef {object} Screen a sentence under a system
 * @property {Film} film
 * @property {Filmed} filmed
 * @property {ReturnType<typeof heatMap>} heat
 * @property {HTMLElement} note
 * @property {string} rows
 * @property {number[][]} weights
 */

const FRAME_TIME = 150; // milliseconds, less than the address waits before it is written

/** The sentences that any system was filmed with, as [source, reference]. @param {ReportData} report @returns {string[][]} */
export function filmedSentences(report) {
  const all = report.systems.flatMap(({ film }) => film?.sentences ?? []);
  return [...new Map(all.map(({ source, reference }) => [`${source}\n${reference}`, [source, reference]])).values()];
}

/** @param {ReportData} report @param {Go} go @returns {Panel} */
export function filmPanel(report, go) {
  const sentences = filmedSentences(report);
  const updates = [...new Set(report.systems.flatMap(({ film }) => film?.updates ?? []))].sort((a, b) => a - b);
  const last = updates.length - 1;
  /** @type {Screen[]} */
  let screens = [];
  let drawn = "";
  let lit = { at: -1, rows: "" };
  let place = last;
  let playing = 0;
  /** @param {number} to */
  const show = (to) => go({ update: String(updates[Math.min(Math.max(to, 0), last)]) }, { replace: true });
  const play = element("button", { on: { click: () => (playing ? pause() : start()), keydown: onKey } });
  const controls = {
    sentence: dropDown(
      "Sentence",
      sentences.map(([source], number) => [String(number + 1), source]),
      (film) => go({ film }),
    ),
    unit: unitSwitch((unit) => go({ unit })),
    update: slider("Update", { min: 0, max: last, step: 1, say: (to) => updates[to]?.toLocaleString("en") }, show),
  };
  const texts = element("div");
  const grid = element("div", { class: "film" });
  const absent = element("div");
  const row = element("div", { class: "controls" }, [
    ...[controls.sentence, controls.unit, controls.update].map(({ node }) => node),
    play,
  ]);
  const legend = element(
    "p",
    { class: "note" },
    "Rows are the words of the reference, which every system read in place of its own output, columns those of the source. An empty cell is 0, full color is 1.",
  );
  const body = sentences.length ? [row, texts, grid, absent, legend] : [absent];
  pause();

  function pause() {
    clearInterval(playing);
    playing = 0;
    play.textContent = "▶ Play";
  }

  function start() {
    if (place === last) show(0);
    playing = setInterval(() => (place < last && grid.getClientRects().length ? show(place + 1) : pause()), FRAME_TIME);
    play.textContent = "❚❚ Pause";
  }

  /** @param {KeyboardEvent} event */
  function onKey({ key, altKey, metaKey }) {
    if (altKey || metaKey) return; // the browser's keys
    if (key === "ArrowLeft" || key === "ArrowRight") show(place + (key === "ArrowLeft" ? -1 : 1));
  }

  /** @param {State} state */
  function update(state) {
    const number = numberIn(state, "film", 1, Math.max(sentences.length, 1), 1) - 1;
    const unit = choice(state, "unit", ["words", "pieces"]);
    const wanted = numberIn(state, "update", updates[0], updates[last], updates[last]);
    place = updates.findLastIndex((each) => each <= wanted);
    controls.sentence.set(String(number + 1));
    controls.unit.set(unit);
    controls.update.set(place);
    const key = [number, unit, window.innerWidth].join();
    if (key !== drawn) drawAll(number, unit);
    drawn = key;
    screens.forEach((screen) => paint(screen, unit));
    light(lit.at, lit.rows);
    return sentences.length ? `sentence ${number + 1}, update ${updates[place]}` : "";
  }

  /** Draw a sentence under every system. @param {number} number @param {string} unit */
  function drawAll(number, unit) {
    const { langs } = report;
    const [source, reference] = sentences[number] ?? [];
    texts.replaceChildren(
      pairList([
        ["Source", plainText(source, langs.source)],
        ["Reference", plainText(reference, langs.target)],
      ]),
    );
    screens = [];
    grid.replaceChildren();
    absent.replaceChildren();
    for (const { name, views, film } of report.systems) {
      const filmed = film?.sentences.find((each) => each.source === source && each.reference === reference);
      const why = views.length ? "no film of this sentence in its run." : "no attention, so there is no film.";
      if (!film || !filmed) {
        absent.append(element("p", { class: "hint" }, element("bdi", {}, name), `: ${why}`));
        continue;
      }
      const [rows, columns] = [filmed.target_words, filmed.source_words].map((words) =>
        unit === "words" ? words.map(wordText) : words.flat(),
      );
      const own = rows.join("\n");
      const here = (/** @type {number} */ at) => light(at, own);
      const heat = heatMap({ point: here, leave: () => here(-1), choose: here });
      const note = element("p", { class: "note" });
      const picture = figure(element("bdi", {}, name), heat.node, note);
      grid.append(picture);
      const rtl = report.languages.source_rtl;
      heat.draw({ system: name, unit, rows, columns, sourceRtl: rtl, langs, gold: [] }, picture.clientWidth);
      screens.push({ film, filmed, heat, note, rows: own, weights: [] });
    }
  }

  /** Paint the last frame that is not after the chosen update. @param {Screen} screen @param {string} unit */
  function paint(screen, unit) {
    const { film, filmed, heat, note } = screen;
    const frame = Math.max(
      film.updates.findLastIndex((each) => each <= updates[place]),
      0,
    );
    const matrix = decodeWeights(filmed.frames[frame], filmed.target_words.flat().length);
    screen.weights = unit === "words" ? joinedWeights(matrix, filmed.target_words, filmed.source_words) : matrix;
    heat.paint(screen);
    const entropy = `mean entropy ${decimal(mean(matrix.map(entropyBits)), 2)} bits`;
    const scores = [...film.scores[frame].split("  "), entropy].join(", ");
    note.textContent = `Update ${film.updates[frame].toLocaleString("en")}: ${scores}`;
  }

  /** Light a row in all systems that have the same rows. @param {number} at @param {string} rows */
  function light(at, rows) {
    lit = { at, rows };
    for (const { heat, rows: own, weights } of screens) {
      if (own === rows) heat.light(at, weights[at]);
      else heat.light(-1);
    }
  }

  return { body, update };
}
