// The page: read the report, and show the panel that the address names. Those to explore are built here, at first sight.

import { byId, langsOf } from "../../web/parts/dom.js";
import { readAddress } from "./address.js";
import { attentionPanel } from "./attention.js";
import { unpacked } from "./engines.js";
import { filmPanel } from "./film.js";
import { livePanel } from "./live.js";
import { sentencesPanel } from "./sentences.js";
import { formatState, navigation, parseState } from "./state.js";

/** @type {Record<string, (report: ReportData, go: Go) => Panel>} */
const PANELS = { translate: livePanel, attention: attentionPanel, sentences: sentencesPanel, film: filmPanel };

/** @param {string} selector @returns {HTMLElement[]} */
const all = (selector) => [...document.querySelectorAll(selector)].map((each) => /** @type {HTMLElement} */ (each));

async function start() {
  /** @type {ReportData} */
  const report = await unpacked("data").json();
  report.langs = langsOf(report.languages.source, report.languages.target);
  const { source, target: written } = report.langs;
  for (const node of all("main [lang]")) if (![source, written].includes(node.lang)) node.lang = "";
  const [sections, links] = [all("main > section"), all("nav a")]; // in the same order
  const names = links.map(({ dataset }) => String(dataset.panel));
  /** @type {Record<string, Panel>} */
  const panels = {};
  const notice = byId("notice");
  let followed = false; // a link, not the back button
  const place = navigation(read, (state) => keepFocus(() => show(state)));
  document.addEventListener("click", ({ target }) => {
    followed = target instanceof Element && target.closest("main a[href^='#']") !== null;
  });
  all(".skip")[0].addEventListener("click", (event) => {
    event.preventDefault();
    headingOf(place.state).focus();
  });

  /** The state of an address. If the report lacks what it names, say so, and write what is shown. @param {string} fragment */
  function read(fragment) {
    const { state, missing } = readAddress(report, fragment, names);
    notify(missing);
    if (missing.length) history.replaceState(null, "", formatState(state));
    return state;
  }

  /** @param {string[]} missing */
  function notify(missing) {
    notice.textContent = missing.length ? `This report has ${missing.join(" and ")}. The nearest match is shown.` : "";
  }

  /** @type {Go} */
  function go(changes, how) {
    notify([]);
    place.go(changes, how);
  }

  /** Draw a panel; return what it shows, in words. @param {string} name @param {State} state */
  function draw(name, state) {
    if (!PANELS[name]) return "";
    if (!panels[name]) {
      panels[name] = PANELS[name](report, go);
      sections[names.indexOf(name)].append(...panels[name].body);
    }
    return panels[name].update(state);
  }

  const headingOf = (/** @type {State} */ { panel }) => byId(`${panel}-heading`);

  /** Draw; if another panel is shown then, its heading gets the focus that was in a panel. @param {() => void} change */
  function keepFocus(change) {
    const before = document.activeElement;
    const inPanel = before?.closest("main");
    change();
    const after = document.activeElement;
    if (inPanel && !before?.getClientRects().length && (after === before || after === document.body)) {
      headingOf(place.state).focus({ preventScroll: !followed });
    }
    followed = false;
  }

  /** @param {State} state */
  function show(state) {
    sections.forEach((section, k) => (section.hidden = names[k] !== state.panel));
    for (const link of links) link.removeAttribute("aria-current");
    const link = links[names.indexOf(state.panel)];
    const [list] = all("nav ul");
    link.setAttribute("aria-current", "page");
    link.setAttribute("href", formatState(state));
    list.scrollLeft = link.offsetLeft - list.offsetLeft - 60; // on a narrow screen
    const about = draw(state.panel, state);
    document.title = [headingOf(state).textContent, about, report.title].filter(Boolean).join(" · ");
  }

  for (const image of document.querySelectorAll("img")) {
    const svg = await unpacked(String(image.dataset.part)).text();
    image.src = `data:image/svg+xml,${encodeURIComponent(svg)}`;
  }
  all("nav")[0].hidden = false;
  show(place.state);
  let frame = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => show(place.state));
  });
  window.addEventListener("beforeprint", () => {
    names.forEach((name, k) => {
      sections[k].hidden = false; // on paper all panels follow one another, each as it was left
      if (name !== place.state.panel) draw(name, parseState(links[k].getAttribute("href") ?? "", names));
    });
  });
  window.addEventListener("afterprint", () => show(place.state));
}

document.addEventListener("DOMContentLoaded", () =>
  start().catch((error) => {
    byId("failed").hidden = false;
    throw error;
  }),
);
