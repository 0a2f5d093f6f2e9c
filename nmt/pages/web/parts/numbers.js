// The mathematics of the page: weights, sharpness, entropy, words of pieces, differences. Pure functions.
// Shapes: a matrix is a list of T rows (target pieces) of S numbers (source pieces); every row sums to 1, or is 0.

import { element } from "./dom.js";

/**
 * Decode T x S bytes in base64: a = exp(-16 (b / 255)^2), 0 for b = 255; then normalize the rows.
 *
 * @param {string} text
 * @param {number} rows
 * @returns {number[][]}
 */
export function decodeWeights(text, rows) {
  const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  const columns = rows ? bytes.length / rows : 0;
  return Array.from({ length: rows }, (_, row) =>
    normalized(Array.from(bytes.subarray(row * columns, (row + 1) * columns), (b) => WEIGHTS[b])),
  );
}

const WEIGHTS = Array.from({ length: 256 }, (_, b) => (b === 255 ? 0 : Math.exp(-16 * (b / 255) ** 2)));

/** @param {number[]} row */
export function normalized(row) {
  const sum = row.reduce((total, value) => total + value, 0);
  return sum > 0 ? row.map((value) => value / sum) : row;
}

/**
 * Divide the energies by a temperature: softmax(e / t) is a^(1/t), normalized. Below 1 is sharper, above 1 flatter.
 *
 * @param {number[]} row
 * @param {number} temperature
 */
export function sharpened(row, temperature) {
  const most = Math.max(...row);
  if (temperature === 1 || !(most > 0)) return row;
  return normalized(row.map((value) => (value / most) ** (1 / temperature)));
}

/**
 * The entropy of a row in bits: 0 where one weight is 1, log2 S where all are equal.
 *
 * @param {number[]} row
 * @returns {number}
 */
export function entropyBits(row) {
  return row.reduce((sum, value) => (value > 0 ? sum - value * Math.log2(value) : sum), 0);
}

/** @param {number[]} values */
export function mean(values) {
  return values.length ? values.reduce((sum, value) => sum + value, 0) / values.length : 0;
}

/** For each piece the number of its word, given the pieces of each word. @param {string[][]} words */
export function wordOfPiece(words) {
  return words.flatMap((pieces, word) => pieces.map(() => word));
}

/**
 * Join the pieces of words: the sum over the pieces of a source word, the mean over those of a target word.
 *
 * @param {number[][]} matrix
 * @param {string[][]} targetWords
 * @param {string[][]} sourceWords
 */
export function joinedWeights(matrix, targetWords, sourceWords) {
  const columnOf = wordOfPiece(sourceWords);
  let first = 0;
  return targetWords.map((pieces) => {
    const row = new Array(sourceWords.length).fill(0);
    for (const weights of matrix.slice(first, first + pieces.length)) {
      weights.forEach((value, column) => (row[columnOf[column]] += value / pieces.length));
    }
    first += pieces.length;
    return row;
  });
}

/** A word as it is read: its pieces without SentencePiece's marks. @param {string[]} pieces */
export function wordText(pieces) {
  return pieces.join("").replaceAll("▁", " ").trim() || pieces.join("");
}

export const UNSPACED =
  "[\\p{scx=Han}\\p{scx=Hira}\\p{scx=Kana}\\p{sc=Thai}\\p{sc=Lao}\\p{sc=Khmer}\\p{sc=Mymr}\\p{sc=Tibt}]\\p{M}*";
const LETTERS = `(?:(?!${UNSPACED})[\\p{L}\\p{M}\\p{N}])+`;
const TOKEN = new RegExp(`\\s+|${UNSPACED}|${LETTERS}(?:['’_-]${LETTERS})*['’]?|\\S`, "gu");

/** Words, marks and spaces of a text, in order; single characters in scripts without spaces. @param {string} text */
const tokens = (text) => text.match(TOKEN) ?? [];

/** Whether a token is no space. @param {string} token */
const isWord = (token) => token.trim() !== "";

/** The tokens of a text but for the spaces. @param {string} text */
export const wordTokens = (text) => tokens(text).filter(isWord);

/** What stands between spaces; without spaces in the language, each character. @param {string} text @param {string} unit */
export function unitsOf(text, unit) {
  return unit === "words" ? text.split(/\s+/).filter(Boolean) : Array.from(text.replace(/\s/g, ""));
}

/**
 * The longest common subsequence of two lists, as pairs of places.
 *
 * @param {string[]} left
 * @param {string[]} right
 * @returns {[number, number][]}
 */
export function commonPlaces(left, right) {
  const longest = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
  for (let i = left.length - 1; i >= 0; i--) {
    for (let j = right.length - 1; j >= 0; j--) {
      longest[i][j] = left[i] === right[j] ? longest[i + 1][j + 1] + 1 : Math.max(longest[i + 1][j], longest[i][j + 1]);
    }
  }
  /** @type {[number, number][]} */
  const places = [];
  for (let i = 0, j = 0; i < left.length && j < right.length;) {
    if (left[i] === right[j]) places.push([i++, j++]);
    else if (longest[i + 1][j] >= longest[i][j + 1]) i += 1;
    else j += 1;
  }
  return places;
}

/**
 * A text whose words that are not in the other text, in order, are marked.
 *
 * @param {string} text
 * @param {string} other
 * @param {string} [lang]
 */
export function marked(text, other, lang) {
  const same = new Set(commonPlaces(wordTokens(text), wordTokens(other)).map(([k]) => k));
  let place = 0; // among the words
  /** @type {{different: boolean, text: string}[]} */
  const runs = [];
  for (const token of tokens(text)) {
    const different = isWord(token) && !same.has(place++);
    const last = runs.at(-1);
    if (last && last.different === different) last.text += token;
    else runs.push({ different, text: token });
  }
  return element(
    "span",
    { dir: "auto", lang },
    runs.map((run) => (run.different ? element("mark", {}, run.text) : run.text)),
  );
}
