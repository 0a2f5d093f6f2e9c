// Small builders of elements. All text becomes text nodes: nothing of the data is ever read as markup.

/**
 * Make an element. In `properties`, on are listeners, data the dataset, css custom properties; others are attributes.
 *
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} properties
 * @param {...any} children elements, texts, lists of these; null is left out
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, { on = {}, data = {}, css = {}, ...attributes } = {}, ...children) {
  /** @type {HTMLElement} */
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  for (const [name, listener] of Object.entries(on)) node.addEventListener(name, listener);
  for (const [name, value] of Object.entries(data)) node.dataset[name] = value;
  for (const [name, value] of Object.entries(css)) node.style.setProperty(name, value);
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return /** @type {HTMLElementTagNameMap[Tag]} */ (node);
}

/**
 * Give a node other children. Equal ones stay, so that the click on what is pressed meanwhile arrives. The focus stays at
 * its place.
 *
 * @param {HTMLElement} node
 * @param {HTMLElement[]} children
 */
export function refill(node, children) {
  const before = [...node.children];
  const at = before.findIndex((child) => child.contains(document.activeElement));
  if (before.length !== children.length) node.replaceChildren(...children);
  else children.forEach((child, k) => child.isEqualNode(before[k]) || before[k].replaceWith(child));
  if (at < 0 || node.contains(document.activeElement)) return;
  const next = /** @type {HTMLElement | null | undefined} */ (node.children[at]?.querySelector("a, button"));
  next?.focus({ preventScroll: true });
}

/** Say that a button does nothing now. The attribute `disabled` would take its focus away. @param {HTMLElement} button @param {boolean} disabled */
export function setDisabled(button, disabled) {
  button.setAttribute("aria-disabled", String(disabled));
}

/**
 * A field whose text stays as it is typed.
 *
 * @template {"input" | "textarea"} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} properties
 * @param {(text: string) => void} typed
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function field(tag, properties, typed) {
  const node = element(tag, { dir: "auto", autocomplete: "off", spellcheck: "false", ...properties });
  node.addEventListener("input", () => typed(node.value));
  return node;
}

/** A control with a visible label above it. @param {string} label @param {HTMLElement} control */
export function labelled(label, control) {
  return element("label", { class: "control" }, element("span", {}, label), control);
}

/**
 * A drop-down list: {node, control, set(value, options)}; an option is a [value, text] pair, or a text that is both.
 *
 * @param {string} label
 * @param {Option[]} options
 * @param {(value: string) => void} choose
 */
export function dropDown(label, options, choose) {
  const control = element("select", { on: { change: () => choose(control.value) } });
  const fill = (/** @type {Option[]} */ pairs) =>
    control.replaceChildren(
      ...pairs.map((each) => {
        const [value, text = value] = [each].flat();
        return element("option", { value }, text);
      }),
    );
  fill(options);
  return {
    node: labelled(label, control),
    control,
    /** @param {string} value @param {Option[] | null} pairs */
    set(value, pairs = null) {
      if (pairs) fill(pairs);
      control.value = value;
    },
  };
}

let groups = 0;

/**
 * Radio buttons in one row: {node, set(value)}.
 *
 * @param {string} label
 * @param {string[][]} options
 * @param {(value: string) => void} choose
 */
export function segments(label, options, choose) {
  groups += 1;
  const name = `group-${groups}`;
  const inputs = options.map(([value]) =>
    element("input", { type: "radio", name, value, on: { change: () => choose(value) } }),
  );
  const rows = options.map(([, text], k) => element("label", {}, inputs[k], element("span", {}, text)));
  return {
    node: element("fieldset", { class: "control segments" }, element("legend", {}, label), element("div", {}, rows)),
    set: (/** @type {string} */ value) => inputs.forEach((input) => (input.checked = input.value === value)),
  };
}

/** Whether words or pieces are shown. @param {(unit: string) => void} choose */
export function unitSwitch(choose) {
  const units = ["words", "pieces"].map((unit) => [unit, unit]);
  return segments("Show", units, choose);
}

/**
 * A slider with its value in words beside the label: {node, control, set(value)}.
 *
 * @param {string} label
 * @param {{min: number, max: number, step: number, say: (value: number) => string}} range
 * @param {(value: number) => void} move
 */
export function slider(label, { min, max, step, say }, move) {
  const value = element("strong", {}); // an output would take the label for itself
  const control = element("input", { type: "range", min, max, step });
  const show = () => {
    value.textContent = say(Number(control.value));
    control.setAttribute("aria-valuetext", value.textContent);
  };
  control.addEventListener("input", () => (show(), move(Number(control.value))));
  return {
    node: element("label", { class: "control slider" }, element("span", {}, label, " ", value), control),
    control,
    /** @param {number} position */
    set(position) {
      control.value = String(position);
      show();
    },
  };
}

/** Text of the data: in its own direction and language. @param {string} text @param {string} [lang] */
export function plainText(text, lang) {
  return element("span", { dir: "auto", lang }, text);
}

/** The languages whose codes browsers know, for the attribute `lang`. @param {string} source @param {string} target @returns {Langs} */
export function langsOf(source, target) {
  const names = new Intl.DisplayNames("en", { type: "language", fallback: "none" });
  const known = (/** @type {string} */ code) => {
    try {
      return names.of(code) && code;
    } catch {
      return undefined; // a configuration may name a language by any text
    }
  };
  return { source: known(source), target: known(target) };
}

const REST = 1000; // milliseconds

/** A hidden live region for screen readers: {node, say(...parts)}. It reads out the last text after a pause without another. */
export function announcer() {
  const node = element("p", { class: "unseen", role: "status" });
  let timer = 0;
  return {
    node,
    /** @param {...any} parts texts, and elements where these have a language of their own */
    say(...parts) {
      clearTimeout(timer);
      const next = element("p", {}, parts);
      if (next.textContent !== node.textContent)
        timer = setTimeout(() => node.replaceChildren(...next.childNodes), REST);
    },
  };
}

/** An element of the page. @param {string} id */
export function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

/** @param {any} caption @param {...any} content */
export function figure(caption, ...content) {
  return element("figure", {}, element("figcaption", {}, caption), ...content);
}

/** A number with `digits` digits after the point. @param {number} value */
export function decimal(value, digits = 1) {
  const rounded = Number(value.toFixed(digits)) || 0; // zero has no sign
  return rounded.toFixed(digits).replace("-", "−");
}

/** A number with a sign. @param {number} value */
export function signed(value) {
  return Number(value.toFixed(1)) > 0 ? `+${decimal(value)}` : decimal(value);
}
