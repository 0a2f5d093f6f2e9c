// What a person changes in a translation: the weights of a step, and the pieces that it begins with.

/**
 * A row of weights in which some columns have a weight together, and the others share the rest as before.
 *
 * @param {number[]} row sums to 1
 * @param {number[]} columns
 * @param {number} weight from 0 to 1
 * @returns {number[]}
 */
export function withWeight(row, columns, weight) {
  const others = [...row.keys()].filter((column) => !columns.includes(column));
  const changed = row.slice();
  const divide = (/** @type {number} */ share, /** @type {number[]} */ among) => {
    const sum = among.reduce((total, column) => total + row[column], 0);
    for (const column of among) changed[column] = sum > 0 ? (share * row[column]) / sum : share / among.length;
  };
  divide(weight, columns);
  divide(1 - weight, others);
  return changed;
}

/** Weights by step as a text for an address: 3:0.25,0,0.75;4:1,0,0. @param {Map<number, number[]>} clamps */
export function formatClamps(clamps) {
  const decimals = (/** @type {number} */ weight) => String(Number(weight.toFixed(6)));
  return [...clamps].map(([step, row]) => `${step}:${row.map(decimals).join(",")}`).join(";");
}

/** Read that text; what is no row of weights is left out. @param {string} text @returns {Map<number, number[]>} */
export function parseClamps(text) {
  const pairs = text.split(";").map((part) => {
    const [step, row = ""] = part.split(":");
    return /** @type {[number, number[]]} */ ([Number(step), row.split(",").map(Number)]);
  });
  const valid = (/** @type {[number, number[]]} */ [step, row]) =>
    Number.isInteger(step) &&
    step >= 0 &&
    row.length > 1 &&
    row.every((weight) => weight >= 0) &&
    Math.abs(row.reduce((sum, weight) => sum + weight, 0) - 1) < 0.01;
  return new Map(pairs.filter(valid));
}
