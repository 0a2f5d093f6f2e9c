// The page: read the report, and show the panel that the address names. Those to explore are built here, at first sight.

import { byId } from "../../web/parts/dom.js";
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
  /** @type {Record<string, HTMLElement>} */
  const sections = {};
  /** @type {Record<string, HTMLAnchorElement>} */
  const links = {};
  for (const section of all("main > section")) sections[String(section.dataset.panel)] = section;
  for (const link of all("nav a")) links[String(link.dataset.panel)] = /** @type {HTMLAnchorElement} */ (link);
  const names = Object.keys(sections);
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

  /** The state of an address. If the report lacks what it names, say so, and write the state that is shown instead. @param {string} fragment */
  function read(fragment) {
    const { state, missing } = readAddress(report, fragment, names);
    tell(missing);
    if (missing.length) history.replaceState(null, "", formatState(state));
    return state;
  }

  /** @param {string[]} missing */
  function tell(missing) {
    notice.textContent = missing.length ? `This report has ${missing.join(" and ")}. The nearest match is shown.` : "";
  }

  /** @type {Go} */
  function go(changes, how) {
    tell([]);
    place.go(changes, how);
  }

  /** Draw a panel; return what it shows, in words. @param {string} name @param {State} state */
  function draw(name, state) {
    if (!PANELS[name]) return "";
    if (!panels[name]) {
      panels[name] = PANELS[name](report, go);
      sections[name].append(...panels[name].body);
    }
    return panels[name].update(state);
  }

  const headingOf = (/** @type {State} */ { panel }) => byId(`${panel}-heading`);

  /** Draw; if what had the focus in a panel is gone then, as another panel is shown, its heading gets the focus. @param {() => void} change */
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
    for (const name of names) {
      sections[name].hidden = name !== state.panel;
      if (name === state.panel) links[name].setAttribute("aria-current", "page");
      else links[name].removeAttribute("aria-current");
    }
    const link = links[state.panel];
    const [list] = all("nav ul");
    link.href = formatState(state);
    list.scrollLeft = link.offsetLeft - list.offsetLeft - 60; // on a narrow screen
    const about = draw(state.panel, state);
    document.title = [headingOf(state).textContent, about, report.title].filter(Boolean).join(" · ");
  }

  all("nav")[0].hidden = false;
  show(place.state);
  let frame = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => show(place.state));
  });
  window.addEventListener("beforeprint", () => {
    for (const name of names) {
      sections[name].hidden = false; // on paper all panels follow one another, each as it was left
      if (name !== place.state.panel) draw(name, parseState(links[name].hash, names));
    }
  });
  window.addEventListener("afterprint", () => show(place.state));
}

document.addEventListener("DOMContentLoaded", () =>
  start().catch((error) => {
    byId("failed").hidden = false;
    throw error;
  }),
);
