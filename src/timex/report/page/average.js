/* Averages of several explanations: around the middle of each one's heaviest span, and over time as it runs. */

const MOST = 2000; // explanations averaged at most: more would not change the picture, only delay it

/** At most MOST of some explanations, evenly spread. */
const spread = (list) => (list.length <= MOST ? list : Array.from({ length: MOST }, (_, j) => list[Math.floor((j * list.length) / MOST)]));

/** Columns of the heaviest span of explanation i, or null if it has none. */
function heaviest(i, m) {
  if (!data[`span-count-${m}`][i]) return null;
  const at = i * meta.spans;
  const [from, to] = [0, 1].map((end) => columnAt(i, clockAt(data[`span-ends-${m}`][2 * at + end])));
  return { k: data[`span-channel-${m}`][at], from, to };
}

/** Mean attribution, mean value and its deviation of every channel, `half` columns to both sides of the heaviest span's middle. */
function alignedAverage(list, m) {
  const events = spread(list)
    .map((i) => ({ i, span: heaviest(i, m) }))
    .filter(({ span }) => span);
  if (!events.length) return null;
  const lengths = events.map(({ span }) => span.to - span.from + 1).sort((a, b) => a - b);
  const half = Math.min(Math.floor(S / 2), Math.max(8, 2 * lengths[lengths.length >> 1]));
  const size = 2 * half + 1;
  const [attribution, value, square, seen] = Array.from({ length: 4 }, () => new Float64Array(D * size));
  for (const { i, span } of events) {
    const { n } = axis(i);
    const first = Math.round((span.from + span.to) / 2) - half;
    for (let k = 0; k < D; k++)
      for (let o = 0; o < size; o++) {
        const c = first + o;
        if (c < 0 || c >= n || !seenAt(i, k, c)) continue;
        const v = valueAt(i, k, c);
        const at = k * size + o;
        attribution[at] += attributionAt(i, k, c, m);
        value[at] += v;
        square[at] += v * v;
        seen[at]++;
      }
  }
  const least = Math.max(1, 0.1 * events.length); // a mean of a few series at the ends would mislead
  const mean = (sums) => sums.map((v, at) => (seen[at] >= least ? v / seen[at] : NaN));
  const middle = mean(value);
  const deviation = mean(square).map((v, at) => Math.sqrt(Math.max(0, v - middle[at] ** 2)));
  return { half, size, n: events.length, attribution: mean(attribution), value: middle, deviation };
}

/** The share of the kept attribution (of all where nothing is kept) that every channel has in some explanations. */
function channelShares(list, m) {
  const total = (bits) => {
    const sums = new Float64Array(D);
    for (const i of spread(list))
      for (let k = 0, at = i * D * S; k < D; k++)
        for (let c = 0; c < S; c++, at++) {
          if ((data.observed && !bit(data.observed, at)) || (bits && !bit(bits, at))) continue;
          sums[k] += Math.abs(attributionAt(i, k, c, m));
        }
    return sums;
  };
  let sums = methods[m].mask ? total(data["mask-" + m]) : total(null);
  if (!sums.some((v) => v > 0)) sums = total(null);
  const all = sums.reduce((a, b) => a + b, 0) || 1;
  return Array.from(sums, (v) => v / all);
}

/** The channels drawn in an average: those with the largest attribution, in their own order. */
function averageChannels(average) {
  const total = Array.from({ length: D }, (_, k) =>
    average.attribution.subarray(k * average.size, (k + 1) * average.size).reduce((sum, v) => sum + Math.abs(v || 0), 0),
  );
  const order = [...total.keys()].sort((a, b) => total[b] - total[a] || a - b).slice(0, FEWER);
  return order.sort((a, b) => a - b);
}

const topOf = (values) => values.reduce((most, v) => (Math.abs(v) > most ? Math.abs(v) : most), 0);

/** How one column of an average is called on the axis: a step, or a length of time if all series share their times. */
function averageUnit() {
  const { n, edges } = meta.times ? axis(0) : { n: 1, edges: [0, 1] };
  const width = (edges[n] - edges[0]) / n;
  if (meta.clock.unit) return { width, label: `${meta.clock.unit} from the middle of the span` };
  if (meta.times && !inSteps) return { width, label: "time from the middle of the span" };
  return { width: meta.width, label: "steps from the middle of the span" };
}

/** Draw an average: a lane per channel, colours for the mean attribution up to `top`, the mean value with its deviation. */
function paintAverage(g, average, m, top, width) {
  const list = averageChannels(average);
  const gutter = D > 1 ? Math.min(110, width * 0.28) : 44;
  const h = averageLane(list.length);
  const box = { x: gutter, w: width - gutter - 6, h: h - 4 };
  const { size, half } = average;
  list.forEach((k, row) => {
    const part = (values) => values.subarray(k * size, (k + 1) * size);
    const lane = { ...box, y: row * h };
    paintBand(g, part(average.attribution), top, m, lane);
    paintMean(g, part(average.value), part(average.deviation), lane);
    g.fillStyle = theme.ink;
    g.textAlign = "right";
    g.font = FONT;
    if (D > 1) g.fillText(cut(g, channels[k], gutter - 8), gutter - 8, lane.y + h / 2 + 4);
  });
  const unit = averageUnit();
  drawTimeAxis(g, box.x, list.length * h, box.w, -(half + 0.5) * unit.width, (half + 0.5) * unit.width, unit.label);
}

const averageLane = (lanes) => (lanes === 1 ? 110 : lanes <= 2 ? 84 : 60);
const averageHeight = (average) => averageChannels(average).length * averageLane(averageChannels(average).length) + AXIS;

/** Values as colours from left to right, on the scale of method m up to `top`. */
function paintBand(g, values, top, m, box) {
  const signed = methods[m].signed;
  const colours = signed ? theme.diverging : theme.sequential;
  const step = box.w / values.length;
  g.fillStyle = theme.absent;
  g.fillRect(box.x, box.y, box.w, box.h);
  values.forEach((v, c) => {
    if (Number.isNaN(v)) return;
    const share = Math.min(1, Math.max(-1, v / (top || 1)));
    g.fillStyle = colours[Math.round((signed ? (share + 1) / 2 : Math.max(0, share)) * meta.levels)];
    const left = Math.round((box.x + c * step) * ratio) / ratio;
    g.fillRect(left, box.y, Math.round((box.x + (c + 1) * step) * ratio) / ratio - left, box.h);
  });
}

/** The mean of the series as a line, a deviation to both sides of it as two thin ones. */
function paintMean(g, value, deviation, box) {
  const known = [...value.keys()].filter((c) => !Number.isNaN(value[c]));
  if (!known.length) return;
  const low = Math.min(...known.map((c) => value[c] - deviation[c]));
  const high = Math.max(...known.map((c) => value[c] + deviation[c]));
  const y = (v) => box.y + 4 + (box.h - 8) * (1 - (v - low) / (high - low || 1));
  const line = (at, width, alpha) => {
    g.beginPath();
    known.forEach((c, j) => {
      const x = box.x + ((c + 0.5) / value.length) * box.w;
      if (j && known[j - 1] === c - 1) g.lineTo(x, y(at(c)));
      else g.moveTo(x, y(at(c)));
    });
    Object.assign(g, { strokeStyle: theme.ink, lineWidth: width, globalAlpha: alpha });
    g.stroke();
    g.globalAlpha = 1;
  };
  line((c) => value[c], 1.6, 1);
  line((c) => value[c] - deviation[c], 0.8, 0.45);
  line((c) => value[c] + deviation[c], 0.8, 0.45);
  g.font = "11px system-ui, sans-serif";
  g.textAlign = "right";
  g.fillStyle = theme.soft;
  if (D > 1) return;
  g.fillText(numberText(high), box.x - 6, box.y + 12);
  g.fillText(numberText(low), box.x - 6, box.y + box.h - 3);
}

/** A figure of the average of some explanations, with buttons to save it; a line of text if they have no span. */
function averageFigure(list, m, name, shared = null) {
  const average = alignedAverage(list, m);
  if (!average) return make("p", { className: "note" }, "No explanation here has a span that stands out.");
  const top = shared ?? topOf(average.attribution);
  const canvas = make("canvas", { className: "average" });
  canvas.setAttribute("role", "img");
  const title = `Average of ${average.n.toLocaleString("en")} explanations around their heaviest span`;
  canvas.setAttribute("aria-label", title);
  const save = figureButtons(() => [
    `average-${name}`,
    title,
    { width: canvas.clientWidth, height: averageHeight(average) },
    (g) => paintAverage(g, average, m, top, canvas.clientWidth),
  ]);
  const note = `Line: mean value, thin lines: one deviation. Colour: mean attribution, 0 to ${numberText(top)}.`;
  const figure = make("figure", {}, canvas, make("figcaption", { className: "note" }, note, " ", ...save));
  // Drawn once the figure has a place on the page, and with it a width.
  requestAnimationFrame(() => {
    const [width, height] = [Math.max(200, canvas.clientWidth), averageHeight(average)];
    canvas.style.height = `${height}px`;
    paintAverage(surface(canvas, width, height), average, m, top, width);
  });
  return figure;
}
