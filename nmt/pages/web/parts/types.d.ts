// A translation as the parts show it: stored in a report, made by the engine, or answered by a server.

type Reading = {
  text: string;
  /** The pieces of each word, the end symbol a word of its own. */
  source_words: string[][];
  target_words: string[][];
  /** For each target piece the likeliest pieces with their probabilities. */
  steps: [string, number][][];
  /** The probability of each target piece. */
  chosen: number[];
  /** Weights by the name of a view, T x S; packed in a report. */
  attention: Record<string, number[][] | string>;
};
/** Values of the attribute `lang`. */
type Langs = { source?: string; target?: string };
/** A value with its text, or a text that is its own value. */
type Option = string | string[];
/** What the engine or a server makes of a line. */
type Translated = Pick<
  import("../engine/translator.js").Translation,
  "text" | "sourcePieces" | "pieces" | "candidates" | "probabilities" | "attention"
>;
/** A translation of a line that was typed. */
type Line = Translated & { warning?: string };
type Model = ReturnType<typeof import("./model.js").modelOf> & {
  /** Pieces that were given. */
  forced?: number;
  /** Weights that were given, by step. */
  held?: Map<number, number[]>;
  branch?: (place: number, piece: string) => void;
};
/** What a heat map names and frames. */
type Labels = Pick<Model, "system" | "unit" | "rows" | "columns" | "sourceRtl" | "langs" | "gold">;
