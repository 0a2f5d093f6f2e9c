"use strict";
// Both sentences as columns, and a line from each target word to its source words: the more weight, the more opaque.

const LINE_HEIGHT = 24;
const FAINTEST = 0.02;
const LONGEST_WORD = 16;

/** {node, draw(model), light(row)} */
function linkDiagram({ point, leave, choose }) {
  const node = element("div", { class: "links" });
  let lines = [];
  let words = [];

  function draw(model) {
    const width = Math.max(Math.min(node.clientWidth || 360, 520), 240);
    const height = Math.max(model.rows.length, model.columns.length) * LINE_HEIGHT + 8;
    const middle = (k, count) => 4 + (height - 8) * ((k + 0.5) / count);
    const [left, right] = [width * 0.3, width * 0.7];
    const curve = (row, column) => {
      const [from, to] = [middle(column, model.columns.length), middle(row, model.rows.length)];
      return `M${left} ${from}C${width / 2} ${from} ${width / 2} ${to} ${right} ${to}`;
    };
    lines = model.weights.map((weights, row) =>
      weights.flatMap((weight, column) =>
        weight < FAINTEST
          ? []
          : [shape("path", { d: curve(row, column), "stroke-opacity": weight.toFixed(3), data: { row, column } })],
      ),
    );
    const label = (text, attributes) => {
      const word = shape(
        "text",
        { dy: "0.35em", ...attributes },
        text.length > LONGEST_WORD ? `${text.slice(0, LONGEST_WORD - 1)}…` : text,
      );
      if (text.length > LONGEST_WORD) word.append(shape("title", {}, text));
      return word;
    };
    const sources = model.columns.map((text, k) =>
      label(text, { x: left - 8, y: middle(k, model.columns.length), "text-anchor": "end" }),
    );
    words = model.rows.map((text, row) =>
      label(text, {
        x: right + 8,
        y: middle(row, model.rows.length),
        class: "target",
        on: { pointerenter: () => point(row, null), click: () => choose(row, null) },
      }),
    );
    node.replaceChildren(
      shape(
        "svg",
        {
          viewBox: `0 0 ${width} ${height}`,
          width,
          height,
          role: "img",
          "aria-label":
            "Links from the source words on the left to the target words on the right; the heat map has the same weights",
          on: { pointerleave: leave },
        },
        shape("g", { class: "curves" }, lines.flat()),
        sources,
        words,
      ),
    );
  }

  function light(row) {
    node.classList.toggle("chosen", row !== null);
    lines.forEach((group, number) => group.forEach((line) => line.classList.toggle("lit", number === row)));
    words.forEach((word, number) => word.classList.toggle("lit", number === row));
  }

  return { node, draw, light };
}
