"use strict";
// The page: read the report, and show the panel that the address names. Those to explore are built here, at first sight.

const PANELS = { translate: livePanel, attention: attentionPanel, sentences: sentencesPanel, film: filmPanel };

/** Unpack a part of the page: bytes, compressed by gzip, as characters of 7 bits. Some have others in their place. */
function unpacked(id) {
  const text = document.getElementById(id).textContent;
  const bytes = new Uint8Array(Math.floor((text.length * 7) / 8));
  let [bits, count, at] = [0, 0, 0];
  for (let k = 0; k < text.length; k += 1) {
    const code = text.charCodeAt(k);
    bits = (bits << 7) | (code < 128 ? code : REPLACED.charCodeAt(code - 0xa1));
    count += 7;
    if (count < 8) continue;
    count -= 8;
    bytes[at++] = bits >> count;
    bits &= (1 << count) - 1;
  }
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")));
}

const REPLACED = "\0\r\x1b<";

async function start() {
  const report = await unpacked("data").json();
  const sections = new Map(
    [...document.querySelectorAll("main > section")].map((section) => [section.dataset.panel, section]),
  );
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.dataset.panel, link]));
  const panels = new Map();
  const notice = document.getElementById("notice");
  let followed = false; // a link, not the back button
  const place = navigation(read, (state) => keepFocus(() => show(state)));
  document.addEventListener("click", (event) => (followed = event.target.closest?.("main a[href^='#']") !== null));
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault();
    headingOf(place.state).focus();
  });

  /** The state of an address. If the report lacks what it names, say so, and write the state that is shown instead. */
  function read(fragment) {
    const { state, missing } = readAddress(report, fragment, [...sections.keys()]);
    tell(missing);
    if (missing.length) history.replaceState(null, "", formatState(state));
    return state;
  }

  function tell(missing) {
    notice.textContent = missing.length ? `This report has ${missing.join(" and ")}. The nearest match is shown.` : "";
  }

  function go(changes, how) {
    tell([]);
    place.go(changes, how);
  }

  function panelOf(name) {
    if (!panels.has(name) && PANELS[name]) {
      const panel = PANELS[name](report, go);
      sections.get(name).append(...panel.body);
      panels.set(name, panel);
    }
    return panels.get(name);
  }

  const headingOf = (state) => sections.get(state.panel).querySelector("h2");

  /** Draw; if what had the focus in a panel is gone then, as another panel is shown, its heading gets the focus. */
  function keepFocus(draw) {
    const before = document.activeElement;
    const inPanel = before.closest("main") !== null;
    draw();
    const after = document.activeElement;
    if (inPanel && !before.getClientRects().length && (after === before || after === document.body)) {
      headingOf(place.state).focus({ preventScroll: !followed });
    }
    followed = false;
  }

  function show(state) {
    for (const [name, section] of sections) {
      section.hidden = name !== state.panel;
      if (name === state.panel) links.get(name).setAttribute("aria-current", "page");
      else links.get(name).removeAttribute("aria-current");
    }
    const link = links.get(state.panel);
    link.href = formatState(state);
    link.closest("ul").scrollLeft = link.offsetLeft - link.closest("ul").offsetLeft - 60; // on a narrow screen
    const about = panelOf(state.panel)?.update(state);
    document.title = [headingOf(state).textContent, about, report.title].filter(Boolean).join(" · ");
  }

  document.querySelector("nav").hidden = false;
  show(place.state);
  let frame = 0;
  window.addEventListener("resize", () => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => show(place.state));
  });
  window.addEventListener("beforeprint", () => {
    for (const [name, section] of sections) {
      section.hidden = false; // on paper all panels follow one another, each as it was left
      if (name !== place.state.panel) panelOf(name)?.update(parseState(links.get(name).hash, [...sections.keys()]));
    }
  });
  window.addEventListener("afterprint", () => show(place.state));
}

document.addEventListener("DOMContentLoaded", () =>
  start().catch((error) => {
    document.getElementById("failed").hidden = false;
    throw error;
  }),
);
