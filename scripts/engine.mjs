// Answers of the exported engine: one JSON request on standard input, one JSON answer on standard output.
import { readFileSync } from "node:fs";

import { Network } from "../nmt/pages/web/engine/network.js";
import { Tokenizer } from "../nmt/pages/web/engine/pieces.js";
import { path, search } from "../nmt/pages/web/engine/search.js";
import { Translator } from "../nmt/pages/web/engine/translator.js";
import { readSafetensors } from "../nmt/pages/web/engine/weights.js";

const bytes = (file) => new Uint8Array(readFileSync(file));
const answers = {
  /** Log-probabilities and weights under teacher forcing. */
  steps: ({ model, weights, source, target }) => {
    const network = new Network(model, readSafetensors(bytes(weights).buffer));
    let state = network.start(source);
    return target.map((token) => {
      const [step] = network.step([token], [state]);
      state = step.state;
      return { logProbs: Array.from(step.logProbs), weights: step.weights ? Array.from(step.weights) : null };
    });
  },
  /** The ids of the best hypothesis by log-probabilities of each step, of each piece, of the next. */
  search: ({ tables, ...options }) =>
    tables.map((table) => {
      const next = ({ length, token }) => ({ logProbs: Float32Array.from(table[length][token]), state: {} });
      const limits = { bos: 1, eos: 2, forbidden: [0, 1], longest: table.length, least: 0, noRepeat: 0 };
      return path(search((live) => live.map(next), {}, limits, { prefix: [], ...options })).map(({ token }) => token);
    }),
  /** The numbers of each tensor. */
  weights: ({ weights }) => {
    const tensors = readSafetensors(bytes(weights).buffer);
    return Object.fromEntries([...tensors].map(([name, { data }]) => [name, Array.from(data)]));
  },
  /** Pieces of lines, and the lines again. */
  pieces: ({ model, lines }) => {
    const tokenizer = new Tokenizer(bytes(model));
    return lines.map((line) => tokenizer.encode(line)).map((ids) => ({ ids, text: tokenizer.decode(ids) }));
  },
  /** Translations; `clamp`: weights instead of the network's own, by step; `prefix`: pieces that they begin with. */
  translate: async ({ folder, lines, beam, clamp, prefix }) => {
    const translator = await Translator.load(folder);
    const weights = clamp && ((step) => clamp[step]);
    return lines.map((line) => translator.translate(line, { beam, weights, candidates: 3, prefix }));
  },
  /** Translations, and seconds of processor time for all but the first lines, which warm up the compiler. */
  measure: async ({ folder, lines, beam, warm }) => {
    const translator = await Translator.load(folder);
    const translate = (line) => translator.translate(line, { beam });
    const translations = lines.slice(0, warm).map(translate);
    const start = process.cpuUsage();
    translations.push(...lines.slice(warm).map(translate));
    const { user, system } = process.cpuUsage(start);
    return { translations, seconds: (user + system) / 1e6 };
  },
};

const { task, ...request } = JSON.parse(readFileSync(0, "utf8"));
console.log(JSON.stringify(await answers[task](request)));
