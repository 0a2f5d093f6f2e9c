// The heat map: a table in which each target word has a row and each source word a column; darker is more weight.

import { element, plainText } from "./dom.js";

const ROW_NAMES = 110; // pixels
const [SMALLEST, LARGEST] = [16, 26];

/**
 * {node, draw, paint, light, hold, pick}. `point(row, column)` is called on hover, `leave()` when the pointer goes,
 * `choose(row, column)` on click and focus; the column is null for the name of a row.
 *
 * @param {object} on
 * @param {(row: number, column: number | null) => void} on.point
 * @param {() => void} on.leave
 * @param {(row: number, column: number | null) => void} on.choose
 */
export function heatMap({ point, leave, choose }) {
  const grid = element("table", { role: "grid", class: "heat" });
  const node = element("div", { class: "scroll", role: "region", "aria-label": "Heat map" }, grid);
  /** @type {HTMLTableCellElement[][]} */
  let cells = [];
  /** @type {HTMLElement[]} */
  let heads = [];
  /** @type {HTMLTableRowElement[]} */
  let rows = [];

  /** Draw a sentence in `room` pixels. @param {Labels} labels @param {number} room */
  function draw(labels, room) {
    const { system, unit, rows: names, columns, sourceRtl, langs, gold } = labels;
    grid.setAttribute(
      "aria-label",
      `Attention${system && ` of ${system}`}: rows are target ${unit}, columns source ${unit}`,
    );
    grid.dir = sourceRtl ? "rtl" : "ltr";
    heads = columns.map((text) => element("th", { scope: "col", role: "columnheader" }, plainText(text, langs.source)));
    cells = names.map((_, row) =>
      columns.map((__, column) => element("td", { role: "gridcell", tabindex: row || column ? "-1" : "0" })),
    );
    rows = names.map((text, row) => {
      const head = element("th", { scope: "row", role: "rowheader" }, plainText(text, langs.target));
      return element("tr", { role: "row" }, head, cells[row]);
    });
    const corner = element("td", { role: "gridcell", "aria-label": "Target and source" });
    grid.replaceChildren(
      element("thead", { role: "rowgroup" }, element("tr", { role: "row" }, corner, heads)),
      element("tbody", { role: "rowgroup" }, rows),
    );
    const size = Math.min(Math.max((room - ROW_NAMES) / columns.length - 1, SMALLEST), LARGEST);
    grid.style.setProperty("--cell", `${size}px`);
    gold.forEach(([column, row]) => cells[row]?.[column]?.classList.add("gold"));
  }

  /** Paint weights of what is drawn. @param {{weights: number[][] | null}} painted */
  function paint({ weights }) {
    cells.forEach((line, row) =>
      line.forEach((cell, column) => {
        const weight = weights?.[row][column] ?? 0;
        cell.style.setProperty("--w", weight.toFixed(4));
        cell.setAttribute("aria-label", weight.toFixed(2) + (cell.classList.contains("gold") ? ", gold link" : ""));
      }),
    );
  }

  /** Light a row, and its source words by their weights. @param {number} row @param {number[]} [weights] */
  function light(row, weights) {
    rows.forEach((line, number) => line.classList.toggle("lit", number === row));
    heads.forEach((head, column) => head.style.setProperty("--w", (weights?.[column] ?? 0).toFixed(4)));
  }

  /** Mark rows that have been painted: their weights are given. @param {boolean[]} held */
  function hold(held) {
    rows.forEach((line, row) => line.classList.toggle("held", held[row]));
    for (const cell of cells.filter((_, row) => held[row]).flat())
      cell.setAttribute("aria-label", `${cell.getAttribute("aria-label")}, given`);
  }

  /** Mark the cell that is chosen, one of those drawn. @param {number} row @param {number} column */
  function pick(row, column) {
    for (const cell of cells.flat()) {
      const picked = cell === cells[row][column];
      cell.classList.toggle("picked", picked);
      cell.tabIndex = picked ? 0 : -1; // Tab leads to it
    }
  }

  /** The row and the column of what an event is about, or null. @param {Event} event */
  function placeOf(event) {
    const cell = /** @type {Element} */ (event.target).closest("td, tbody th");
    const row = rows.findIndex((each) => each === cell?.parentNode);
    const column = cells[row]?.findIndex((each) => each === cell) ?? -1;
    return row < 0 ? null : { row, column: column < 0 ? null : column };
  }
  grid.addEventListener("pointerover", (event) => {
    const place = placeOf(event);
    if (place) point(place.row, place.column);
  });
  grid.addEventListener("pointerleave", leave);
  grid.addEventListener("focusin", (event) => {
    const place = placeOf(event);
    if (!place || place.column === null) return;
    for (const cell of cells.flat()) cell.tabIndex = cell === event.target ? 0 : -1;
    choose(place.row, place.column);
  });
  grid.addEventListener("click", (event) => {
    const place = placeOf(event);
    if (place) choose(place.row, place.column);
  });
  grid.addEventListener("keydown", (event) => {
    const place = placeOf(event);
    if (!place || place.column === null) return;
    const to = gridMove(event, [place.row, place.column], [cells.length, cells[0].length], grid.dir === "rtl");
    if (!to) return;
    event.preventDefault();
    cells[to[0]][to[1]].focus();
  });
  return { node, draw, paint, light, hold, pick };
}

/**
 * The cell that a key leads to from [row, column] in a grid of [rows, columns], or null.
 *
 * @param {KeyboardEvent} event
 * @param {number[]} place
 * @param {number[]} size
 * @param {boolean} rtl
 */
export function gridMove({ key, ctrlKey, altKey, metaKey }, [row, column], [rows, columns], rtl) {
  if (altKey || metaKey) return null; // the browser's keys
  const onward = rtl ? -1 : 1;
  const to = {
    ArrowUp: [row - 1, column],
    ArrowDown: [row + 1, column],
    ArrowLeft: [row, column - onward],
    ArrowRight: [row, column + onward],
    Home: [ctrlKey ? 0 : row, 0],
    End: [ctrlKey ? rows - 1 : row, columns - 1],
    PageUp: [0, column],
    PageDown: [rows - 1, column],
  }[key];
  return to ? [Math.min(Math.max(to[0], 0), rows - 1), Math.min(Math.max(to[1], 0), columns - 1)] : null;
}
