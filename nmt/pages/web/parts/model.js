// All that is shown of a translation, computed from it and from what a person has chosen.

import { decodeWeights, entropyBits, joinedWeights, normalized, sharpened, UNSPACED, wordOfPiece, wordText } from "./numbers.js";

/**
 * What is shown of a translation: T target pieces and S source pieces, as rows and columns of words or pieces.
 *
 * @param {Reading} output
 * @param {object} chosen
 * @param {string} chosen.unit words or pieces
 * @param {string} chosen.targetUnit words or characters: what stands between spaces in the language
 * @param {number} chosen.step from 0
 * @param {boolean} chosen.sourceRtl
 * @param {Langs} chosen.langs
 * @param {string} [chosen.view] a name in the attention
 * @param {number} [chosen.temperature]
 * @param {string} [chosen.system]
 * @param {number[][]} [chosen.links] gold links, as [source word, target word]
 * @param {boolean} [chosen.hard] whether each step looks at one position
 */
export function modelOf(
  output,
  { view = "attention", unit, targetUnit, temperature = 1, step, system = "", sourceRtl, langs, ...others },
) {
  const { source_words: sourceWords, target_words: targetWords } = output;
  const [sourcePieces, targetPieces] = [sourceWords.flat(), targetWords.flat()];
  const encoded = output.attention[view];
  const trained = typeof encoded === "string" ? decodeWeights(encoded, targetPieces.length) : (encoded?.map(normalized) ?? null);
  const matrix = trained && trained.map((row) => sharpened(row, temperature));
  const joined = unit === "words";
  const { links = [], hard = false } = others;
  const rowPlaces = joined ? placesOf(targetWords) : targetPieces.map((_, place) => [place]); // a row, a step, for each
  return {
    output,
    system,
    view,
    unit,
    targetUnit,
    temperature,
    hard,
    sourceRtl,
    langs,
    sourceStarts: joined ? sourceWords.map(([piece]) => piece) : sourcePieces,
    targetPieces,
    matrix,
    weights: matrix && joined ? joinedWeights(matrix, targetWords, sourceWords) : matrix,
    columns: joined ? sourceWords.map(wordText) : sourcePieces,
    rows: joined ? targetWords.map(wordText) : targetPieces,
    rowPlaces,
    columnPlaces: joined ? placesOf(sourceWords) : sourcePieces.map((_, place) => [place]),
    entropies: matrix ? matrix.map(entropyBits) : [],
    positions: sourcePieces.length,
    gold: joined ? links : linksOfPieces(links, sourceWords, targetWords),
    step: Math.max(Math.min(step, rowPlaces.length - 1), 0),
  };
}

/**
 * A translation as it is shown.
 *
 * @param {Translated} translated
 * @param {string} unit what stands between spaces in the language of the source: words or characters
 * @param {string} targetUnit
 * @returns {Reading}
 */
export function readingOf({ text, sourcePieces, pieces, candidates, probabilities, attention }, unit, targetUnit) {
  return {
    text,
    source_words: wordsOf(sourcePieces, unit),
    target_words: wordsOf(pieces, targetUnit),
    steps: candidates,
    chosen: probabilities,
    attention: attention ? { attention } : {},
  };
}

/** The step in another unit that has the first piece of the current one. @param {Model} model @param {string} unit */
export function stepIn({ output, rowPlaces, step }, unit) {
  const [first] = rowPlaces[step];
  return unit === "pieces" ? first : wordOfPiece(output.target_words)[first];
}

/** The places of the pieces of each word. @param {string[][]} words */
function placesOf(words) {
  let place = 0;
  return words.map((pieces) => pieces.map(() => place++));
}

/**
 * Links of words as links of all their pieces.
 *
 * @param {number[][]} links
 * @param {string[][]} sourceWords
 * @param {string[][]} targetWords
 */
function linksOfPieces(links, sourceWords, targetWords) {
  const [columns, rows] = [placesOf(sourceWords), placesOf(targetWords)];
  return links.flatMap(([source, target]) =>
    (columns[source] ?? []).flatMap((column) => (rows[target] ?? []).map((row) => [column, row])), // read in part
  );
}

/** The pieces of each word; in characters each piece is one. @param {string[]} pieces @param {string} unit */
function wordsOf(pieces, unit) {
  /** @type {string[][]} */
  const words = [];
  for (const piece of pieces) {
    const last = words.at(-1);
    if (last && unit === "words" && !piece.startsWith("▁") && piece !== "</s>") last.push(piece);
    else words.push([piece]);
  }
  return words;
}

/** What a language counts: words, or characters if it writes no spaces. @param {string} text */
export function unitOf(text) {
  return new RegExp(UNSPACED, "u").test(text) ? "characters" : "words";
}
