// What the panels of a report share.

/** What is shown: a flat object of texts; see state.js. */
type State = Record<string, string>;
type Go = (changes: State, how?: { replace?: boolean }) => void;
type Panel = { body: HTMLElement[]; update(state: State): string };
type Film = { updates: number[]; scores: string[]; sentences: Filmed[] };
type Filmed = Pick<Sentence, "source" | "reference"> &
  Pick<Reading, "source_words" | "target_words"> & { frames: string[] };
type System = { name: string; views: string[]; hard: boolean; film: Film | null };
/** How a system translated a stored sentence. */
type Read = Reading & { gold: number[][]; scores: Record<string, number>; log_probability: number; failures: string[] };
/** How a system translates a sentence in the page. */
type LiveReading = Reading & {
  translation: import("../../web/engine/translator.js").Translation;
  beam: import("../../web/engine/search.js").BeamStep[];
  translator: import("../../web/engine/translator.js").Translator;
  milliseconds: number;
};
type Answer = { reading?: LiveReading; problem?: string };
type Sentence = {
  id: number;
  source: string;
  reference: string;
  length: number;
  systems: Record<string, Read>;
};
type ReportData = {
  title: string;
  languages: { source: string; target: string; source_rtl: boolean; unit: string; target_unit: string };
  langs: Langs;
  systems: System[];
  bins: { low: number; high: number }[];
  sentences: Sentence[];
  /** The label of the metric by which sentences are sorted. */
  score: string;
  /** By system: the parts of the page that make up its files, or why it cannot run here. */
  engines: Record<string, Record<string, number> | string>;
};
