"use strict";
// Small builders of elements. All text becomes text nodes: nothing of the data is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element. Of `properties`, on are listeners, data the dataset, css custom properties; others are attributes. */
function element(tag, properties = {}, ...children) {
  return filled(document.createElement(tag), properties, children);
}

/** The same for a shape of SVG. */
function shape(tag, properties = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), properties, children);
}

function filled(node, { on = {}, data = {}, css = {}, ...attributes }, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  for (const [name, listener] of Object.entries(on)) node.addEventListener(name, listener);
  for (const [name, value] of Object.entries(data)) node.dataset[name] = value;
  for (const [name, value] of Object.entries(css)) node.style.setProperty(name, value);
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return node;
}

/** A control with a visible label above it. */
function labelled(label, control) {
  return element("label", { class: "control" }, element("span", {}, label), control);
}

/** A drop-down list: {node, control, set(value, options)}; options are [value, text] pairs. */
function dropDown(label, options, choose) {
  const control = element("select", { on: { change: () => choose(control.value) } });
  const fill = (pairs) => control.replaceChildren(...pairs.map(([value, text]) => element("option", { value }, text)));
  fill(options);
  return {
    node: labelled(label, control),
    control,
    set(value, pairs = null) {
      if (pairs) fill(pairs);
      control.value = value;
    },
  };
}

let groups = 0;

/** Radio buttons in one row: {node, set(value)}. */
function segments(label, options, choose) {
  groups += 1;
  const name = `group-${groups}`;
  const inputs = options.map(([value]) =>
    element("input", { type: "radio", name, value, on: { change: () => choose(value) } }),
  );
  const rows = options.map(([, text], k) => element("label", {}, inputs[k], element("span", {}, text)));
  return {
    node: element("fieldset", { class: "control segments" }, element("legend", {}, label), element("div", {}, rows)),
    set: (value) => inputs.forEach((input) => (input.checked = input.value === value)),
  };
}

/** A slider with its value in words beside the label: {node, control, set(value)}. `move` while it is dragged, `done` after. */
function slider(label, { min, max, step, say }, move, done = move) {
  const value = element("strong", {}); // an output would take the label for itself
  const control = element("input", { type: "range", min, max, step });
  const show = () => {
    value.textContent = say(Number(control.value));
    control.setAttribute("aria-valuetext", value.textContent);
  };
  control.addEventListener("input", () => (show(), move(Number(control.value))));
  control.addEventListener("change", () => done(Number(control.value)));
  return {
    node: element("label", { class: "control slider" }, element("span", {}, label, " ", value), control),
    control,
    set(position) {
      control.value = position;
      show();
    },
  };
}

/** The line and marker of a series as in the chart, as a small picture without a name. */
function swatch(look) {
  return shape(
    "svg",
    { class: "swatch", viewBox: "0 0 28 12", width: 28, height: 12, "aria-hidden": "true" },
    shape("path", { class: `line series-${look.color}`, d: "M1 6H27", "stroke-dasharray": look.dash }),
    shape("path", { class: `marker series-${look.color}`, d: look.marker, transform: "translate(14 6)" }),
  );
}

/** Check boxes that choose systems: {node, set(names)}. At least one stays chosen. */
function systemBoxes(systems, choose) {
  const boxes = systems.map(({ name }) =>
    element("input", {
      type: "checkbox",
      value: name,
      on: {
        change(event) {
          const names = boxes.filter((box) => box.checked).map((box) => box.value);
          if (names.length) choose(names);
          else event.target.checked = true;
        },
      },
    }),
  );
  const rows = systems.map((system, k) =>
    element("label", {}, boxes[k], swatch(system.look), element("bdi", {}, system.name)),
  );
  return {
    node: element("fieldset", { class: "control systems" }, element("legend", {}, "Systems"), element("div", {}, rows)),
    set: (names) => boxes.forEach((box) => (box.checked = names.includes(box.value))),
  };
}

/** A table in a region that scrolls sideways. `rows` are lists of nodes or texts; the first of each is its heading. */
function table(caption, headings, rows) {
  const cell = (content, k) => element(k ? "td" : "th", k ? {} : { scope: "row" }, content);
  return element(
    "div",
    { class: "scroll", role: "region", tabindex: "0", "aria-label": caption },
    element(
      "table",
      {},
      element("caption", {}, caption),
      element(
        "thead",
        {},
        element(
          "tr",
          {},
          headings.map((text) => element("th", { scope: "col" }, text)),
        ),
      ),
      element(
        "tbody",
        {},
        rows.map((row) => element("tr", {}, row.map(cell))),
      ),
    ),
  );
}

/** Text of the data: in its own direction. */
function plainText(text) {
  return element("span", { dir: "auto" }, text);
}

/** Pairs of a name and its content as a list. */
function pairList(properties, pairs) {
  return element(
    "dl",
    properties,
    pairs.map(([name, content]) => [element("dt", {}, name), element("dd", {}, content)]),
  );
}

function failureTags(output) {
  return output.failures.map((failure) => element("span", { class: "failure" }, failure));
}

function figure(caption, ...content) {
  return element("figure", {}, element("figcaption", {}, caption), ...content);
}

/** A link to a sentence in the explorer. */
function explorerLink(sentence, system, text) {
  return element("a", { href: formatState({ panel: "attention", attention: String(sentence.id), system }) }, text);
}

/** A number with so many digits after the point, or a dash. */
function decimal(value, digits = 1) {
  if (value === null || value === undefined) return "–";
  const rounded = Number(value.toFixed(digits)) || 0; // zero has no sign
  return rounded.toFixed(digits).replace("-", "−");
}

/** A number with a sign. */
function signed(value, digits = 1) {
  return Number(value.toFixed(digits)) > 0 ? `+${decimal(value, digits)}` : decimal(value, digits);
}

/** A number of about four digits, as axes show it. */
function compact(value) {
  const size = Math.abs(value);
  if (size >= 10000) return `${Number((value / 1000).toPrecision(3))}k`;
  return size && size < 0.001 ? Number(value.toPrecision(2)).toExponential() : String(Number(value.toPrecision(4))).replace("-", "−");
}
