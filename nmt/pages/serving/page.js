// The page of a server, which translates what is typed here.

import { byId, element, langsOf } from "../web/parts/dom.js";
import { linesPage } from "../web/parts/lines.js";

const PAUSE = 250; // milliseconds without a key before a request
const MOST = 100; // lines: each is a request
const SILENT = "The server does not answer.";

/** @param {string} path @param {RequestInit} [request] */
async function ask(path, request) {
  const answer = await fetch(path, request).catch(() => Promise.reject(new Error(SILENT)));
  const content = await answer.json().catch(() => ({ error: `The server answers with status ${answer.status}.` }));
  if (!answer.ok) throw new Error(content.error);
  return content;
}

/** @param {string} line @param {AbortSignal} signal @returns {Promise<Line>} */
async function translate(line, signal) {
  const headers = { "content-type": "application/json" };
  const body = JSON.stringify({ text: line.toWellFormed(), attention: true });
  const { translations } = await ask("translate", { method: "POST", headers, body, signal });
  const [{ source_pieces: sourcePieces, ...others }] = translations;
  return { ...others, sourcePieces, probabilities: [] }; // the candidates have them
}

/** @type {Langs} */
const langs = {};
byId("page").append(...linesPage(translate, PAUSE, langs, MOST));
byId("source").focus();
ask("health").then(
  ({ source_language: from, target_language: to, model }) => {
    byId("source").lang = Object.assign(langs, langsOf(from, to)).source ?? "";
    byId("model").textContent = `${from} to ${to}, system ${model}`;
  },
  (error) => byId("status").replaceChildren(element("span", { role: "alert" }, error.message)),
);
