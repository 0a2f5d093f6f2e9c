// What is shown is a value: a flat object of texts, written in the address after "#": attention=17&system=luong.
// The first key is the panel. Panels get the state and hand back changes; nothing else remembers anything.

/**
 * Read a state from the fragment of an address; an unknown panel is the first one.
 *
 * @param {string} fragment
 * @param {string[]} panels
 * @returns {State}
 */
export function parseState(fragment, panels) {
  const pairs = [...new URLSearchParams(fragment.replace(/^#/, ""))];
  const panel = pairs.length && panels.includes(pairs[0][0]) ? pairs[0][0] : panels[0];
  return { ...Object.fromEntries(pairs.filter(([key]) => !panels.includes(key) || key === panel)), panel };
}

/** The fragment of a state, panel first; empty values are left out. @param {State} state */
export function formatState({ panel, ...values }) {
  const own = values[panel] ?? "";
  const pairs = Object.entries(values).filter(([key, value]) => key !== panel && value !== null && value !== "");
  const rest = new URLSearchParams(pairs).toString();
  return `#${encodeURIComponent(panel)}${own === "" ? "" : `=${encodeURIComponent(own)}`}${rest && `&${rest}`}`;
}

/**
 * The value of a key if it is one of the options, else the first option.
 *
 * @param {State} state
 * @param {string} key
 * @param {string[]} options
 */
export function choice(state, key, options) {
  return options.includes(state[key]) ? state[key] : options[0];
}

/**
 * A number of the state between bounds, or the default.
 *
 * @param {State} state
 * @param {string} key
 * @param {number} low
 * @param {number} high
 * @param {number} otherwise
 */
export function numberIn(state, key, low, high, otherwise) {
  const value = Number(state[key] || NaN);
  return Number.isFinite(value) ? Math.min(Math.max(value, low), high) : otherwise;
}

/**
 * Keep the state in the address, which `read(fragment)` reads; `show(state)` draws it. Choices add to the history; steps
 * and sliders replace.
 *
 * @param {(fragment: string) => State} read
 * @param {(state: State) => void} show
 */
export function navigation(read, show) {
  let state = read(location.hash);
  let pending = 0; // a timer
  const write = () => {
    clearTimeout(pending);
    pending = 0;
    if (formatState(state) !== location.hash) history.replaceState(null, "", formatState(state));
  };
  window.addEventListener("popstate", () => {
    clearTimeout(pending);
    pending = 0;
    state = read(location.hash);
    show(state);
  });
  document.addEventListener("click", () => pending && write(), true); // before a link is followed
  return {
    get state() {
      return state;
    },
    /** Change the state. `replace`: without an entry in the history (written a moment later: browsers limit the rate). */
    go(/** @type {Record<string, string>} */ changes, { replace = false } = {}) {
      const next = { ...state, ...changes };
      if (formatState(next) === formatState(state)) return;
      if (pending && !replace) write();
      state = next;
      if (replace) {
        clearTimeout(pending);
        pending = setTimeout(write, 200);
      } else {
        history.pushState(null, "", formatState(state));
      }
      show(state);
    },
  };
}
