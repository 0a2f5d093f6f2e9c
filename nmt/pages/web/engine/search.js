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
 * @property {boolean} ended
 *
 * @typedef {object} BeamStep what one step of a beam saw, for those who want to draw it
 * @property {Hypothesis[]} live
 * @property {Hypothesis[]} ended
 */

/** ((5 + length) / 6)^alpha (Wu et al. 2016, eq. 14). @param {number} length @param {number} alpha */
export const penalty = (length, alpha) => ((5 + length) / 6) ** alpha;

/**
 * The best hypotheses of a sentence, best first; a beam of one is greedy search.
 *
 * @param {Stepper} step
 * @param {State} start
 * @param {Limits} limits
 * @param {object} options
 * @param {number} options.beam
 * @param {number} options.lengthPenalty
 * @param {number} [options.best] hypotheses that are returned
 * @param {number[]} [options.prefix] pieces that every translation begins with
 * @param {(step: BeamStep) => void} [options.watch] is called at each step
 * @returns {Hypothesis[]}
 */
export function search(step, start, limits, { beam, lengthPenalty, best = 1, watch, prefix = [] }) {
  /** @type {Hypothesis[]} */
  let live = [{ parent: null, token: limits.bos, logProb: 0, length: 0, state: start, ended: false }];
  /** @type {Hypothesis[]} */
  const finished = [];
  const score = (/** @type {Hypothesis} */ { logProb, length }) => logProb / penalty(length, lengthPenalty);
  const allowed = (/** @type {Float32Array} */ logProbs, /** @type {Hypothesis} */ parent) => {
    const found = likeliest(logProbs, beam + 1, excluded(parent, limits));
    return found.length ? found : [limits.eos]; // one to which the rules leave nothing may end
  };
  for (let length = 1; ; length += 1) {
    const forced = prefix[length - 1];
    const steps = step(live);
    const candidates = live.flatMap((parent, rank) => {
      const { logProbs, state, weights } = steps[rank];
      const tokens = forced === undefined ? allowed(logProbs, parent) : [forced];
      return tokens.map((token) => {
        const logProb = Math.fround(parent.logProb + logProbs[token]);
        return { parent, token, logProb, length, state, weights, ended: token === limits.eos };
      });
    });
    candidates.sort((a, b) => b.logProb - a.logProb); // stable: equal ones keep their order
    const ranked = candidates.slice(0, 2 * beam);
    const last = length >= limits.longest;
    live = ranked.filter(({ ended }) => !ended).slice(0, beam);
    const ended = ranked.filter((each, rank) => (each.ended && rank < beam) || (last && live.includes(each)));
    finished.push(...ended);
    watch?.({ live, ended });
    const kept = finished.map(score).sort((a, b) => b - a);
    const top = live.reduce((most, { logProb }) => Math.max(most, logProb), -Infinity);
    const beaten = finished.length >= beam && top / penalty(length, lengthPenalty) <= kept[0];
    const hopeless = top / penalty(limits.longest, lengthPenalty) <= (kept[best - 1] ?? -Infinity);
    if (last || beaten || hopeless || !live.length) break;
  }
  return finished.sort((a, b) => score(b) - score(a)).slice(0, best);
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
 * @param {number[]} forbidden ids to leave out
 */
export function likeliest(logProbs, count, forbidden) {
  /** @type {number[]} */
  const found = [];
  for (let id = 0; id < logProbs.length; id += 1) {
    if (found.length === count && logProbs[id] <= logProbs[found[count - 1]]) continue;
    if (forbidden.includes(id) || Number.isNaN(logProbs[id])) continue;
    let place = found.length;
    while (place > 0 && logProbs[found[place - 1]] < logProbs[id]) place -= 1;
    found.splice(place, 0, id);
    if (found.length > count) found.pop();
  }
  return found;
}

/** The steps of a hypothesis from the first piece on. @param {Hypothesis} last @returns {Hypothesis[]} */
export function path(last) {
  const steps = [];
  for (let each = last; each.parent; each = each.parent) steps.push(each);
  return steps.reverse();
}
