/* The canvas of one explanation. */

let hot = []; // lanes on the series canvas: where they are and what they show
const plot = { x: 0, w: 1 }; // the part of that canvas where time runs
const METHOD_HEAD = 22,
  CHANNEL_HEAD = 18;

/** Everything on the canvas of sample `i` at some width: its rows, the room left of them, and the height. */
function sampleLayout(i, width) {
  const narrow = width < 520; // names stand above the lanes then, not beside them
  const every = state.method === ALL;
  const list = every
    ? chosenChannels(i, [...methods.keys()], LANES)
    : chosenChannels(i, [state.method], state.every ? D : FEW, state.order);
  const gutter = narrow ? (every ? 66 : 42) : gutterFor(list);
  const rows = every ? comparisonRows(list) : channelRows(list, narrow);
  const height = rows.reduce((sum, row) => sum + row.h + row.gap + headHeight(row), 0) + AXIS;
  return { i, width, height, every, list, gutter, rows };
}

/** The rows and the time axis, on a canvas or on anything that records like one. Returns the lanes and where they are. */
function paintSample(g, { i, width, every, gutter, rows }) {
  const [from, to] = windowOf(i);
  const lanes = [];
  const [x, w] = [gutter, width - gutter - 6];
  let y = 0;
  for (const row of rows) {
    g.fillStyle = theme.ink;
    g.textAlign = "left";
    if (row.head) {
      g.font = "600 13px system-ui, sans-serif";
      g.fillText(cut(g, row.head, width), 0, y + 15);
    } else if (row.name) {
      g.font = FONT;
      g.fillText(cut(g, row.name, w), x, y + 13);
    }
    y += headHeight(row);
    const box = { x, y, w, h: row.h, from, to };
    drawLane(g, i, row.k, row.m, box, {
      strip: row.h >= 40 || row.m < 0 ? Math.min(11, row.h * 0.2) : 0,
      truth: !every || row.m < 0,
      line: row.h < 40 ? 1 : 1.4,
    });
    drawGutter(g, i, row, box, gutter);
    lanes.push({ ...row, y, box });
    y += row.h + row.gap;
  }
  drawTimeAxis(g, x, y - rows.at(-1).gap + 2, w, from, to);
  return lanes;
}

/** The figure of the sample in view, to be saved. */
function sampleFigure() {
  const i = state.sample;
  const layout = sampleLayout(i, Math.max(640, $("series").clientWidth));
  const method = state.method === ALL ? "all methods" : methods[state.method].name;
  const title = `Sample ${idOf(i)}: ${classes[data.prediction[i]]} (${probability(i, data.prediction[i]).toFixed(2)}), ${method}`;
  return [`sample-${idOf(i)}`, title, layout, (g) => paintSample(g, layout)];
}

function drawSample() {
  const i = state.sample;
  const canvas = $("series");
  const layout = sampleLayout(i, Math.max(240, canvas.parentElement.clientWidth));
  const { width, height, every, list, gutter } = layout;
  canvas.style.height = `${height}px`;
  Object.assign(plot, { x: gutter, w: width - gutter - 6 });
  hot = paintSample(surface(canvas, width, height), layout);
  canvas.setAttribute(
    "aria-label",
    `Sample ${idOf(i)}, ${list.length} of ${D} channels, attribution as colour behind the series. ` +
      "The most important spans are listed below. Plus and minus zoom, Shift with an arrow moves.",
  );
  $("more-channels").hidden = every || D <= FEW;
  $("more-channels").textContent = state.every ? `Show the ${FEW} most important of ${D} channels` : `Show all ${D} channels`;
  fillScale(i);
  fillKey(every, list.length);
  fillZoom(i);
  clearCursor();
}

/** Room for the names of some channels and the ticks of their values, left of the lanes. */
function gutterFor(list) {
  const g = $("series").getContext("2d");
  g.font = FONT;
  const widest = Math.max(...list.map((k) => g.measureText(channels[k]).width));
  return Math.min(170, Math.max(80, widest + 52));
}

const headHeight = (row) => (row.head ? METHOD_HEAD : row.name ? CHANNEL_HEAD : 0);

/** A row per channel of the chosen method, named above the lane where the page is narrow. */
function channelRows(list, narrow) {
  const h = list.length === 1 ? 190 : list.length <= 4 ? 108 : list.length <= 16 ? 74 : 54;
  return list.map((k) => ({ k, m: state.method, h, gap: 8, ticks: true, name: narrow ? channels[k] : null }));
}

/** The series with the truth on top, then a row of lanes per method. */
function comparisonRows(list) {
  const h = list.length === 1 ? 78 : list.length <= 4 ? 40 : 26;
  return [-1, ...methods.keys()].flatMap((m) =>
    list.map((k, j) => ({
      k,
      m,
      h,
      gap: j === list.length - 1 ? 10 : 1,
      head: j ? null : m < 0 ? (data.truth ? "series and ground truth" : "series") : methods[m].name,
    })),
  );
}

function drawGutter(g, i, row, box, gutter) {
  g.font = FONT;
  g.textAlign = "right";
  g.fillStyle = theme.ink;
  const end = gutter - (row.ticks ? 42 : 8);
  if (!row.name) g.fillText(cut(g, channels[row.k], end), end, box.y + box.h / 2 + 4);
  g.strokeStyle = theme.line;
  g.lineWidth = 1;
  g.strokeRect(box.x + 0.5, box.y + 0.5, box.w - 1, box.h - 1);
  if (!row.ticks) return;
  const at = (i * D + row.k) * 2,
    low = data.range[at],
    high = data.range[at + 1];
  const strip = Math.min(11, box.h * 0.2) + 3;
  g.font = "11px system-ui, sans-serif";
  g.fillStyle = theme.soft;
  for (const v of high > low ? ticks(low, high, box.h > 100 ? 4 : 2) : [low]) {
    const y = high > low ? box.y + strip + (box.h - 2 * strip) * (1 - (v - low) / (high - low)) : box.y + box.h - strip;
    g.fillText(numberText(v), gutter - 6, y + 4);
  }
}

function fillScale(i) {
  const m = state.method;
  if (m === ALL) return $("scale").replaceChildren(make("span", {}, "colour: each method on its own scale"));
  const [low, high] = scaleOf(i, m);
  const [colours, against] = [coloursOf(m), againstOf(m)];
  // From the strongest cell against the class to the strongest one for it, where the method gives a direction.
  const steps = against ? [...against.slice(1).reverse(), ...colours] : colours;
  const canvas = make("canvas", { id: "scale-colours" });
  const g = surface(canvas, 90, 10);
  for (let x = 0; x < 90; x++) {
    g.fillStyle = steps[Math.round((x / 89) * (steps.length - 1))];
    g.fillRect(x, 0, 1, 10);
  }
  const from = numberText(against ? -high : low);
  $("scale").replaceChildren(make("span", {}, `attribution ${from}`), canvas, make("span", {}, numberText(high)));
}

function fillKey(every, drawn) {
  const items = [];
  const add = (fill, words) => {
    const box = make("i");
    box.style.background = fill;
    items.push(make("span", {}, box, words));
  };
  if (!every && methods[state.method].mask) add(theme.kept, "mask: cells kept");
  if (data.truth) add(meta.style.truth, "ground truth");
  if (data.observed) add(theme.absent, "not observed");
  if (!every && methods[state.method].probability)
    items.push(make("span", {}, meta.prior > 0 ? `no colour up to the prior ${numberText(meta.prior)}, strong above .5` : "pale up to .5, strong above: kept"));
  if (!every && (methods[state.method].signed || methods[state.method].directed))
    items.push(make("span", {}, "orange speaks for the class, purple against it"));
  if (drawn < D) items.push(make("span", {}, `${drawn} of ${D} channels: those with the largest total attribution`));
  $("series-key").replaceChildren(...items);
}
