/* The part of the time axis that the Sample tab shows, and the values under the pointer. */

const SHORTEST = 4; // columns that stay in view
let brush = null; // where a drag began and where it is, in pixels of the series canvas

/** The first and the last time in view. */
function windowOf(i) {
  const { n, edges } = axis(i);
  const [low, high] = [edges[0], edges[n]];
  if (!state.window) return [low, high];
  const [from, to] = state.window;
  return to > low && from < high ? [Math.max(low, from), Math.min(high, to)] : [low, high];
}

/** Show `from` to `to`, moved and widened until it fits the series; all of it gives no window. */
function setWindow(from, to) {
  const { n, edges } = axis(state.sample);
  const [low, high] = [edges[0], edges[n]];
  const length = Math.min(Math.max(to - from, ((high - low) / n) * SHORTEST), high - low);
  const start = Math.min(Math.max((from + to - length) / 2, low), high - length);
  state.window = length >= (high - low) * 0.999 ? null : [start, start + length];
  drawSample();
  writeFragment();
}

function zoomSeries(factor, at = null) {
  const [from, to] = windowOf(state.sample);
  const middle = at ?? (from + to) / 2;
  setWindow(middle - (middle - from) / factor, middle + (to - middle) / factor);
}

function panSeries(share) {
  const [from, to] = windowOf(state.sample);
  setWindow(from + share * (to - from), to + share * (to - from));
}

function wholeSeries() {
  state.window = null;
  drawSample();
  writeFragment();
}

function fillZoom(i) {
  const { n, edges } = axis(i);
  const [from, to] = windowOf(i);
  const whole = from <= edges[0] && to >= edges[n];
  for (const id of ["series-out", "series-left", "series-right", "series-whole"]) $(id).disabled = whole;
  const part = $("series-part");
  part.hidden = whole;
  part.style.marginLeft = `${plot.x}px`;
  part.style.width = `${plot.w}px`;
  part.firstElementChild.style.marginLeft = `${(100 * (from - edges[0])) / (edges[n] - edges[0])}%`;
  part.firstElementChild.style.width = `${(100 * (to - from)) / (edges[n] - edges[0])}%`;
}

// ------------------------------------------------------------------------------------------------------ the pointer

const timeAt = (x) => {
  const [from, to] = windowOf(state.sample);
  return from + ((x - plot.x) / plot.w) * (to - from);
};

function columnAt(i, time) {
  const { n, edges } = axis(i);
  let c = 0;
  while (c < n - 1 && edges[c + 1] <= time) c++;
  return c;
}

function listenToSeries() {
  const canvas = $("series");
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    const [x] = place(event);
    canvas.setPointerCapture(event.pointerId);
    brush = { from: x, to: x, pan: event.shiftKey ? windowOf(state.sample) : null };
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = place(event);
    if (!brush) return readOut(x, y);
    brush.to = x;
    if (!brush.pan) return drawCursor(null, null);
    const moved = ((brush.from - x) / plot.w) * (brush.pan[1] - brush.pan[0]);
    setWindow(brush.pan[0] + moved, brush.pan[1] + moved);
  });
  canvas.addEventListener("pointerup", (event) => {
    const drawn = brush;
    brush = null;
    clearCursor();
    if (drawn && !drawn.pan && Math.abs(drawn.to - drawn.from) > 6)
      setWindow(...[drawn.from, drawn.to].sort((a, b) => a - b).map(timeAt));
    else readOut(...place(event)); // a tap reads the values, where there is no pointer to hover
  });
  const leave = () => {
    brush = null;
    clearCursor();
  };
  canvas.addEventListener("pointercancel", leave);
  canvas.addEventListener("pointerleave", () => brush || leave());
  canvas.addEventListener("dblclick", wholeSeries);
  const wheel = (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // a plain wheel scrolls the page; a pinch comes with ctrlKey
    event.preventDefault();
    zoomSeries(Math.exp(-event.deltaY * 0.01), timeAt(place(event)[0]));
  };
  canvas.addEventListener("wheel", wheel, { passive: false });
}

function clearCursor() {
  $("readout").textContent = "";
  $("cursor").hidden = true;
}

/** The values under a place of the canvas: in words for the channel pointed at, as labels for every channel in view. */
function readOut(x, y) {
  const row = hot.find((r) => y >= r.y && y < r.y + r.h);
  if (!row || x < plot.x || x >= plot.x + plot.w) return clearCursor();
  const i = state.sample;
  const c = columnAt(i, timeAt(x));
  $("readout").textContent = describe(i, row.k, c, row.m, axis(i).t[c]);
  drawCursor(x, c);
}

/** A line through all lanes at x with the value of every channel at column c, or the span being dragged. */
function drawCursor(x, c) {
  const canvas = $("cursor");
  const under = $("series");
  canvas.hidden = false;
  const [width, height] = [under.clientWidth, under.clientHeight];
  canvas.style.height = `${height}px`;
  const g = surface(canvas, width, height);
  g.fillStyle = g.strokeStyle = theme.accent;
  const bottom = hot.at(-1).y + hot.at(-1).h;
  if (brush) {
    g.globalAlpha = 0.25;
    g.fillRect(Math.min(brush.from, brush.to), 0, Math.abs(brush.to - brush.from), bottom);
    g.globalAlpha = 1;
    return;
  }
  g.fillRect(x - 0.5, 0, 1, bottom);
  g.font = "11px system-ui, sans-serif";
  for (const { k, y, h } of hot) {
    if (h < 20 || !seenAt(state.sample, k, c)) continue;
    const text = numberText(valueAt(state.sample, k, c));
    const wide = g.measureText(text).width + 8;
    const left = x + wide + 6 > width ? x - wide - 4 : x + 4;
    const top = y + Math.min(13, h * 0.2) + 1;
    g.fillStyle = theme.card;
    g.globalAlpha = 0.88;
    g.fillRect(left, top, wide, 15);
    g.globalAlpha = 1;
    g.fillStyle = theme.ink;
    g.fillText(text, left + 4, top + 11);
    g.fillStyle = theme.accent;
  }
}

function describe(i, k, c, m, time) {
  const words = [channels[k], timeText(time, meta.width === 1 ? c + 1 : null)];
  if (!seenAt(i, k, c)) return [...words, "not observed"].join(" · ");
  const low = valueAt(i, k, c),
    high = valueAt(i, k, c, "high");
  words.push(meta.width > 1 ? `values ${numberText(low)} to ${numberText(high)}` : `value ${numberText(low)}`);
  const at = (i * D + k) * S + c;
  if (m >= 0) words.push(`attribution ${numberText(attributionAt(i, k, c, m))}`);
  if (m >= 0 && methods[m].mask) words.push(bit(data["mask-" + m], at) ? "kept" : "not kept");
  if (m >= 0 && methods[m].directed) words.push(bit(data["against-" + m], at) ? "against the class" : "for the class");
  if (data.truth && bit(data.truth, at)) words.push("ground truth");
  return words.join(" · ");
}
