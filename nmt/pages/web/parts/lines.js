// Text to type, a sentence on each line; its translations; and one of them step by step.

import { announcer, element, field, labelled, plainText, unitSwitch } from "./dom.js";
import { modelOf, readingOf, stepIn, unitOf } from "./model.js";
import { translationView } from "./view.js";

const EMPTY = "The translation appears here as you type.";
/** @type {Line} */
const NONE = { text: "", sourcePieces: [], pieces: [], candidates: [], probabilities: [], attention: null };

/**
 * The nodes of a page that translates what is typed. `translate(line, signal)` returns the translation of a line, or throws
 * an Error that says why there is none; it is called `pause` milliseconds after the last key, for each new line.
 *
 * @param {(line: string, signal: AbortSignal) => Promise<Line>} translate
 * @param {number} pause
 * @param {Langs} langs read whenever something is drawn
 * @param {number} most lines that are translated; others are left out
 */
export function linesPage(translate, pause, langs, most = Infinity) {
  /** Translations by source line: only changed lines are translated again. @type {Map<string, Line>} */
  const known = new Map();
  /** @type {Line[]} */
  let translations = [];
  let chosen = { line: 0, step: 0, unit: "words" };
  let timer = 0;
  let running = new AbortController();
  const source = field("textarea", { id: "source", rows: "3", placeholder: "Type or paste text" }, wait);
  const target = element("ol", { id: "target", class: "lines", "aria-label": "Translation" });
  const state = element("p", { id: "status", class: "notice" }, EMPTY);
  const spoken = announcer();
  const units = unitSwitch((unit) => choose({ unit, step: stepIn(model(), unit) }));
  const view = translationView((step) => {
    chosen = { ...chosen, step };
    view.show(model());
  });
  const below = element("div", { hidden: true }, element("div", { class: "controls" }, units.node), view.nodes);

  function wait() {
    clearTimeout(timer);
    timer = setTimeout(run, pause);
  }

  async function run() {
    running.abort();
    running = new AbortController();
    const { signal } = running;
    const every = source.value.trim() ? source.value.split("\n") : [];
    const lines = every.slice(0, most);
    const left = lines.length < every.length ? `Only the first ${most} lines are translated.` : "";
    const line = source.value.slice(0, source.selectionStart).split("\n").length - 1; // the one with the cursor
    state.textContent = lines.length ? "translating …" : EMPTY;
    const asked = [...new Set(lines)].map(async (each) => /** @type {const} */ ([each, await answer(each, signal)]));
    const answers = new Map(await Promise.all(asked));
    if (signal.aborted) return;
    for (const each of known.keys()) if (!answers.has(each)) known.delete(each);
    translations = lines.map((each) => answers.get(each) ?? NONE);
    state.textContent = lines.length ? left : EMPTY;
    target.replaceChildren(...translations.map(row));
    choose({ line: Math.min(line, Math.max(lines.length - 1, 0)), step: 0 });
    const { text = "", warning = "" } = translations[chosen.line] ?? {};
    spoken.say(plainText(text, langs.target), ` ${warning} ${left}`);
  }

  /** The translation of a line, or an empty one with a warning that says why. @param {string} line @param {AbortSignal} signal */
  async function answer(line, signal) {
    try {
      const found = known.get(line) ?? (await translate(line, signal));
      known.set(line, found);
      return found;
    } catch (error) {
      return { ...NONE, warning: error instanceof Error ? error.message : String(error) };
    }
  }

  /** @param {Line} translation @param {number} line */
  function row({ text, warning }, line) {
    const label = text ? null : `Line ${line + 1}, empty`;
    const click = () => choose({ line, step: 0 });
    const button = element(
      "button",
      { type: "button", dir: "auto", lang: label ? null : langs.target, "aria-label": label, on: { click } },
      text,
    );
    return element("li", {}, button, warning ? element("p", { class: "note" }, warning) : null);
  }

  /** What is shown of the chosen line. */
  function model() {
    const { line, step, unit } = chosen;
    const translation = translations[line];
    const reading = readingOf(translation, unitOf(translation.sourcePieces.join("")), unitOf(translation.text));
    const sourceRtl = getComputedStyle(source).direction === "rtl";
    return modelOf(reading, { unit, step, sourceRtl, langs, targetUnit: unitOf(translation.text) });
  }

  /** Show another line, step or unit. @param {Partial<typeof chosen>} changes */
  function choose(changes) {
    chosen = { ...chosen, ...changes };
    units.set(chosen.unit);
    const buttons = target.querySelectorAll("button");
    buttons.forEach((button, line) => button.setAttribute("aria-pressed", String(line === chosen.line)));
    below.hidden = !translations[chosen.line]?.candidates?.length;
    if (!below.hidden) view.draw(model());
  }

  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (width !== window.innerWidth) choose({}); // a keyboard on the screen changes the height alone
    width = window.innerWidth;
  });
  return [labelled("Text to translate, a sentence on each line", source), target, state, spoken.node, below];
}
