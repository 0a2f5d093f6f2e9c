// What the typed scripts of the page share with the others, and with the report.

/** What is shown: a flat object of texts; see state.js. */
type State = Record<string, string>;
type Go = (changes: Record<string, string>, how?: { replace?: boolean }) => void;
type Panel = { body: unknown[]; update(state: State): string };
type System = { name: string; views: string[]; hard: boolean };
type Sentence = {
  id?: number;
  source: string;
  reference: string;
  length?: number;
  gold: number[][] | null;
  systems: Record<string, Reading>;
};
type ReportData = {
  languages: { source: string; target: string; source_rtl: boolean; unit: string; target_unit: string };
  systems: System[];
  sentences: Sentence[];
  /** By system: the parts of the page that hold its files, or why it cannot run here. */
  engines: Record<string, Record<string, number> | string>;
};

/** A sentence under a system, as it is shown; see attention.js. */
type Model = {
  sentence: Sentence;
  system: string;
  output: Reading;
  unit: string;
  step: number;
  groups: string[][];
  firstOf: number[];
  rows: string[];
  columns: string[];
  matrix: number[][] | null;
  weights: number[][] | null;
  entropies: number[];
  positions: number;
  /** Pieces that were given. */
  forced?: number;
  /** Weights that were given, by step. */
  held?: Map<number, number[]>;
  branch?: (place: number, piece: string) => void;
};

declare const engine: {
  "translator.js": typeof import("../../web/engine/translator.js");
  "search.js": typeof import("../../web/engine/search.js");
};
declare function unpacked(id: string): Response;
declare function explored(report: ReportData, sentence: Sentence, system: System, state: Record<string, string>): Model;
declare function stepView(on: { point: (step: number) => void; leave: () => void; choose: (step: number) => void }): {
  node: HTMLElement;
  draw(model: Model): void;
  light(model: Model, step: number, column: number | null): void;
};
