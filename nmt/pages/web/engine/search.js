/** Greedy and beam search, as in nmt/search: the same hypotheses in the same order. */

/**
 * @typedef {import("./network.js").State} State
 * @typedef {import("./network.js").Step} Step
 * @typedef {(live: Hypothesis[]) => Step[]} Stepper goes one piece further in each
 *
 * @typedef {object} Limits
 * @property {number} bos
 * @property {number} eos
 * @property {number[]} forbidden ids that are never written
 * @property {number} longest the most pieces, the end symbol counted
 * @property {number} least the fewest pieces, the end symbol not counted
 * @property {number} noRepeat pieces in a row that a hypothesis writes only once; 0: any may repeat
 *
 * @typedef {object} Hypothesis a beginning of a translation; the empty one has no parent
 * @property {Hypothesis | null} parent
 * @property {number} token the last piece
 * @property {number} logProb of all pieces
 * @property {number} length pieces
 * @property {State} state after the piece before the last
 * @property {Float32Array} [weights] that the last piece was written with
 * @property {Float32Array} [readout] from which the last piece was chosen
 * @property {[string, number][]} [likely] pieces that were likely in place of the last
 * @property {boolean} ended
 *
 * @typedef {object} BeamStep what one step of a beam saw, for those who want to draw it
 * @property {Hypothesis[]} live
 * @property {Hypothesis[]} ended
 *
 * @typedef {object} SearchOptions
 * @property {number} beam hypotheses that are kept; one: greedy search
 * @property {number} lengthPenalty
 * @property {number[]} prefix pieces that every translation begins with
 * @property {(step: BeamStep) => void} [watch] is called at each step
 */

/**
 * log p / ((5 + length) / 6)^alpha (Wu et al. 2016, eq. 14).
 *
 * @param {{logProb: number, length: number}} hypothesis
 * @param {number} alpha
 */
export const score = ({ logProb, length }, alpha) => logProb / ((5 + length) / 6) ** alpha;

/**
 * The best hypothesis of a sentence.
 *
 * @param {Stepper} step
 * @param {State} start
 * @param {Limits} limits
 * @param {SearchOptions} options
 * @returns {Hypothesis}
 */
export function search(step, start, limits, { beam, lengthPenalty: alpha, prefix, watch }) {
  /** @type {Hypothesis[]} */
  let live = [{ parent: null, token: limits.bos, logProb: 0, length: 0, state: start, ended: false }];
  /** @type {Hypothesis[]} */
  const finished = [];
  for (let length = 1; ; length += 1) {
    const forced = prefix.slice(length - 1, length);
    const steps = step(live);
    const candidates = live.flatMap((parent, rank) => {
      const { logProbs, ...made } = steps[rank];
      // a beam compares sums in fp32: pieces of different probability can have equal ones
      const compared = beam > 1 ? logProbs.map((logProb) => parent.logProb + logProb) : logProbs;
      const tokens = forced.length ? forced : likeliest(compared, beam + 1, excluded(parent, limits));
      if (!tokens.length) tokens.push(limits.eos); // one to which the rules leave nothing may end
      return tokens.map((token) => {
        const logProb = Math.fround(parent.logProb + logProbs[token]);
        return { ...made, parent, token, logProb, length, ended: token === limits.eos };
      });
    });
    candidates.sort((a, b) => b.logProb - a.logProb); // stable: equal ones keep their order
    const ranked = candidates.slice(0, 2 * beam);
    const last = length >= limits.longest;
    live = ranked.filter(({ ended }) => !ended).slice(0, beam);
    const ended = ranked.filter((each, rank) => (each.ended && rank < beam) || (last && live.includes(each)));
    finished.push(...ended);
    finished.sort((a, b) => score(b, alpha) - score(a, alpha));
    watch?.({ live, ended });
    const reached = finished.length ? score(finished[0], alpha) : -Infinity;
    const logProb = live.length ? live[0].logProb : -Infinity;
    const beaten = finished.length >= beam && score({ logProb, length }, alpha) <= reached;
    const hopeless = score({ logProb, length: limits.longest }, alpha) <= reached;
    if (!(last || beaten || hopeless)) continue;
    if (Number.isFinite(finished[0]?.logProb)) return finished[0];
    throw new Error(
      "the model gives no finite probability to any translation: its weights are damaged or its training diverged",
    );
  }
}

/** The ids that may not follow, as in nmt/search/rules.py. @param {Hypothesis} last @param {Limits} limits */
function excluded(last, { eos, forbidden, least, noRepeat }) {
  const ids = last.length < least ? [...forbidden, eos] : [...forbidden];
  if (!noRepeat) return ids;
  const history = path(last).map(({ token }) => token);
  const latest = history.slice(history.length - noRepeat + 1);
  for (let first = 0; first + noRepeat <= history.length; first += 1)
    if (latest.every((token, j) => history[first + j] === token)) ids.push(history[first + noRepeat - 1]);
  return ids;
}

/**
 * The ids of the largest numbers, largest first; of equal ones the lower id.
 *
 * @param {Float32Array} logProbs
 * @param {number} count
 * @param {number[]} [forbidden] ids to leave out
 */
export function likeliest(logProbs, count, forbidden = []) {
  /** @type {number[]} */
  const found = [];
  for (let id = 0; id < logProbs.length; id += 1) {
    if (found.length === count && logProbs[id] <= logProbs[found[count - 1]]) continue;
    if (forbidden.includes(id) || Number.isNaN(logProbs[id])) continue;
    const place = found.findIndex((other) => logProbs[other] < logProbs[id]);
    found.splice(place < 0 ? found.length : place, 0, id);
    if (found.length > count) found.pop();
  }
  return found;
}

/** The steps of a hypothesis from the first piece on. @param {Hypothesis} last */
export function path(last) {
  /** @type {Hypothesis[]} */
  const steps = [];
  for (let each = last; each.parent; each = each.parent) steps.unshift(each);
  return steps;
}
