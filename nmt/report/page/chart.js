"use strict";
// One chart for all panels: lines with markers and intervals over a few stops (bins of length, widths, updates).
// It is a list box for the keyboard and for screen readers: each stop is an option whose label says its numbers.

const MARKERS = [
  "M3.5 0A3.5 3.5 0 1 1 -3.5 0A3.5 3.5 0 1 1 3.5 0Z",
  "M-3 -3H3V3H-3Z",
  "M0 -4L3.8 3H-3.8Z",
  "M0 -4.3L4.3 0L0 4.3L-4.3 0Z",
  "M0 4L3.8 -3H-3.8Z",
  "M-4 0L3 -3.8V3.8Z",
  "M4 0L-3 -3.8V3.8Z",
];
const [TAG_WIDTH, TAG_HEIGHT] = [20, 11];
const DASHES = [null, "6 2.5", "2 2", "7 2.5 1.5 2.5"];

/** Color, marker and dashes of the n-th series: 28 differ, as in the toolkit's figures. */
function lookOf(number) {
  return { color: number % 7, marker: MARKERS[number % 7], dash: DASHES[number % 4] };
}

/** About `count` round values that span low to high. */
function roundTicks(low, high, count) {
  const raw = (high - low || 1) / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((value) => value >= raw * 0.999);
  const ticks = [];
  const first = Math.ceil(low / step - 1e-9) + 0; // without + 0 it may be -0
  for (let k = first; k * step <= high + step * 1e-9; k++) ticks.push(k * step);
  return ticks;
}

/** The smallest axis of round values that holds all values that are known; from 0 where `zero`. */
function axisOf(label, values, { zero = true, count = 5 } = {}) {
  const known = values.filter((value) => value !== null && value !== undefined);
  const [low, high] = [Math.min(...known, ...(zero ? [0] : [])), Math.max(...known, ...(zero ? [0] : []))];
  if (!known.length) return { label, low: 0, high: 1, ticks: [0, 1] };
  if (low === high) return { label, low: low - 0.5, high: high + 0.5, ticks: [low] };
  const [first, second] = roundTicks(low, high, count);
  const step = second === undefined ? high - low : second - first;
  const bottom = Math.floor(low / step + 1e-9) * step;
  const top = Math.ceil(high / step - 1e-9) * step;
  return { label, low: bottom, high: top, ticks: roundTicks(bottom, top, count) };
}

/** Draw a chart with one stop for each of `names`; `texts` say the numbers of each. */
function columnChart(host, { names, axis, texts, ...spec }) {
  chart(host, {
    ...spec,
    x: { label: axis, low: -0.5, high: names.length - 0.5, ticks: names.map((text, at) => ({ at, text })) },
    stops: texts.map((text, x) => ({ x, width: 1, text })),
  });
}

/**
 * Draw a chart into `host`.
 *
 * spec: label; x {label, low, high, ticks [{at, text}]}; y {label, low, high, ticks}; height;
 * series [{name, look, points [{x, y, low, high, weak}], tag: a text at its first point, weight "faint" | "strong"}]; bars [{x, width, value}] under the axis;
 * stops [{x, width, text}]; selected: the number of a stop, or -1; hover(number); choose(number, whether by an arrow key).
 */
function chart(host, spec) {
  const hadFocus = host.contains(document.activeElement);
  const width = Math.max(host.clientWidth || 640, 240);
  const height = spec.height ?? (width < 480 ? 240 : 340);
  const bars = spec.bars ? 34 : 0;
  const tags = spec.series.some(({ tag }) => tag) ? TAG_WIDTH : 0;
  const frame = { left: 46, right: width - 12, top: 26, bottom: height - 44 - bars };
  const start = frame.left + tags;
  const x = (value) => start + ((value - spec.x.low) / (spec.x.high - spec.x.low)) * (frame.right - start);
  const y = (value) => frame.bottom - ((value - spec.y.low) / (spec.y.high - spec.y.low)) * (frame.bottom - frame.top);
  const svg = shape("svg", {
    class: "chart",
    viewBox: `0 0 ${width} ${height}`,
    role: "group",
    "aria-label": spec.label,
  });
  svg.append(axes(spec, frame, x, y), stopsOf(svg, spec, frame, x));
  if (spec.bars) svg.append(barsOf(spec, frame, x, height));
  svg.append(
    shape(
      "g",
      { class: "lines", "aria-hidden": "true" },
      spec.series.map((series) => lineOf(series, x, y)),
      tagsOf(spec.series, x, y),
    ),
  );
  host.replaceChildren(svg);
  if (hadFocus) svg.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
}

/** What weak points mean, if any of the `rows` of a chart, one for each bin, is weak; else nothing. */
function weakNote(rows, least) {
  return rows.some(({ n }) => n < least) ? `Hollow points: fewer than ${least} sentences, weak evidence, no interval.` : "";
}

function axes(spec, frame, x, y) {
  const group = shape("g", { class: "axes", "aria-hidden": "true" });
  for (const tick of spec.y.ticks) {
    group.append(
      shape("path", { class: "rule", d: `M${frame.left} ${y(tick)}H${frame.right}` }),
      shape("text", { x: frame.left - 8, y: y(tick) + 4, "text-anchor": "end" }, compact(tick)),
    );
  }
  const room = (frame.right - frame.left) / Math.max(spec.x.ticks.length, 1);
  const longest = Math.max(...spec.x.ticks.map((tick) => tick.text.length), 1) * 7 + 10;
  const each = Math.ceil(longest / room);
  spec.x.ticks.forEach((tick, k) => {
    if (k % each === 0)
      group.append(shape("text", { x: x(tick.at), y: frame.bottom + 18, "text-anchor": "middle" }, tick.text));
  });
  group.append(
    shape("text", { class: "name", x: frame.left - 38, y: 13 }, spec.y.label),
    shape("text", { class: "name", x: frame.right, y: frame.bottom + 36, "text-anchor": "end" }, spec.x.label),
  );
  return group;
}

function barsOf(spec, frame, x, height) {
  const most = Math.max(...spec.bars.map((bar) => bar.value), 1);
  const floor = height - 4;
  return shape(
    "g",
    { class: "bars", "aria-hidden": "true" },
    spec.bars.map(({ x: at, width, value }) => {
      const size = (value / most) * 24;
      const left = x(at - width * 0.4);
      const bar = shape("rect", {
        x: left,
        y: floor - size,
        width: x(at + width * 0.4) - left,
        height: Math.max(size, 0.5),
      });
      const inside = size > 16;
      return [
        bar,
        shape("text", { x: x(at), y: inside ? floor - 4 : floor - size - 3, "text-anchor": "middle" }, compact(value)),
      ];
    }),
    shape("text", { x: frame.left - 8, y: floor, "text-anchor": "end" }, "n"),
  );
}

/** A line through its points; weak ones stand apart from it, hollow and without an interval, as in the figures. */
function lineOf({ name, look, points, weight = "" }, x, y) {
  const there = points.filter((point) => point.y !== null && point.y !== undefined);
  const joined = there.map(({ weak }, k) => k > 0 && !weak && !there[k - 1].weak);
  const path = there
    .map((point, k) => `${joined[k] ? "L" : "M"}${x(point.x).toFixed(1)} ${y(point.y).toFixed(1)}`)
    .join("");
  const color = `series-${look.color}`;
  return shape(
    "g",
    { class: `series ${weight}`, data: { series: name } },
    there
      .filter((point) => !point.weak && point.low !== null && point.low !== undefined)
      .map((point) =>
        shape("path", { class: `interval ${color}`, d: `M${x(point.x)} ${y(point.low)}V${y(point.high)}` }),
      ),
    shape("path", { class: `line ${color}`, d: path, "stroke-dasharray": look.dash }),
    there.length <= 40
      ? there.map((point) =>
          shape("path", {
            class: `marker ${color}${point.weak ? " weak" : ""}`,
            d: look.marker,
            transform: `translate(${x(point.x)} ${y(point.y)})`,
          }),
        )
      : null,
  );
}

/** The tags of series, left of their first points, from top to bottom and none on another. */
function tagsOf(series, x, y) {
  const tagged = series
    .map(({ tag, points }) => ({ tag, at: points.find((point) => point.y !== null && point.y !== undefined) }))
    .filter(({ tag, at }) => tag && at)
    .sort((one, other) => other.at.y - one.at.y);
  let last = -Infinity;
  return tagged.map(({ tag, at }) => {
    last = Math.max(y(at.y) + 4, last + TAG_HEIGHT);
    return shape("text", { class: "tag", x: x(at.x) - 8, y: last, "text-anchor": "end" }, tag);
  });
}

/** The stops as a list box: hover and arrow keys show a stop, click and Enter choose it. */
function stopsOf(svg, spec, frame, x) {
  const { stops, selected = -1, hover = () => {}, choose = () => {} } = spec;
  const first = Math.max(selected, 0);
  const options = stops.map((stop, k) => {
    const left = Math.max(x(stop.x - stop.width / 2), frame.left);
    return shape("rect", {
      class: "stop",
      role: "option",
      tabindex: k === first ? "0" : "-1",
      "aria-selected": String(k === selected),
      "aria-label": stop.text,
      x: left,
      y: frame.top - 6,
      width: Math.max(Math.min(x(stop.x + stop.width / 2), frame.right) - left, 1),
      height: frame.bottom - frame.top + 6,
      on: { pointerenter: () => light(k), focus: () => light(k), click: () => choose(k, false) },
    });
  });
  const light = (k) => {
    options.forEach((option, number) => option.classList.toggle("lit", number === k));
    hover(k);
  };
  svg.addEventListener("pointerleave", () => light(selected));
  const group = shape("g", { role: "listbox", "aria-label": spec.label }, options);
  group.addEventListener("keydown", (event) => {
    const at = options.indexOf(event.target);
    const to = movedBy(event.key, at, options.length);
    if (to === null) return;
    event.preventDefault();
    choose(to, true);
  });
  if (selected >= 0) options[selected]?.classList.add("lit");
  return group;
}

/** The place among `count` that an arrow key, Home or End leads to; the same for Enter; null for other keys. */
function movedBy(key, at, count) {
  const to = {
    ArrowRight: at + 1,
    ArrowDown: at + 1,
    ArrowLeft: at - 1,
    ArrowUp: at - 1,
    Home: 0,
    End: count - 1,
    Enter: at,
    " ": at,
  }[key];
  return to === undefined ? null : Math.min(Math.max(to, 0), count - 1);
}
