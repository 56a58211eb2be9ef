/* A lane: attribution as a colour band, the series on it, mask and truth as strips. */

/** The time that a box shows from left to right: all of it, unless the box names a part. */
function extent(i, box) {
  if (box.to !== undefined) return [box.from, box.to];
  const { n, edges } = axis(i);
  return [edges[0], edges[n]];
}

/** Walk the columns of a lane pixel by pixel: `take` every column, `paint` what was taken whenever a pixel is full. */
function sweep(i, box, take, paint) {
  const { n, edges } = axis(i);
  const [from, to] = extent(i, box);
  const scale = box.w / (to - from);
  // Whole pixels: fractions of them would leave seams between cells.
  const pixel = (time) => Math.round((box.x + (Math.min(time, to) - from) * scale) * ratio) / ratio;
  let left = pixel(from);
  for (let c = 0; c < n && edges[c] < to; c++) {
    if (edges[c + 1] <= from) continue;
    take(c);
    const right = pixel(edges[c + 1]);
    if (right > left) {
      paint(left, right - left);
      left = right;
    }
  }
}

/** One lane: attribution of method m (none if m < 0) as a colour band, the series on it, mask and truth as strips. */
function drawLane(g, i, k, m, box, { strip = 0, line = 1.3, truth = true } = {}) {
  const base = (i * D + k) * S;
  const none = m < 0;
  g.fillStyle = data.observed ? theme.absent : theme.sequential[0];
  g.fillRect(box.x, box.y, box.w, box.h);
  const levels = none ? null : data["attribution-" + m];
  const signed = !none && methods[m].signed;
  const colours = none ? theme.sequential : coloursOf(m);
  const against = none ? null : againstOf(m);
  const middle = meta.levels / 2;
  let best = -1,
    opposed = false,
    strength = -1; // the strongest level since the last pixel, so that no peak is lost
  sweep(
    i,
    box,
    (c) => {
      if (!seenAt(i, k, c)) return;
      const level = none ? 0 : levels[base + c];
      const size = signed ? Math.abs(level - middle) : level;
      if (size <= strength) return;
      [best, strength] = [level, size];
      opposed = against !== null && bit(data["against-" + m], base + c) > 0;
    },
    (x, w) => {
      if (best >= 0) {
        g.fillStyle = (opposed ? against : colours)[best];
        g.fillRect(x, box.y, w, box.h);
      }
      best = strength = -1;
    },
  );
  const masked = strip > 0 && !none && methods[m].mask;
  const known = strip > 0 && truth && data.truth;
  if (masked) drawStrip(g, i, base, data["mask-" + m], { ...box, y: box.y + box.h - strip, h: strip }, theme.kept);
  if (known) drawStrip(g, i, base, data.truth, { ...box, h: strip }, theme.truth);
  const pad = 3 + (strip ? strip : 0);
  drawSeries(g, i, k, { ...box, y: box.y + pad, h: box.h - 2 * pad }, line);
}

function drawStrip(g, i, base, bits, box, fill) {
  g.fillStyle = theme.card;
  g.fillRect(box.x, box.y, box.w, box.h);
  let any = 0;
  sweep(
    i,
    box,
    (c) => (any |= bit(bits, base + c)),
    (x, w) => {
      if (any) {
        g.fillStyle = fill;
        g.fillRect(x, box.y + 1.5, w, box.h - 3);
      }
      any = 0;
    },
  );
}

function drawSeries(g, i, k, box, width) {
  const { n, t, edges } = axis(i);
  const [from, to] = extent(i, box);
  const base = (i * D + k) * S;
  const scale = box.w / (to - from);
  const high = data.high || data.low;
  const y = (q) => box.y + box.h * (1 - q / meta.fine);
  g.save();
  g.beginPath();
  g.rect(box.x, box.y - 2, box.w, box.h + 4);
  g.clip();
  g.beginPath();
  let pen = false,
    pixel = NaN,
    lowest = 0,
    highest = 0;
  const flush = () => {
    if (Number.isNaN(pixel)) return;
    if (pen) g.lineTo(pixel, y(lowest));
    else g.moveTo(pixel, y(lowest));
    if (highest !== lowest) g.lineTo(pixel, y(highest));
    pen = true;
    pixel = NaN;
  };
  const drawn = (n * (to - from)) / (edges[n] - edges[0]);
  const step = drawn > box.w * 1.5 ? 1 : 0; // more columns than pixels: one vertical stroke from minimum to maximum each
  for (let c = 0; c < n; c++) {
    if ((c + 1 < n && t[c + 1] < from) || (c > 0 && t[c - 1] > to)) continue; // one column beyond either end is drawn too
    if (!seenAt(i, k, c)) {
      flush();
      pen = false;
      continue;
    }
    let x = box.x + (t[c] - from) * scale;
    if (step) x = Math.round(x);
    const a = data.low[base + c],
      b = high[base + c];
    if (x !== pixel) {
      flush();
      [pixel, lowest, highest] = [x, a, b];
    } else [lowest, highest] = [Math.min(lowest, a), Math.max(highest, b)];
    const alone = data.observed && (c === 0 || !seenAt(i, k, c - 1)) && (c === n - 1 || !seenAt(i, k, c + 1));
    if (alone) g.rect(x - 1, y(a) - 1, 2, 2); // a measured step between two gaps would be no line at all
  }
  flush();
  g.strokeStyle = theme.ink;
  g.lineWidth = width;
  g.lineJoin = "round";
  g.stroke();
  g.restore();
}

/** Channels to draw, at most `limit`: those with the largest total attribution, in their own order or the strongest first. */
function chosenChannels(i, list, limit, order = "given") {
  const total = new Float64Array(D);
  for (const m of list) {
    const levels = data["attribution-" + m],
      middle = methods[m].signed ? meta.levels / 2 : 0;
    for (let k = 0; k < D; k++)
      for (let c = 0, at = (i * D + k) * S; c < S; c++, at++) total[k] += Math.abs(levels[at] - middle);
  }
  const strongest = [...total.keys()].sort((a, b) => total[b] - total[a] || a - b).slice(0, limit);
  return order === "strong" ? strongest : strongest.sort((a, b) => a - b);
}

function drawThumbnail(canvas, i, m, width, height) {
  const g = surface(canvas, width, height);
  const list = D > 1 ? chosenChannels(i, [m], FEWER) : [0];
  const each = height / list.length;
  list.forEach((k, row) =>
    drawLane(g, i, k, m, { x: 0, y: row * each, w: width, h: each - (list.length > 1 ? 1 : 0) }, { line: 1 }),
  );
}

const cut = (g, text, width) => {
  if (g.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && g.measureText(text.slice(0, end) + "…").width > width) end--;
  return text.slice(0, end) + "…";
};

const AXIS = 36; // height of a time axis with its label
function drawTimeAxis(g, x, y, w, from, to, label = meta.clock.label) {
  g.font = FONT;
  g.fillStyle = theme.soft;
  g.strokeStyle = theme.soft;
  g.lineWidth = 1;
  g.textAlign = "center";
  for (const v of ticks(from, to, Math.max(2, w / 90))) {
    const at = x + ((v - from) / (to - from)) * w;
    g.beginPath();
    g.moveTo(at, y);
    g.lineTo(at, y + 4);
    g.stroke();
    g.fillText(numberText(v), Math.min(Math.max(at, x + 8), x + w - 8), y + 16);
  }
  g.fillText(label, x + w / 2, y + AXIS - 4);
}
