// Text to type, a sentence on each line; its translations; and one of them step by step.

import { element, field, labelled, unitSwitch } from "./dom.js";
import { modelOf, readingOf, stepIn, unitOf } from "./model.js";
import { translationView } from "./view.js";

const EMPTY = "The translation appears here as you type.";

/**
 * The nodes of a page that translates what is typed. `translate(lines, signal)` returns the translation of each line,
 * or throws an Error that says why there is none; it begins `pause` milliseconds after the last key.
 *
 * @param {(lines: string[], signal: AbortSignal) => Line[] | Promise<Line[]>} translate
 * @param {number} [pause]
 */
export function linesPage(translate, pause = 0) {
  /** @type {Line[]} */
  let translations = [];
  let chosen = { line: 0, step: 0, unit: "words" };
  let timer = 0;
  let running = new AbortController();
  const source = field("textarea", { id: "source", rows: "3", placeholder: "Type or paste text" }, wait);
  const target = element("ol", { id: "target", class: "lines", "aria-label": "Translation", "aria-live": "polite" });
  const state = element("p", { id: "status", class: "notice", role: "status" }, EMPTY);
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
    const typed = source.value;
    const line = typed.slice(0, source.selectionStart).split("\n").length - 1; // the one with the cursor
    state.textContent = typed.trim() ? "translating …" : EMPTY;
    try {
      const found = typed.trim() ? await translate(typed.split("\n"), signal) : [];
      if (signal.aborted) return;
      translations = found;
      state.textContent = found.length ? "" : EMPTY;
    } catch (error) {
      if (signal.aborted) return;
      state.textContent = error instanceof Error ? error.message : String(error);
    }
    target.replaceChildren(...translations.map(row));
    choose({ line: Math.min(line, Math.max(translations.length - 1, 0)), step: 0 });
  }

  /** @param {Line} translation @param {number} line */
  function row({ text, warning }, line) {
    const label = text ? null : `Line ${line + 1}, empty`;
    const click = () => choose({ line, step: 0 });
    const button = element("button", { type: "button", dir: "auto", "aria-label": label, on: { click } }, text);
    return element("li", {}, button, warning ? element("p", { class: "note" }, warning) : null);
  }

  /** What is shown of the chosen line. */
  function model() {
    const { line, step, unit } = chosen;
    const translation = translations[line];
    const reading = readingOf(translation, unitOf(source.value), unitOf(translation.text));
    const sourceRtl = getComputedStyle(source).direction === "rtl";
    return modelOf(reading, { unit, step, sourceRtl, targetUnit: unitOf(translation.text) });
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

  window.addEventListener("resize", () => choose({}));
  return [labelled("Text to translate, a sentence on each line", source), target, state, below];
}
