"use strict";
// The heat map: a table in which each target word has a row and each source word a column; darker is more weight.

const ROW_NAMES = 110; // pixels
const [SMALLEST, LARGEST] = [16, 26];

/**
 * {node, draw(model, room), paint(model), light(row)}: draw a sentence in `room` pixels, paint other weights of it.
 * `point(row, column)` is called on hover and focus, `leave()` when the pointer goes, `choose(row)` on click.
 */
function heatMap({ point, leave, choose }) {
  const grid = element("table", { role: "grid", class: "heat" });
  const node = element("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "Heat map" }, grid);
  let cells = [];
  let heads = [];
  let rows = [];

  function draw(model, room) {
    grid.setAttribute(
      "aria-label",
      `Attention of ${model.system}: rows are target ${model.unit}, columns source ${model.unit}`,
    );
    grid.dir = model.sourceRtl ? "rtl" : "ltr";
    const head = (text, scope) =>
      element("th", { scope, role: scope === "col" ? "columnheader" : "rowheader" }, plainText(text));
    heads = model.columns.map((text) => head(text, "col"));
    cells = model.rows.map((_, row) =>
      model.columns.map((__, column) => element("td", { role: "gridcell", tabindex: row || column ? "-1" : "0" })),
    );
    rows = model.rows.map((text, row) => element("tr", { role: "row" }, head(text, "row"), cells[row]));
    grid.replaceChildren(
      element(
        "thead",
        { role: "rowgroup" },
        element("tr", { role: "row" }, element("td", { role: "gridcell", "aria-label": "Target and source" }), heads),
      ),
      element("tbody", { role: "rowgroup" }, rows),
    );
    grid.style.setProperty(
      "--cell",
      `${Math.min(Math.max((room - ROW_NAMES) / model.columns.length - 1, SMALLEST), LARGEST)}px`,
    );
    model.gold.forEach(([column, row]) => cells[row]?.[column]?.classList.add("gold"));
  }

  function paint(model) {
    cells.forEach((line, row) =>
      line.forEach((cell, column) => {
        const weight = model.weights[row][column];
        cell.style.setProperty("--w", weight.toFixed(4));
        cell.setAttribute("aria-label", weight.toFixed(2) + (cell.classList.contains("gold") ? ", gold link" : ""));
      }),
    );
  }

  /** Light a row, and its source words by their weights. */
  function light(row, weights) {
    rows.forEach((line, number) => line.classList.toggle("lit", number === row));
    heads.forEach((head, column) => head.style.setProperty("--w", (weights?.[column] ?? 0).toFixed(4)));
  }

  /** Mark the rows whose weights are set. @param {boolean[]} held */
  function hold(held) {
    rows.forEach((line, row) => line.classList.toggle("held", held[row]));
  }

  /** Mark the cell that is chosen. @param {number} row @param {number} column */
  function pick(row, column) {
    for (const cell of grid.querySelectorAll(".picked")) cell.classList.remove("picked");
    cells[row]?.[column]?.classList.add("picked");
  }

  const placeOf = (cell) => {
    const row = rows.indexOf(cell?.parentNode);
    return row < 0 ? null : [row, cells[row].indexOf(cell)];
  };
  const onPoint = (event) => {
    const cell = event.target.closest("td, tbody th");
    const place = placeOf(cell);
    if (place) point(place[0], place[1] < 0 ? null : place[1]);
  };
  grid.addEventListener("pointerover", onPoint);
  grid.addEventListener("focusin", (event) => {
    const place = placeOf(event.target);
    if (!place || place[1] < 0) return;
    cells.flat().forEach((cell) => (cell.tabIndex = cell === event.target ? 0 : -1));
    choose(place[0], place[1]);
  });
  grid.addEventListener("pointerleave", leave);
  grid.addEventListener("click", (event) => {
    const place = placeOf(event.target.closest("td, tbody th"));
    if (place) choose(place[0], place[1] < 0 ? null : place[1]);
  });
  grid.addEventListener("keydown", (event) => {
    const place = placeOf(event.target);
    if (!place || place[1] < 0) return;
    const to = gridMove(event, place, [cells.length, cells[0].length], grid.dir === "rtl");
    if (!to) return;
    event.preventDefault();
    cells[to[0]][to[1]].focus();
  });
  return { node, draw, paint, light, hold, pick };
}

/** The cell that a key leads to from [row, column] in a grid of [rows, columns], or null. */
function gridMove(event, [row, column], [rows, columns], rtl) {
  const onward = rtl ? -1 : 1;
  const to = {
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    ArrowLeft: [row, column - onward],
    ArrowRight: [row, column + onward],
    Home: [event.ctrlKey ? 0 : row, 0],
    End: [event.ctrlKey ? rows - 1 : row, columns - 1],
    PageUp: [0, column],
    PageDown: [rows - 1, column],
  }[event.key];
  return to ? [Math.min(Math.max(to[0], 0), rows - 1), Math.min(Math.max(to[1], 0), columns - 1)] : null;
}
