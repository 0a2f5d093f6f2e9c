// The beam as a tree: each piece of each hypothesis, where hypotheses part, and where they die.

import { path, score } from "../../web/engine/search.js";
import { decimal, element } from "../../web/parts/dom.js";

/**
 * @typedef {import("../../web/engine/search.js").Hypothesis} Hypothesis
 * @typedef {import("../../web/engine/search.js").BeamStep} BeamStep
 *
 * @typedef {object} BeamNode a piece of a hypothesis
 * @property {Hypothesis} hypothesis
 * @property {BeamNode | null} parent
 * @property {BeamNode[]} children best descendant first
 * @property {number} step from 1; 0 is the root
 * @property {number} lane from 0, which is the translation's
 * @property {"lives" | "dies" | "ends" | "left"} fate left: the search ended before it
 * @property {number} best score of the best translation that goes through it; minus infinity if none does
 */

/**
 * The hypotheses of a search as a tree, laid out in lanes: the translation is the first one, branches below it.
 *
 * @param {BeamStep[]} steps
 * @param {number} alpha exponent of the length penalty
 * @returns {BeamNode[]} parents before children
 */
export function beamTree(steps, alpha) {
  /** @type {Map<Hypothesis, BeamNode>} */
  const nodes = new Map();
  const node = (/** @type {Hypothesis} */ hypothesis) => {
    const found = nodes.get(hypothesis);
    if (found) return found;
    /** @type {BeamNode | null} */
    const parent = hypothesis.parent && node(hypothesis.parent);
    /** @type {BeamNode} */
    const made = { hypothesis, parent, children: [], step: hypothesis.length, lane: 0, fate: "dies", best: -Infinity };
    parent?.children.push(made);
    nodes.set(hypothesis, made);
    return made;
  };
  for (const { live, ended } of steps) {
    live.forEach(node);
    for (const each of ended) {
      const last = node(each);
      last.fate = "ends";
      /** @type {BeamNode | null} */
      let above = last;
      for (; above; above = above.parent) above.best = Math.max(above.best, score(each, alpha));
    }
  }
  const all = [...nodes.values()];
  for (const each of all) {
    if (each.children.length) each.fate = "lives";
    else if (each.fate === "dies" && each.step === steps.length) each.fate = "left";
    each.children.sort((a, b) => b.best - a.best || b.hypothesis.logProb - a.hypothesis.logProb);
  }
  layOut(all[0]);
  return all.sort((a, b) => a.step - b.step || a.lane - b.lane);
}

/** Give every node a lane: a chain of first children stays in one, the others branch off below. @param {BeamNode} root */
function layOut(root) {
  /** Steps that are taken, by lane. @type {[number, number][][]} */
  const taken = [];
  const isFree = (/** @type {number} */ lane, /** @type {number} */ from, /** @type {number} */ to) =>
    (taken[lane] ?? []).every(([begin, end]) => to < begin || end < from);
  const chain = (/** @type {BeamNode} */ first, /** @type {number} */ lowest) => {
    const line = [first];
    for (let last = first; last.children.length; line.push(last)) last = last.children[0];
    const [from, to] = [first.step, first.step + line.length]; // one more: its end is written there
    let lane = lowest;
    while (!isFree(lane, from, to)) lane += 1;
    (taken[lane] ??= []).push([from, to]);
    for (const each of line) each.lane = lane;
    for (const each of line.reverse()) for (const branch of each.children.slice(1)) chain(branch, lane + 1);
  };
  chain(root, 0);
}

/**
 * {node, draw(reading)}; `branch(pieces)` is called with the pieces that lead to a node that is chosen.
 *
 * @param {(pieces: string[]) => void} branch
 * @param {Langs} langs
 */
export function beamView(branch, langs) {
  const tree = element("div", { class: "tree", role: "group", "aria-label": "Beam" });
  const description = element("p", { class: "description" });
  const note =
    "Every line is a hypothesis. × is where it dies: better ones fill the beam. ■ is where it ends, with its score. Choose a piece to begin the translation with it.";
  const picture = element("div", { class: "scroll" }, tree);
  let drawn = /** @type {LiveReading | null} */ (null);

  /** @param {LiveReading} reading */
  function draw(reading) {
    if (reading === drawn) return;
    drawn = reading;
    const { pieces } = reading.translator.target;
    const alpha = reading.translator.config.decoding.length_penalty;
    const nodes = beamTree(reading.beam, alpha);
    const buttons = nodes.slice(1).map((node) => {
      const best = node.lane === 0;
      const written = node.hypothesis.ended ? [] : [pieces[node.hypothesis.token].replace(/^▁(?=.)/, "")];
      const end = node.fate === "ends" ? [`■ ${decimal(score(node.hypothesis, alpha), 2)}`] : [];
      return element(
        "button",
        {
          type: "button",
          tabindex: "-1",
          class: `node ${node.fate}${best ? " best" : ""}`,
          css: { "--x": node.step - 1, "--y": node.lane },
          "aria-label": inWords(node),
          on: {
            click: () =>
              branch(
                path(node.hypothesis)
                  .filter(({ ended }) => !ended)
                  .map(({ token }) => pieces[token]),
              ),
            focus: () => describe(node),
            pointerenter: () => describe(node),
          },
        },
        element("bdi", { lang: langs.target }, [...written, ...end].join(" ")),
        node.fate === "dies" ? element("span", { class: "dead", "aria-hidden": "true" }, "×") : null,
      );
    });
    const columns = Math.max(...nodes.map(({ step }) => step));
    const lanes = Math.max(...nodes.map(({ lane }) => lane)) + 1;
    tree.style.setProperty("--columns", String(columns));
    tree.style.setProperty("--lanes", String(lanes));
    const hadFocus = tree.contains(document.activeElement);
    tree.replaceChildren(lines(nodes, columns, lanes), ...buttons);
    if (buttons.length) buttons[0].tabIndex = 0;
    tree.onkeydown = (event) => move(event, nodes.slice(1), buttons);
    describe(nodes.filter(({ lane }) => lane === 0).at(-1));
    if (hadFocus) buttons[0]?.focus({ preventScroll: true });

    /** A hypothesis in words. @param {BeamNode} node */
    function inWords(node) {
      const text = path(node.hypothesis)
        .map(({ token }) => pieces[token])
        .join("")
        .replaceAll("▁", " ")
        .trim();
      const fate = {
        lives: "goes on",
        dies: "dies here: better ones fill the beam",
        ends: `ends, with score ${decimal(score(node.hypothesis, alpha), 2)}`,
        left: "is left when the search ends: it can win no more",
      }[node.fate];
      return `“${text}”, log p ${decimal(node.hypothesis.logProb, 2)}, ${fate}`;
    }

    /** @param {BeamNode | undefined} node */
    function describe(node) {
      description.textContent = node ? inWords(node) : "";
    }
  }
  return { node: element("div", {}, element("p", { class: "note" }, note), picture, description), draw };
}

/** Move the focus along the tree. @param {KeyboardEvent} event @param {BeamNode[]} nodes @param {HTMLElement[]} buttons */
function move(event, nodes, buttons) {
  const at = nodes[buttons.indexOf(/** @type {HTMLElement} */ (event.target))];
  if (!at || event.altKey || event.metaKey) return; // the browser's keys
  const beside = (/** @type {number} */ side) =>
    nodes
      .filter(({ step, lane }) => step === at.step && Math.sign(lane - at.lane) === side)
      .sort((a, b) => side * (a.lane - b.lane))[0];
  const to = { ArrowLeft: at.parent, ArrowRight: at.children[0], ArrowUp: beside(-1), ArrowDown: beside(1) }[event.key];
  const button = to && buttons[nodes.indexOf(to)];
  if (!button) return;
  event.preventDefault();
  for (const each of buttons) each.tabIndex = each === button ? 0 : -1;
  button.focus();
}

/**
 * The lines from piece to piece, in units of columns and lanes.
 *
 * @param {BeamNode[]} nodes
 * @param {number} columns
 * @param {number} lanes
 */
function lines(nodes, columns, lanes) {
  const make = (/** @type {string} */ tag, /** @type {Record<string, string>} */ attributes) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  };
  const picture = make("svg", {
    viewBox: `0 0 ${columns} ${lanes}`,
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
  for (const { parent, step, lane } of nodes) {
    if (!parent?.parent) continue; // no line leads from the root
    const [x, y, u, v] = [parent.step - 0.5, parent.lane + 0.5, step - 0.5, lane + 0.5];
    const curve = `M${x} ${y}C${x + 0.5} ${y} ${u - 0.5} ${v} ${u} ${v}`;
    picture.append(make("path", { d: curve, class: lane === 0 ? "best" : "" }));
  }
  return picture;
}
