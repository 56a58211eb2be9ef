"use strict";
/* The page of `timex report`. Plain functions over typed arrays; canvas for whatever has many marks, SVG for curves, the DOM
   for text. Text from the data reaches the page through textContent and fillText only: it is never read as markup.

   n explanations, D channels, S columns of time, C classes. A lane is one channel of one explanation: its S values are one
   contiguous run that starts at (i * D + k) * S. */
(() => {
  const $ = (id) => document.getElementById(id);
  const meta = JSON.parse($("meta").textContent);
  const { channels, classes, methods, landmarks, columns: S, count: N } = meta;
  const D = channels.length;
  const ALL = methods.length; // the number that stands for "all methods, side by side"
  const FEW = 16; // channels drawn before "show all" is asked for
  const LANES = 8; // channels in one row of a comparison
  const FEWER = 4; // channels in a thumbnail
  const NAMED = 7; // landmarks with a colour of their own
  const FILTRATION = 10; // training explanations that make a landmark count, as in the paper
  const data = {}; // unpacked arrays by name
  const landmarkOf = new Map(landmarks.map((l) => [l.number, l]));

  // ---------------------------------------------------------------------------------------------------------- unpacking

  const TYPES = { uint8: Uint8Array, uint32: Uint32Array, float32: Float32Array };

  function fromBase64(text) {
    if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
    const raw = atob(text);
    const bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
    return bytes;
  }

  async function unpack(name) {
    const block = $("array-" + name);
    const stream = new Blob([fromBase64(block.textContent)]).stream().pipeThrough(new DecompressionStream("deflate"));
    const buffer = await new Response(stream).arrayBuffer();
    data[name] = meta.arrays[name] === "uint16" ? joined(new Uint8Array(buffer)) : new TYPES[meta.arrays[name]](buffer);
    block.remove();
  }

  /** Two-byte numbers from all their low bytes followed by all their high ones. */
  function joined(bytes) {
    const n = bytes.length / 2;
    const values = new Uint16Array(n);
    for (let i = 0; i < n; i++) values[i] = bytes[i] | (bytes[n + i] << 8);
    return values;
  }

  const bit = (bits, at) => (bits[at >> 3] >> (at & 7)) & 1;

  // -------------------------------------------------------------------------------------------------------------- state

  const state = {
    view: "sample", // sample, landmarks or scores
    sample: 0, // place among the embedded explanations
    landmark: landmarks.length ? 0 : null, // place in the ranking
    colour: "prediction",
    method: 0,
    order: "given",
    every: false, // all channels, not only the FEW strongest
    filter: { class: null, true: null, correct: null, agree: null, near: null },
    lasso: null, // corners in the plane of the map, [[x, y], ...]
    zoom: { x: 0.5, y: 0.5, k: 1 },
  };
  const FIELDS = { class: "prediction", true: "label", correct: "correct", agree: "agreement", near: "landmark" };
  let visible = new Uint8Array(N).fill(1);
  let shown = []; // places of the visible explanations

  const idOf = (i) => (meta.ids ? meta.ids[i] : String(data.sample[i]));
  const probability = (i, c) => data.probability[i * meta.modelClasses + c] / meta.fine;

  function applyFilters() {
    const wanted = Object.entries(state.filter).filter(([key, value]) => value !== null && data[FIELDS[key]]);
    const box = state.lasso && bounds(state.lasso);
    shown = [];
    for (let i = 0; i < N; i++) {
      let kept = wanted.every(([key, value]) => data[FIELDS[key]][i] === value);
      if (kept && box) {
        const x = data.place[2 * i],
          y = data.place[2 * i + 1];
        kept = x >= box[0] && x <= box[1] && y >= box[2] && y <= box[3] && inside(state.lasso, x, y);
      }
      visible[i] = kept ? 1 : 0;
      if (kept) shown.push(i);
    }
  }

  function bounds(points) {
    const xs = points.map((p) => p[0]),
      ys = points.map((p) => p[1]);
    return [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  }

  function inside(polygon, x, y) {
    let odd = false;
    for (let a = 0, b = polygon.length - 1; a < polygon.length; b = a++) {
      const [ax, ay] = polygon[a],
        [bx, by] = polygon[b];
      if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) odd = !odd;
    }
    return odd;
  }

  // The state in the address, so that a view can be shared: only what differs from the start.

  function writeFragment() {
    const f = new URLSearchParams();
    if (state.view !== "sample") f.set("view", state.view);
    f.set("sample", idOf(state.sample));
    if (state.landmark) f.set("landmark", landmarks[state.landmark].number);
    if (state.colour !== "prediction") f.set("colour", state.colour);
    if (state.method !== 0) f.set("method", state.method === ALL ? "all" : methods[state.method].name);
    if (state.order !== "given") f.set("order", state.order);
    for (const [key, value] of Object.entries(state.filter)) if (value !== null) f.set(key, value);
    if (state.lasso) f.set("lasso", state.lasso.map((p) => p.map((v) => v.toFixed(3)).join(",")).join(";"));
    const { x, y, k } = state.zoom;
    if (k !== 1 || x !== 0.5 || y !== 0.5) f.set("zoom", [x, y, k].map((v) => v.toFixed(3)).join(","));
    try {
      history.replaceState(null, "", "#" + f);
    } catch {
      location.replace("#" + f); // some browsers refuse replaceState on files
    }
  }

  function readFragment() {
    const f = new URLSearchParams(location.hash.slice(1));
    const number = (text) => (text !== null && text !== "" && Number.isFinite(Number(text)) ? Number(text) : null);
    Object.assign(state, { view: "sample", colour: "prediction", method: 0, order: "given", zoom: { x: 0.5, y: 0.5, k: 1 } });
    if (["sample", "landmarks", "scores"].includes(f.get("view"))) state.view = f.get("view");
    if (f.has("sample")) state.sample = Math.max(0, find(f.get("sample")));
    const place = landmarks.findIndex((l) => l.number === number(f.get("landmark")));
    if (place >= 0) state.landmark = place;
    if (colourings().some(([key]) => key === f.get("colour"))) state.colour = f.get("colour");
    const method = f.get("method") === "all" ? ALL : methods.findIndex((m) => m.name === f.get("method"));
    if (method >= 0 && methods.length > 1) state.method = method;
    if (f.get("order") === "strong") state.order = "strong";
    for (const key of Object.keys(state.filter)) state.filter[key] = data[FIELDS[key]] ? number(f.get(key)) : null;
    const corners = (f.get("lasso") || "").split(";").map((p) => p.split(",").map(Number));
    state.lasso = corners.length > 2 && corners.flat().every(Number.isFinite) ? corners : null;
    const zoom = (f.get("zoom") || "").split(",").map(Number);
    if (zoom.length === 3 && zoom.every(Number.isFinite) && zoom[2] > 0) [state.zoom.x, state.zoom.y, state.zoom.k] = zoom;
  }

  /** The explanation called `text`, or the first whose name starts so, or -1. */
  function find(text) {
    let start = -1;
    for (let i = 0; i < N; i++) {
      const id = idOf(i);
      if (id === text) return i;
      if (start < 0 && id.startsWith(text)) start = i;
    }
    return start;
  }

  // ------------------------------------------------------------------------------------------------------------ drawing

  const theme = {};
  const darkMode = matchMedia("(prefers-color-scheme: dark)");
  const narrowPage = matchMedia("(max-width: 60rem)"); // as in the style sheet: the panels lie below the map

  function readTheme() {
    ratio = Math.min(devicePixelRatio || 1, 2);
    const css = getComputedStyle(document.documentElement);
    for (const name of ["page", "card", "ink", "soft", "line", "absent", "kept", "grid", "accent", "warning"])
      theme[name] = css.getPropertyValue("--" + name).trim();
    const ramps = meta.style[darkMode.matches ? "dark" : "light"];
    theme.sequential = ramp(ramps.sequential);
    theme.diverging = ramp(ramps.diverging);
    theme.truth = hatch(meta.style.truth);
    sprites.clear();
  }

  /** A colour for every level of a quantised attribution, along `stops`. */
  function ramp(stops) {
    const rgb = stops.map((s) => [1, 3, 5].map((a) => parseInt(s.slice(a, a + 2), 16)));
    return Array.from({ length: meta.levels + 1 }, (_, level) => {
      const at = (level / meta.levels) * (rgb.length - 1);
      const a = Math.min(Math.floor(at), rgb.length - 2);
      const mixed = rgb[a].map((v, j) => Math.round(v + (rgb[a + 1][j] - v) * (at - a)));
      return `rgb(${mixed.join(",")})`;
    });
  }

  function hatch(colour) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 6;
    const g = tile.getContext("2d");
    g.fillStyle = colour;
    g.globalAlpha = 0.45;
    g.fillRect(0, 0, 6, 6);
    g.globalAlpha = 1;
    g.strokeStyle = colour;
    g.lineWidth = 1.6;
    for (const shift of [-6, 0, 6]) {
      g.moveTo(shift, 6);
      g.lineTo(shift + 6, 0);
    }
    g.stroke();
    return g.createPattern(tile, "repeat");
  }

  let ratio = 1; // pixels of a canvas to one of the page

  /** A canvas of its size on the screen, sharp on any screen, cleared. */
  function surface(canvas, width, height) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    const g = canvas.getContext("2d");
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif";
    return g;
  }

  function classColour(c) {
    const colour = meta.style.classes[c % meta.style.classes.length];
    return colour === "#000000" ? theme.ink : colour;
  }
  const classMarker = (c) => meta.style.markers[Math.floor(c / meta.style.classes.length) % meta.style.markers.length];

  const numberText = (v) => {
    if (!Number.isFinite(v)) return "–";
    const size = Math.abs(v);
    return size !== 0 && (size >= 1e5 || size < 1e-3) ? v.toExponential(2) : String(Number(v.toPrecision(4)));
  };

  function ticks(low, high, wanted, whole = false) {
    const rough = Math.max((high - low) / Math.max(1, wanted) || 1, whole ? 1 : 0);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = (whole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).map((m) => m * power).find((s) => s >= rough * 0.999);
    const found = [];
    for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step)
      found.push(Math.abs(v) < step * 1e-9 ? 0 : v);
    return found;
  }

  /** Times of the columns of explanation i, and the edges of the cells half way between them. */
  let sharedAxis = null;
  function axis(i) {
    if (meta.times && sharedAxis) return sharedAxis;
    const n = meta.times ? S : Math.max(1, data.length[i]);
    const t = meta.times ? Float64Array.from(meta.times) : Float64Array.from(data.times.subarray(i * S, i * S + n));
    const edges = new Float64Array(n + 1);
    for (let c = 1; c < n; c++) edges[c] = (t[c - 1] + t[c]) / 2;
    edges[0] = n > 1 ? 2 * t[0] - edges[1] : t[0] - 0.5;
    edges[n] = n > 1 ? 2 * t[n - 1] - edges[n - 1] : t[0] + 0.5;
    const made = { n, t, edges };
    if (meta.times) sharedAxis = made;
    return made;
  }

  const scaleOf = (i, m) => [data["scale-" + m][2 * i], data["scale-" + m][2 * i + 1]];
  const attributionAt = (i, k, c, m) => {
    const [low, high] = scaleOf(i, m);
    return low + (data["attribution-" + m][(i * D + k) * S + c] / meta.levels) * (high - low);
  };
  const valueAt = (i, k, c, which = "low") => {
    const at = (i * D + k) * 2,
      low = data.range[at],
      high = data.range[at + 1];
    return low + ((data[which] || data.low)[(i * D + k) * S + c] / meta.fine) * (high - low);
  };
  const seenAt = (i, k, c) => !data.observed || bit(data.observed, (i * D + k) * S + c) === 1;

  /** Walk the columns of a lane pixel by pixel: `take` every column, `paint` what was taken whenever a pixel is full. */
  function sweep(i, box, take, paint) {
    const { n, edges } = axis(i);
    const scale = box.w / (edges[n] - edges[0]);
    let left = Math.round(box.x * ratio) / ratio; // whole pixels: fractions of them would leave seams between cells
    for (let c = 0; c < n; c++) {
      take(c);
      const right = Math.round((box.x + (edges[c + 1] - edges[0]) * scale) * ratio) / ratio;
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
    const colours = signed ? theme.diverging : theme.sequential;
    const middle = meta.levels / 2;
    let best = -1,
      strength = -1; // the strongest level since the last pixel, so that no peak is lost
    sweep(
      i,
      box,
      (c) => {
        if (!seenAt(i, k, c)) return;
        const level = none ? 0 : levels[base + c];
        const size = signed ? Math.abs(level - middle) : level;
        if (size > strength) [best, strength] = [level, size];
      },
      (x, w) => {
        if (best >= 0) {
          g.fillStyle = colours[best];
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
    const base = (i * D + k) * S;
    const scale = box.w / (edges[n] - edges[0]);
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
    const step = n > box.w * 1.5 ? 1 : 0; // more columns than pixels: one vertical stroke from minimum to maximum each
    for (let c = 0; c < n; c++) {
      if (!seenAt(i, k, c)) {
        flush();
        pen = false;
        continue;
      }
      let x = box.x + (t[c] - edges[0]) * scale;
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

  function drawTimeAxis(g, i, x, y, w) {
    const { n, edges } = axis(i);
    g.fillStyle = theme.soft;
    g.strokeStyle = theme.soft;
    g.lineWidth = 1;
    g.textAlign = "center";
    for (const v of ticks(edges[0], edges[n], Math.max(2, w / 90))) {
      const at = x + ((v - edges[0]) / (edges[n] - edges[0])) * w;
      g.beginPath();
      g.moveTo(at, y);
      g.lineTo(at, y + 4);
      g.stroke();
      g.fillText(numberText(v), Math.min(Math.max(at, x + 8), x + w - 8), y + 16);
    }
    g.textAlign = "right";
    g.fillText(meta.timeName, x - 8, y + 16);
  }

  // ---------------------------------------------------------------------------------------------------------------- map

  const map = $("map");
  const view = { w: 1, h: 1, base: 1 };
  const sprites = new Map();
  let hovered = null;
  let drawing = null; // corners of the lasso being drawn, in pixels

  const screen = (x, y) => [
    view.w / 2 + (x - state.zoom.x) * view.base * state.zoom.k,
    view.h / 2 - (y - state.zoom.y) * view.base * state.zoom.k,
  ];
  const plane = (px, py) => [
    state.zoom.x + (px - view.w / 2) / (view.base * state.zoom.k),
    state.zoom.y - (py - view.h / 2) / (view.base * state.zoom.k),
  ];
  const radius = () => (N > 8000 ? 2.4 : N > 1500 ? 3.2 : 4.6) * Math.min(2.2, state.zoom.k ** 0.35);

  function colourings() {
    return [
      ["prediction", "predicted class", true],
      ["label", "true class", data.label],
      ["landmark", "landmark", data.landmark && landmarks.length],
      ["correct", "right or wrong", data.correct],
      ["agreement", "surrogate agrees", data.agreement],
    ].filter(([, , there]) => there);
  }

  /** What the colours mean: for every kind its name, colour, marker and filter value, and the kind of explanation i. */
  function colouring() {
    const yesNo = (field, yes, no) => ({
      kinds: [
        { name: yes, colour: classColour(0), marker: "circle", value: 1 },
        { name: no, colour: classColour(5), marker: "triangle", value: 0 },
      ],
      of: (i) => 1 - data[field][i],
    });
    if (state.colour === "correct") return { ...yesNo("correct", "right", "wrong"), key: "correct" };
    if (state.colour === "agreement") return { ...yesNo("agreement", "surrogate agrees", "surrogate disagrees"), key: "agree" };
    if (state.colour === "landmark") {
      const kinds = landmarks.slice(0, NAMED).map((l, j) => ({
        name: `rank ${l.rank} (landmark ${l.number})`,
        colour: classColour(j),
        marker: "circle",
        value: l.number,
      }));
      if (landmarks.length > NAMED) kinds.push({ name: "others", colour: theme.soft, marker: "square", value: null });
      return { kinds, of: (i) => Math.min(landmarkOf.get(data.landmark[i]).rank - 1, NAMED), key: "near" };
    }
    const kinds = classes.map((name, c) => ({ name, colour: classColour(c), marker: classMarker(c), value: c }));
    const field = data[state.colour];
    return { kinds, of: (i) => field[i], key: state.colour === "label" ? "true" : "class" };
  }

  function drawMarker(g, marker, x, y, r) {
    g.beginPath();
    if (marker === "circle") g.arc(x, y, r, 0, 2 * Math.PI);
    else if (marker === "square") g.rect(x - r * 0.88, y - r * 0.88, r * 1.76, r * 1.76);
    else {
      const corners =
        marker === "triangle"
          ? [
              [0, -1.2],
              [1.1, 0.8],
              [-1.1, 0.8],
            ]
          : [
              [0, -1.3],
              [1.3, 0],
              [0, 1.3],
              [-1.3, 0],
            ];
      corners.forEach(([a, b], j) => (j ? g.lineTo(x + a * r, y + b * r) : g.moveTo(x + a * r, y + b * r)));
      g.closePath();
    }
  }

  function sprite(colour, marker, r, faint) {
    const key = [colour, marker, r.toFixed(2), faint].join();
    if (!sprites.has(key)) {
      const canvas = document.createElement("canvas");
      const size = Math.ceil(2 * (r * 1.3 + 2));
      const g = surface(canvas, size, size);
      drawMarker(g, marker, size / 2, size / 2, r);
      g.globalAlpha = faint ? 0.13 : 0.82;
      g.fillStyle = faint ? theme.soft : colour;
      g.fill();
      if (!faint) {
        g.globalAlpha = 0.55;
        g.strokeStyle = theme.card;
        g.lineWidth = 0.7;
        g.stroke();
      }
      sprites.set(key, { canvas, size });
    }
    return sprites.get(key);
  }

  function sizeMap() {
    const box = $("map-box").getBoundingClientRect();
    view.w = Math.max(1, box.width);
    view.h = Math.max(1, box.height);
    view.base = Math.min(view.w, view.h) * 0.88;
  }

  /** The points alone, on a canvas of their own: a click or a hover moves a ring, not thousands of points. */
  const cloud = document.createElement("canvas");
  function drawCloud() {
    const g = surface(cloud, view.w, view.h);
    const { kinds, of } = colouring();
    const r = radius();
    const hidden = { mark: sprite(theme.soft, "circle", r * 0.8, true), points: [] };
    const groups = kinds.map((kind) => ({ mark: sprite(kind.colour, kind.marker, r, false), points: [] }));
    for (let i = 0; i < N; i++) (visible[i] ? groups[of(i)] : hidden).points.push(i);
    groups.sort((a, b) => b.points.length - a.points.length); // what is rare comes last, on top
    for (const { mark, points } of [hidden, ...groups])
      for (const i of points) {
        const [x, y] = screen(data.place[2 * i], data.place[2 * i + 1]);
        if (x < -9 || y < -9 || x > view.w + 9 || y > view.h + 9) continue;
        g.drawImage(mark.canvas, x - mark.size / 2, y - mark.size / 2, mark.size, mark.size);
      }
    drawMarks();
  }

  /** The points with everything that lies on top of them. */
  function drawMarks() {
    const g = surface(map, view.w, view.h);
    g.drawImage(cloud, 0, 0, view.w, view.h);
    drawLandmarks(g);
    ring(g, state.sample, theme.ink, 2.4);
    if (hovered !== null && hovered.sample !== undefined) ring(g, hovered.sample, theme.accent, 1.8);
    const corners = drawing || (state.lasso && state.lasso.map(([x, y]) => screen(x, y)));
    if (corners && corners.length > 1) {
      g.beginPath();
      corners.forEach(([x, y], j) => (j ? g.lineTo(x, y) : g.moveTo(x, y)));
      g.closePath();
      g.fillStyle = theme.accent;
      g.globalAlpha = 0.1;
      g.fill();
      g.globalAlpha = 1;
      g.strokeStyle = theme.accent;
      g.lineWidth = 1.5;
      g.setLineDash([5, 3]);
      g.stroke();
      g.setLineDash([]);
    }
  }

  function ring(g, i, colour, width) {
    const [x, y] = screen(data.place[2 * i], data.place[2 * i + 1]);
    g.beginPath();
    g.arc(x, y, radius() + 4, 0, 2 * Math.PI);
    g.lineWidth = width + 2;
    g.strokeStyle = theme.card;
    g.stroke();
    g.lineWidth = width;
    g.strokeStyle = colour;
    g.stroke();
  }

  const landmarkRadius = (l) => (l.count >= FILTRATION ? 7.5 : 4);

  function drawLandmarks(g) {
    g.textAlign = "center";
    for (let j = landmarks.length - 1; j >= 0; j--) {
      const l = landmarks[j];
      if (!l.place) continue;
      const [x, y] = screen(...l.place);
      const current = j === state.landmark && state.view === "landmarks";
      drawMarker(g, "diamond", x, y, landmarkRadius(l) + (current ? 2 : 0));
      g.fillStyle = current ? theme.accent : theme.card;
      g.globalAlpha = l.count >= FILTRATION ? 1 : 0.75;
      g.fill();
      g.lineWidth = current ? 2.6 : 1.6;
      g.strokeStyle = theme.ink;
      g.stroke();
      g.globalAlpha = 1;
      if (l.count < FILTRATION) continue;
      g.font = `600 ${l.rank > 99 ? 8 : 10}px system-ui, sans-serif`;
      g.fillStyle = current ? theme.card : theme.ink;
      g.fillText(String(l.rank), x, y + 3.5);
    }
  }

  /** What lies under a pixel: a landmark, else the nearest visible explanation within reach, else null. */
  function under(px, py) {
    for (let j = 0; j < landmarks.length; j++) {
      if (!landmarks[j].place) continue;
      const [x, y] = screen(...landmarks[j].place);
      if (Math.hypot(x - px, y - py) <= landmarkRadius(landmarks[j]) + 2) return { landmark: j };
    }
    const [wx, wy] = plane(px, py);
    const reach = (radius() + 7) / (view.base * state.zoom.k);
    let best = null,
      distance = reach * reach;
    for (const i of shown) {
      const d = (data.place[2 * i] - wx) ** 2 + (data.place[2 * i + 1] - wy) ** 2;
      if (d < distance) [best, distance] = [i, d];
    }
    return best === null ? null : { sample: best };
  }

  function zoomBy(factor, px = view.w / 2, py = view.h / 2) {
    const [x, y] = plane(px, py);
    const k = Math.min(200, Math.max(0.5, state.zoom.k * factor));
    const change = state.zoom.k / k;
    Object.assign(state.zoom, { x: x + (state.zoom.x - x) * change, y: y + (state.zoom.y - y) * change, k });
    drawCloud();
    writeFragment();
  }

  function showTip(hit, px, py) {
    const tip = $("tip");
    if (hit === null) {
      tip.hidden = true;
      return;
    }
    tip.hidden = false;
    const canvas = $("tip-canvas");
    if (hit.sample === undefined) {
      const l = landmarks[hit.landmark];
      canvas.hidden = true;
      $("tip-text").textContent = `Landmark ${l.number}, rank ${l.rank}: nearest of ${l.count} training explanations`;
    } else {
      const i = hit.sample;
      canvas.hidden = !data.low;
      if (data.low) drawThumbnail(canvas, i, state.method === ALL ? 0 : state.method, 180, 70);
      $("tip-text").textContent =
        `Sample ${idOf(i)}: ${classes[data.prediction[i]]} (${probability(i, data.prediction[i]).toFixed(2)})`;
    }
    const right = px + 214 > view.w;
    tip.style.left = `${Math.max(0, right ? px - 208 : px + 14)}px`;
    tip.style.top = `${Math.max(0, Math.min(py + 12, view.h - tip.offsetHeight - 4))}px`;
  }

  function listenToMap() {
    const pointers = new Map();
    let start = null,
      moved = false,
      pinch = 0;
    const where = (event) => {
      const box = map.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    map.addEventListener("pointerdown", (event) => {
      map.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, where(event));
      start = where(event);
      moved = false;
      pinch = 0;
      if ($("lasso").getAttribute("aria-pressed") === "true" || event.shiftKey) drawing = [start];
      if (pointers.size > 1) drawing = null;
    });
    map.addEventListener("pointermove", (event) => {
      const at = where(event);
      if (!pointers.has(event.pointerId)) return hover(at);
      const before = pointers.get(event.pointerId);
      pointers.set(event.pointerId, at);
      if (Math.hypot(at[0] - start[0], at[1] - start[1]) > 4) moved = true;
      if (pointers.size === 2) {
        const [a, b] = [...pointers.values()];
        const apart = Math.hypot(a[0] - b[0], a[1] - b[1]);
        if (pinch) zoomBy(apart / pinch, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
        pinch = apart;
      } else if (drawing) {
        drawing.push(at);
        drawMarks();
      } else if (moved) {
        state.zoom.x -= (at[0] - before[0]) / (view.base * state.zoom.k);
        state.zoom.y += (at[1] - before[1]) / (view.base * state.zoom.k);
        showTip(null);
        drawCloud();
      }
    });
    const end = (event) => {
      if (!pointers.delete(event.pointerId)) return;
      const corners = drawing;
      drawing = null;
      if (event.type === "pointercancel") return;
      if (corners && moved) {
        const every = Math.ceil(corners.length / 60); // few enough corners for an address
        state.lasso = corners.filter((_, j) => j % every === 0).map(([x, y]) => plane(x, y));
        changeFilters();
      } else if (!moved) {
        const hit = under(...where(event));
        if (!hit) return;
        if (hit.landmark !== undefined) selectLandmark(hit.landmark);
        else selectSample(hit.sample);
        if (narrowPage.matches) $("detail").scrollIntoView(); // below the map there, out of sight
      } else writeFragment();
    };
    map.addEventListener("pointerup", end);
    map.addEventListener("pointercancel", end);
    map.addEventListener("pointerleave", () => hover(null));
    map.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0018)), ...where(event));
      },
      { passive: false },
    );
    function hover(at) {
      const hit = at && under(...at);
      map.classList.toggle("over", Boolean(hit));
      const same = hovered?.sample === hit?.sample && hovered?.landmark === hit?.landmark;
      hovered = hit;
      if (!same) drawMarks();
      showTip(hit, ...(at || []));
    }
  }

  function fillLegend() {
    const { kinds, of, key } = colouring();
    const counts = new Uint32Array(kinds.length);
    for (const i of shown) counts[of(i)]++;
    const items = kinds.map((kind, j) => {
      const dot = document.createElement("canvas");
      const g = surface(dot, 14, 14);
      drawMarker(g, kind.marker, 7, 7, 5);
      g.fillStyle = kind.colour;
      g.fill();
      const button = make(
        "button",
        { type: "button" },
        dot,
        make("span", {}, kind.name),
        make("i", {}, counts[j].toLocaleString("en")),
      );
      button.disabled = kind.value === null;
      button.setAttribute("aria-pressed", String(kind.value !== null && state.filter[key] === kind.value));
      button.addEventListener("click", () => {
        state.filter[key] = state.filter[key] === kind.value ? null : kind.value;
        changeFilters();
      });
      return button;
    });
    $("legend").replaceChildren(...items);
  }

  // ------------------------------------------------------------------------------------------------------- one explanation

  let hot = []; // lanes on the series canvas: where they are and what they show
  const plot = { x: 0, w: 1 }; // the part of that canvas where time runs

  function showSample() {
    const i = state.sample;
    $("sample-title").textContent = `Sample ${idOf(i)}`;
    fillVerdict(i);
    for (const button of $("methods").children)
      button.setAttribute("aria-pressed", String(Number(button.value) === state.method));
    $("previous").disabled = $("next").disabled = shown.length === 0;
    drawSample();
    fillSpans(i);
    fillTiles($("near"), Array.from(data.nearest.subarray(i * meta.neighbours, (i + 1) * meta.neighbours)));
  }

  function fillVerdict(i) {
    const predicted = data.prediction[i];
    const rows = [["Predicted", [classes[predicted], ` (confidence ${probability(i, predicted).toFixed(2)})`]]];
    let top = 0;
    for (let c = 1; c < meta.modelClasses; c++) if (probability(i, c) > probability(i, top)) top = c;
    if (probability(i, top) > probability(i, predicted)) {
      rows[0][0] = "Explained";
      rows.push(["Predicted", [`${classes[top]} (confidence ${probability(i, top).toFixed(2)})`]]);
    }
    if (data.label) {
      const right = data.correct[i] === 1;
      const mark = make("span", { className: right ? "good" : "warning" }, right ? "✓ right" : "✗ wrong");
      rows.push(["True class", [classes[data.label[i]], " ", mark]]);
    }
    if (data.agreement) {
      const agrees = data.agreement[i] === 1;
      const words = agrees ? "agrees with the model" : "disagrees: treat with care";
      const more = data.divergence ? ` (JS divergence ${data.divergence[i].toFixed(3)})` : "";
      rows.push(["Surrogate", [make("span", { className: agrees ? "good" : "warning" }, words), more]]);
    }
    if (data.landmark && landmarks.length) {
      const l = landmarkOf.get(data.landmark[i]);
      const link = make("button", { type: "button", className: "link" }, `rank ${l.rank} (landmark ${l.number})`);
      link.addEventListener("click", () => selectLandmark(l.rank - 1));
      rows.push(["Landmark", [link]]);
    }
    const list = make("dl", {}, ...rows.flatMap(([term, content]) => [make("dt", {}, term), make("dd", {}, ...content)]));
    const order = Array.from({ length: meta.modelClasses }, (_, c) => c)
      .sort((a, b) => probability(i, b) - probability(i, a))
      .slice(0, 6);
    const bars = order.map((c) => ({
      name: classes[c],
      share: probability(i, c),
      text: probability(i, c).toFixed(2),
      colour: classColour(c),
      chosen: c === predicted,
    }));
    $("verdict").replaceChildren(list, barChart(bars));
  }

  function barChart(bars) {
    const cells = bars.flatMap((bar) => {
      const fill = make("i");
      fill.style.width = `${100 * bar.share}%`;
      fill.style.background = bar.colour;
      return [
        make("span", { className: bar.chosen ? "chosen" : "", title: bar.name }, bar.name),
        make("div", { className: "meter" }, fill),
        make("b", {}, bar.text),
      ];
    });
    return make("div", { className: "bars" }, ...cells);
  }

  function drawSample() {
    const i = state.sample;
    const canvas = $("series");
    const width = Math.max(240, canvas.parentElement.clientWidth);
    const narrow = width < 520; // names stand above the lanes then, not beside them
    const every = state.method === ALL;
    const gutter = narrow ? (every ? 66 : 42) : 104;
    const list = every
      ? chosenChannels(
          i,
          methods.map((_, m) => m),
          LANES,
        )
      : chosenChannels(i, [state.method], state.every ? D : FEW, state.order);
    const rows = every
      ? comparisonRows(list)
      : list.map((k) => ({
          k,
          m: state.method,
          h: list.length === 1 ? 190 : list.length <= 4 ? 108 : list.length <= 16 ? 74 : 54,
          gap: 8,
          ticks: true,
          name: narrow ? channels[k] : null,
        }));
    const height = rows.reduce((sum, row) => sum + row.h + row.gap + (row.head ? 22 : row.name ? 18 : 0), 0) + 26;
    canvas.style.height = `${height}px`;
    const g = surface(canvas, width, height);
    Object.assign(plot, { x: gutter, w: width - gutter - 6 });
    hot = [];
    let y = 0;
    for (const row of rows) {
      if (row.head) {
        g.fillStyle = theme.ink;
        g.font = "600 13px system-ui, sans-serif";
        g.textAlign = "left";
        g.fillText(cut(g, row.head, width), 0, y + 15);
        y += 22;
      }
      if (row.name) {
        g.fillStyle = theme.ink;
        g.textAlign = "left";
        g.fillText(cut(g, row.name, plot.w), plot.x, y + 13);
        y += 18;
      }
      const box = { x: plot.x, y, w: plot.w, h: row.h };
      drawLane(g, i, row.k, row.m, box, {
        strip: row.h >= 40 || row.m < 0 ? Math.min(11, row.h * 0.2) : 0,
        truth: !every || row.m < 0,
        line: row.h < 40 ? 1 : 1.4,
      });
      drawGutter(g, i, row, box, gutter);
      hot.push({ ...row, y, box });
      y += row.h + row.gap;
    }
    drawTimeAxis(g, i, plot.x, y - rows.at(-1).gap + 2, plot.w);
    canvas.setAttribute(
      "aria-label",
      `Sample ${idOf(i)}, ${list.length} of ${D} channels, attribution as colour behind the series. ` +
        "The most important spans are listed below.",
    );
    $("more-channels").hidden = every || D <= FEW;
    $("more-channels").textContent = state.every ? `Show the ${FEW} most important of ${D} channels` : `Show all ${D} channels`;
    fillScale(i);
    fillKey(every, list.length);
    $("readout").textContent = "";
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
    g.font = "12px system-ui, sans-serif";
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
    const canvas = document.createElement("canvas");
    const g = surface(canvas, 90, 10);
    const colours = methods[m].signed ? theme.diverging : theme.sequential;
    for (let x = 0; x < 90; x++) {
      g.fillStyle = colours[Math.round((x / 89) * meta.levels)];
      g.fillRect(x, 0, 1, 10);
    }
    $("scale").replaceChildren(make("span", {}, `attribution ${numberText(low)}`), canvas, make("span", {}, numberText(high)));
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
    if (!every && methods[state.method].signed) items.push(make("span", {}, "orange speaks for the class, purple against it"));
    if (drawn < D) items.push(make("span", {}, `${drawn} of ${D} channels: those with the largest total attribution`));
    $("series-key").replaceChildren(...items);
  }

  function readOut(event) {
    const box = $("series").getBoundingClientRect();
    const x = event.clientX - box.left,
      y = event.clientY - box.top;
    const row = hot.find((r) => y >= r.y && y < r.y + r.h);
    if (!row || x < plot.x || x >= plot.x + plot.w) return ($("readout").textContent = "");
    const { n, t, edges } = axis(state.sample);
    const time = edges[0] + ((x - plot.x) / plot.w) * (edges[n] - edges[0]);
    let c = 0;
    while (c < n - 1 && edges[c + 1] <= time) c++;
    $("readout").textContent = describe(state.sample, row.k, c, row.m, t[c]);
  }

  function describe(i, k, c, m, time) {
    const words = [channels[k], `${meta.timeName === "step" ? "t" : "time"} = ${numberText(time)}`];
    if (!seenAt(i, k, c)) return [...words, "not observed"].join(" · ");
    const low = valueAt(i, k, c),
      high = valueAt(i, k, c, "high");
    words.push(meta.width > 1 ? `values ${numberText(low)} to ${numberText(high)}` : `value ${numberText(low)}`);
    const at = (i * D + k) * S + c;
    if (m >= 0) words.push(`attribution ${numberText(attributionAt(i, k, c, m))}`);
    if (m >= 0 && methods[m].mask) words.push(bit(data["mask-" + m], at) ? "kept" : "not kept");
    if (data.truth && bit(data.truth, at)) words.push("ground truth");
    return words.join(" · ");
  }

  /** Runs of kept cells, or of the strongest tenth where a method has no mask or keeps nothing; the heaviest first. */
  function spansOf(i, m) {
    const { n } = axis(i);
    const [low, high] = scaleOf(i, m),
      levels = data["attribution-" + m];
    const size = (k, c) => Math.abs(low + (levels[(i * D + k) * S + c] / meta.levels) * (high - low));
    let kept = methods[m].mask ? (k, c) => bit(data["mask-" + m], (i * D + k) * S + c) === 1 : () => false;
    const runs = () => {
      const found = [];
      for (let k = 0; k < D; k++)
        for (let c = 0, run = null; c <= n; c++) {
          if (c < n && kept(k, c) && seenAt(i, k, c)) {
            run ??= { k, from: c, weight: 0 };
            run.weight += size(k, c);
          } else if (run) {
            found.push({ ...run, to: c - 1 });
            run = null;
          }
        }
      return found.sort((a, b) => b.weight - a.weight);
    };
    const masked = runs();
    if (masked.length) return { runs: masked, masked: true };
    const every = [];
    for (let k = 0; k < D; k++) for (let c = 0; c < n; c++) if (seenAt(i, k, c)) every.push(size(k, c));
    every.sort((a, b) => a - b);
    const limit = every[Math.ceil(0.9 * (every.length - 1))];
    if (!(every.at(-1) > every[0])) return { runs: [], masked: false };
    kept = (k, c) => size(k, c) >= limit;
    return { runs: runs(), masked: false };
  }

  function fillSpans(i) {
    const m = state.method === ALL ? 0 : state.method;
    const { runs, masked } = spansOf(i, m);
    const { t } = axis(i);
    const half = meta.timeName === "step" ? (meta.width - 1) / 2 : 0; // a column of several steps reaches to its first and last
    const items = runs.slice(0, 6).map((run) => {
      const [from, to] = [
        numberText(t[run.from] - half),
        numberText(Math.min(t[run.to] + half, meta.timeName === "step" ? meta.steps : Infinity)),
      ];
      return make(
        "li",
        {},
        `${meta.timeName === "step" ? "t" : "time"} = ${from === to ? from : `${from} to ${to}`}, ${channels[run.k]}`,
      );
    });
    if (runs.length > 6) items.push(make("li", { className: "note" }, `and ${runs.length - 6} more`));
    if (!runs.length) items.push(make("li", { className: "note" }, "none: every cell has the same attribution"));
    $("spans").replaceChildren(...items);
    $("spans").previousElementSibling.textContent =
      `Most important spans by ${methods[m].name}: ${masked ? "cells kept by the mask" : "the strongest tenth of the cells"}`;
  }

  function fillTiles(box, list) {
    const m = state.method === ALL ? 0 : state.method;
    const tiles = list.map((i) => {
      const canvas = document.createElement("canvas");
      const verdict = classes[data.prediction[i]] + (data.correct ? (data.correct[i] ? " ✓" : " ✗") : "");
      const button = make(
        "button",
        { type: "button" },
        canvas,
        make("span", {}, `Sample ${idOf(i)}`),
        make("span", {}, verdict),
      );
      button.addEventListener("click", () => selectSample(i));
      return { i, canvas, button };
    });
    box.replaceChildren(...tiles.map((tile) => tile.button));
    const width = tiles.length ? tiles[0].canvas.clientWidth || 140 : 0; // asked once: it makes the browser lay out the page
    for (const { i, canvas } of tiles) drawThumbnail(canvas, i, m, width, 66);
  }

  // -------------------------------------------------------------------------------------------------------- one landmark

  function showLandmark() {
    const l = landmarks[state.landmark];
    const members = [];
    for (let i = 0; i < N; i++) if (data.landmark[i] === l.number) members.push(i);
    $("landmark-title").textContent = `Landmark ${l.number}, rank ${l.rank} of ${landmarks.length}`;
    const size = l.count === undefined ? "" : `Nearest of ${l.count.toLocaleString("en")} training explanations; `;
    const small = l.count !== undefined && l.count < FILTRATION ? ` Fewer than ${FILTRATION}: little rests on it.` : "";
    const link = make("button", { type: "button", className: "link" }, "show only these");
    link.disabled = members.length === 0;
    link.addEventListener("click", () => {
      state.filter.near = l.number;
      changeFilters();
    });
    $("landmark-facts").replaceChildren(
      `${size}${members.length.toLocaleString("en")} of the explanations on this page (`,
      link,
      `).${small}`,
    );
    const counts = new Array(classes.length).fill(0);
    for (const i of members) counts[data.prediction[i]]++;
    const rows = [];
    if (l.composition) rows.push(make("h3", {}, "Classes of its training explanations"), makeupChart(l.composition));
    else rows.push(make("h3", {}, "Classes of its explanations here"), makeupChart(counts));
    $("makeup").replaceChildren(...rows);
    fillTiles($("landmark-near"), l.nearest || members.slice(0, 8));
    drawMean(members);
    fillLandmarkTable();
  }

  const percent = (share) => (share > 0 && share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`);

  function makeupChart(counts) {
    const total = counts.reduce((a, b) => a + b, 0) || 1;
    const order = [...counts.keys()]
      .filter((c) => counts[c])
      .sort((a, b) => counts[b] - counts[a])
      .slice(0, 8);
    return barChart(
      order.map((c) => ({
        name: classes[c],
        share: counts[c] / total,
        text: percent(counts[c] / total),
        colour: classColour(c),
      })),
    );
  }

  /** The mean attribution of the first method over a landmark's explanations, channel by channel. */
  function meanPattern(members) {
    const sum = new Float64Array(D * S),
      seen = new Uint32Array(D * S);
    for (const i of members) {
      const [low, high] = scaleOf(i, 0);
      for (let j = 0, at = i * D * S; j < D * S; j++, at++) {
        if (data.observed && !bit(data.observed, at)) continue;
        sum[j] += low + (data["attribution-0"][at] / meta.levels) * (high - low);
        seen[j]++;
      }
    }
    return sum.map((v, j) => (seen[j] ? v / seen[j] : NaN));
  }

  function drawMean(members) {
    const canvas = $("mean");
    $("mean-title").textContent = `Mean attribution of its ${members.length.toLocaleString("en")} explanations here`;
    canvas.parentElement.hidden = members.length === 0;
    $("mean-note").textContent = meta.times ? "" : "Averaged by the number of the step: the times of the samples differ.";
    if (!members.length) return;
    const mean = meanPattern(members);
    let top = 0;
    for (const v of mean) if (Math.abs(v) > top) top = Math.abs(v);
    const { n, edges } = meta.times ? axis(0) : { n: S, edges: Float64Array.from({ length: S + 1 }, (_, c) => c + 0.5) };
    const width = Math.max(240, canvas.parentElement.clientWidth),
      gutter = D > 1 ? (width < 520 ? 66 : 96) : 44;
    const each = D === 1 ? 110 : D <= 8 ? 34 : D <= 16 ? 22 : 14;
    canvas.style.height = `${each * D + 26}px`;
    const g = surface(canvas, width, each * D + 26);
    const box = { x: gutter, w: width - gutter - 6 };
    const colours = methods[0].signed ? theme.diverging : theme.sequential;
    const level = (v) => Math.round((methods[0].signed ? (v / (top || 1) + 1) / 2 : v / (top || 1)) * meta.levels);
    for (let k = 0; k < D; k++) {
      g.fillStyle = theme.absent;
      g.fillRect(box.x, k * each, box.w, each - 1);
      for (let c = 0; c < n; c++) {
        const v = mean[k * S + c];
        if (Number.isNaN(v)) continue;
        const x0 = box.x + ((edges[c] - edges[0]) / (edges[n] - edges[0])) * box.w;
        const x1 = box.x + ((edges[c + 1] - edges[0]) / (edges[n] - edges[0])) * box.w;
        g.fillStyle = colours[level(v)];
        g.fillRect(x0, k * each, Math.max(1, x1 - x0 + 0.3), each - 1);
      }
      if (D > 1 && each >= 14) {
        g.fillStyle = theme.ink;
        g.textAlign = "right";
        g.font = each < 20 ? "10px system-ui, sans-serif" : "12px system-ui, sans-serif";
        g.fillText(cut(g, channels[k], gutter - 8), gutter - 8, k * each + each / 2 + 4);
      }
    }
    if (D === 1) drawMeanLine(g, mean, box, each, top, edges, n);
    g.font = "12px system-ui, sans-serif";
    if (meta.times) drawTimeAxis(g, 0, box.x, each * D + 2, box.w);
    $("mean-note").textContent += ` Colours from ${methods[0].signed ? numberText(-top) : 0} to ${numberText(top)}.`;
    canvas.setAttribute("aria-label", $("mean-title").textContent);
  }

  function drawMeanLine(g, mean, box, height, top, edges, n) {
    g.beginPath();
    for (let c = 0; c < n; c++) {
      const x = box.x + (((edges[c] + edges[c + 1]) / 2 - edges[0]) / (edges[n] - edges[0])) * box.w;
      g.lineTo(x, 6 + (height - 14) * (1 - mean[c] / (top || 1)));
    }
    g.strokeStyle = theme.ink;
    g.lineWidth = 1.4;
    g.stroke();
    g.fillStyle = theme.soft;
    g.textAlign = "right";
    g.fillText(top.toPrecision(2), box.x - 6, 14);
    g.fillText("0", box.x - 6, height - 6);
  }

  function fillLandmarkTable() {
    const here = new Map();
    for (let i = 0; i < N; i++) here.set(data.landmark[i], (here.get(data.landmark[i]) || 0) + 1);
    const trained = landmarks[0].count !== undefined;
    const head = ["rank", "landmark", ...(trained ? ["training", "commonest class"] : []), "on this page"];
    const rows = landmarks.slice(0, 200).map((l, j) => {
      const best = trained ? l.composition.indexOf(Math.max(...l.composition)) : 0;
      const share = trained && l.count ? `, ${percent(l.composition[best] / l.count)}` : "";
      const open = make("button", { type: "button", className: "link" }, String(l.number));
      open.setAttribute("aria-label", `Landmark ${l.number}, rank ${l.rank}`);
      open.addEventListener("click", () => selectLandmark(j));
      const middle = trained
        ? [
            make("td", {}, l.count.toLocaleString("en")),
            make("td", { className: "left" }, l.count ? classes[best] + share : "–"),
          ]
        : [];
      const row = make(
        "tr",
        {},
        make("td", {}, String(l.rank)),
        make("td", {}, open),
        ...middle,
        make("td", {}, (here.get(l.number) || 0).toLocaleString("en")),
      );
      row.setAttribute("aria-current", String(j === state.landmark));
      return row;
    });
    $("landmark-table").replaceChildren(
      make("thead", {}, make("tr", {}, ...head.map((h) => make("th", {}, h)))),
      make("tbody", {}, ...rows),
    );
  }

  // ------------------------------------------------------------------------------------------------------------- scores

  function showScores() {
    const parts = [];
    const names = Object.keys(meta.scores).filter((name) => meta.scores[name] && typeof meta.scores[name] === "object");
    if (names.length) parts.push(scoreTable(names));
    const figures = [];
    if (Object.keys(meta.occlusion).length)
      figures.push(
        chart({
          title: "Occlusion: score of the model on the cells left",
          curves: meta.occlusion,
          across: "share of cells hidden, least important first",
        }),
      );
    for (const panel of meta.history?.panels || []) {
      const lines = Object.entries(panel.curves).map(([name, values]) => [
        name,
        values.map((v, j) => [meta.history.epochs[j], v]),
      ]);
      const title = panel.title[0].toUpperCase() + panel.title.slice(1);
      figures.push(
        chart({ title, curves: Object.fromEntries(lines), across: "epoch", mark: meta.history.selected, log: true }),
      );
    }
    if (figures.length) parts.push(make("div", { className: "curves" }, ...figures));
    if (!parts.length)
      parts.push(
        make("p", { className: "note" }, "No scores, occlusion curves or training history were given to this report."),
      );
    $("scores").replaceChildren(...parts);
  }

  function scoreTable(names) {
    const metrics = [...new Set(names.flatMap((name) => Object.keys(meta.scores[name])))];
    const mean = (v) => (v !== null && typeof v === "object" ? v.mean : v);
    const best = metrics.map((key) =>
      Math.max(...names.map((name) => mean(meta.scores[name][key])).filter((v) => typeof v === "number")),
    );
    const cell = (v, j) => {
      const number = mean(v);
      if (typeof number !== "number") return make("td", {}, "–");
      const error = v !== null && typeof v === "object" && typeof v.se === "number" ? ` ± ${v.se.toFixed(3)}` : "";
      return make("td", { className: number === best[j] ? "best" : "" }, number.toFixed(3) + error);
    };
    const head = make(
      "tr",
      {},
      ...["", ...metrics.map((key) => key.replaceAll("_", " ").toUpperCase())].map((h) => make("th", {}, h)),
    );
    const rows = names.map((name) =>
      make("tr", {}, make("td", {}, name), ...metrics.map((key, j) => cell(meta.scores[name][key] ?? null, j))),
    );
    return make("div", { className: "scroll" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows)));
  }

  /** Curves as SVG, on a log scale where asked for and the values are positive and far apart. */
  function chart({ title, curves, across, mark = null, log = false }) {
    const [W, H, left, right, top, bottom] = [440, 210, 54, 12, 8, 34];
    const points = Object.values(curves)
      .flat()
      .filter(([, v]) => typeof v === "number");
    if (!points.length) return make("p", { className: "note" }, `${title}: no values.`);
    const [x0, x1, low, high] = bounds(points);
    const useLog = log && low > 0 && high > 20 * low;
    const warp = (v) => (useLog ? Math.log10(v) : v);
    const [a, b] = high > low ? [warp(low), warp(high)] : [warp(low) - 0.5, warp(low) + 0.5];
    const px = (v) => left + (x1 > x0 ? (v - x0) / (x1 - x0) : 0.5) * (W - left - right);
    const py = (v) => H - bottom - ((warp(v) - a) / (b - a)) * (H - top - bottom);
    const root = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
    const marks = useLog ? ticks(a, b, 4).map((v) => 10 ** v) : ticks(a, b, 4);
    for (const v of marks)
      root.append(
        svg("line", { class: "grid", x1: left, x2: W - right, y1: py(v), y2: py(v) }),
        svg("text", { x: left - 7, y: py(v) + 4, "text-anchor": "end" }, numberText(v)),
      );
    for (const v of ticks(x0, x1, 6, mark !== null))
      root.append(svg("text", { x: px(v), y: H - bottom + 15, "text-anchor": "middle" }, numberText(v)));
    root.append(
      svg("line", { class: "axis", x1: left, x2: W - right, y1: H - bottom, y2: H - bottom }),
      svg("text", { x: (left + W - right) / 2, y: H - 3, "text-anchor": "middle" }, across),
    );
    if (mark !== null) root.append(svg("line", { class: "mark", x1: px(mark), x2: px(mark), y1: top, y2: H - bottom }));
    const dashes = ["", "7 3", "2 3", "9 3 2 3", "5 2", "1 2"];
    const key = make("p", { className: "key" });
    Object.entries(curves).forEach(([name, values], j) => {
      const colour = j === 0 ? theme.ink : classColour((j - 1) % 6);
      const known = values.filter(([, v]) => typeof v === "number");
      const line = known.map(([x, v]) => `${px(x).toFixed(1)},${py(v).toFixed(1)}`).join(" ");
      if (known.length > 1)
        root.append(svg("polyline", { class: "curve", points: line, stroke: colour, "stroke-dasharray": dashes[j % 6] }));
      if (known.length <= 12)
        for (const [x, v] of known) root.append(svg("circle", { cx: px(x), cy: py(v), r: 2.6, fill: colour }));
      const swatch = svg(
        "svg",
        { width: 26, height: 8 },
        svg("line", { x1: 0, x2: 26, y1: 4, y2: 4, stroke: colour, "stroke-width": 2.4, "stroke-dasharray": dashes[j % 6] }),
      );
      key.append(make("span", {}, swatch, name));
    });
    if (mark !== null) key.append(make("span", {}, `dashed line: epoch ${mark}, selected`));
    return make("figure", {}, make("figcaption", {}, title), key, root);
  }

  // ------------------------------------------------------------------------------------------------- elements and actions

  /** An element with properties and children; text becomes text, whatever it says. */
  function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  }

  function svg(tag, attributes, ...children) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, value] of Object.entries(attributes)) if (value !== "") element.setAttribute(name, value);
    element.append(...children);
    return element;
  }

  function selectSample(i) {
    state.sample = i;
    state.view = "sample";
    showView();
    drawMarks();
    writeFragment();
  }

  function selectLandmark(j) {
    state.landmark = j;
    state.view = "landmarks";
    showView();
    drawMarks();
    writeFragment();
  }

  function selectMethod(m) {
    state.method = m;
    showSample();
    writeFragment();
  }

  function selectColour(colour) {
    state.colour = $("colour").value = colour;
    fillLegend();
    drawCloud();
    writeFragment();
  }

  function changeFilters() {
    applyFilters();
    fillLegend();
    showCount();
    drawCloud();
    $("previous").disabled = $("next").disabled = shown.length === 0;
    writeFragment();
  }

  function clearFilters() {
    for (const key of Object.keys(state.filter)) state.filter[key] = null;
    state.lasso = null;
    $("search").value = "";
    changeFilters();
  }

  function showCount() {
    const filtered = state.lasso !== null || Object.values(state.filter).some((v) => v !== null);
    $("shown").textContent = `${shown.length.toLocaleString("en")} of ${N.toLocaleString("en")} shown`;
    $("reset").disabled = !filtered;
    for (const [key, id] of [
      ["class", "class"],
      ["true", "label"],
      ["correct", "correct"],
      ["agree", "agree"],
      ["near", "landmark"],
    ])
      $("filter-" + id).value = state.filter[key] === null ? "" : String(state.filter[key]);
  }

  function showView() {
    for (const name of ["sample", "landmarks", "scores"]) {
      const chosen = state.view === name;
      $("panel-" + name).hidden = !chosen;
      $("tab-" + name).setAttribute("aria-selected", String(chosen));
      $("tab-" + name).tabIndex = chosen ? 0 : -1;
    }
    if (!data.low) return; // the series are still being unpacked
    if (state.view === "sample") showSample();
    else if (state.view === "landmarks" && landmarks.length) showLandmark();
    else if (state.view === "scores") showScores();
  }

  /** The next or previous of the explanations shown, round the ends. */
  function step(by) {
    if (!shown.length) return;
    const place = shown.indexOf(state.sample);
    const from = place >= 0 ? place : shown.findIndex((i) => i > state.sample) - (by > 0 ? 1 : 0);
    selectSample(shown[(from + by + shown.length) % shown.length]);
  }

  const stepLandmark = (by) => landmarks.length && selectLandmark((state.landmark + by + landmarks.length) % landmarks.length);

  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || $("help").open) return;
    const target = event.target;
    if (event.key === "Escape" && target === $("search")) return target.blur();
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(target.tagName)) return;
    const tab = target.getAttribute?.("role") === "tab";
    const actions = {
      ArrowLeft: () => (tab ? stepTab(-1) : step(-1)),
      ArrowRight: () => (tab ? stepTab(1) : step(1)),
      "[": () => stepLandmark(-1),
      "]": () => stepLandmark(1),
      m: () => methods.length > 1 && selectMethod((state.method + 1) % (ALL + 1)),
      c: () => {
        const keys = colourings().map(([key]) => key);
        selectColour(keys[(keys.indexOf(state.colour) + 1) % keys.length]);
      },
      "/": () => $("search").focus(),
      "+": () => zoomBy(1.4),
      "=": () => zoomBy(1.4),
      "-": () => zoomBy(1 / 1.4),
      0: fit,
      l: toggleLasso,
      "?": () => $("help").showModal(),
      Escape: clearFilters,
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
  }

  function stepTab(by) {
    const tabs = [...$("tabs").children].filter((t) => !t.hidden);
    const next = tabs[(tabs.indexOf(document.activeElement) + by + tabs.length) % tabs.length];
    next.focus();
    next.click();
  }

  function fit() {
    Object.assign(state.zoom, { x: 0.5, y: 0.5, k: 1 });
    drawCloud();
    writeFragment();
  }

  function toggleLasso() {
    const on = $("lasso").getAttribute("aria-pressed") !== "true";
    $("lasso").setAttribute("aria-pressed", String(on));
    map.classList.toggle("lasso", on);
  }

  // -------------------------------------------------------------------------------------------------------------- start

  function options(id, all, entries) {
    $(id).replaceChildren(
      make("option", { value: "" }, all),
      ...entries.map(([value, text]) => make("option", { value: String(value) }, text)),
    );
  }

  function fillControls() {
    const byNumber = (names) => names.map((name, j) => [j, name]);
    options("filter-class", "any class", byNumber(classes));
    options("filter-label", "any class", byNumber(classes));
    options("filter-correct", "right or wrong", [
      [1, "right"],
      [0, "wrong"],
    ]);
    options("filter-agree", "any", [
      [1, "agrees"],
      [0, "disagrees"],
    ]);
    options(
      "filter-landmark",
      "any",
      landmarks.map((l) => [l.number, `rank ${l.rank} (${l.number})`]),
    );
    for (const [id, key] of [
      ["class", "class"],
      ["label", "true"],
      ["correct", "correct"],
      ["agree", "agree"],
      ["landmark", "near"],
    ]) {
      document.querySelector(".for-" + id).hidden = !data[FIELDS[key]] || (key === "near" && !landmarks.length);
      $("filter-" + id).addEventListener("change", (event) => {
        state.filter[key] = event.target.value === "" ? null : Number(event.target.value);
        changeFilters();
      });
    }
    $("colour").replaceChildren(...colourings().map(([value, text]) => make("option", { value }, text)));
    $("colour").value = state.colour;
    $("colour").addEventListener("change", (event) => selectColour(event.target.value));
    const names = [...methods.map((m) => m.name), ...(methods.length > 1 ? ["all"] : [])];
    $("methods").replaceChildren(
      ...names.map((name, m) => {
        const button = make("button", { type: "button", value: String(m) }, name);
        button.addEventListener("click", () => selectMethod(m));
        return button;
      }),
    );
    $("channel-box").hidden = D === 1;
    $("channel-order").value = state.order;
    $("channel-order").addEventListener("change", (event) => {
      state.order = event.target.value;
      drawSample();
      writeFragment();
    });
    $("tab-landmarks").hidden = !landmarks.length;
    $("tab-scores").hidden = !Object.keys(meta.scores).length && !Object.keys(meta.occlusion).length && !meta.history;
  }

  function listen() {
    listenToMap();
    document.addEventListener("keydown", onKey);
    $("filters").addEventListener("submit", (event) => event.preventDefault());
    $("search").addEventListener("input", (event) => {
      const text = event.target.value.trim();
      const i = text === "" ? -1 : find(text);
      event.target.setAttribute("aria-invalid", String(text !== "" && i < 0));
      if (i >= 0) selectSample(i);
      if (text !== "") $("shown").textContent = i < 0 ? "no such sample" : `sample ${idOf(i)}`;
      else showCount();
    });
    const clicks = {
      reset: clearFilters,
      previous: () => step(-1),
      next: () => step(1),
      lasso: toggleLasso,
      "zoom-fit": fit,
      "zoom-in": () => zoomBy(1.4),
      "zoom-out": () => zoomBy(1 / 1.4),
      "previous-landmark": () => stepLandmark(-1),
      "next-landmark": () => stepLandmark(1),
      "help-open": () => $("help").showModal(),
      "more-channels": () => {
        state.every = !state.every;
        drawSample();
      },
    };
    for (const [id, action] of Object.entries(clicks)) $(id).addEventListener("click", action);
    for (const name of ["sample", "landmarks", "scores"])
      $("tab-" + name).addEventListener("click", () => {
        state.view = name;
        showView();
        drawMarks();
        writeFragment();
      });
    $("series").addEventListener("pointermove", readOut);
    $("series").addEventListener("pointerleave", () => ($("readout").textContent = ""));
    addEventListener("hashchange", () => {
      readFragment();
      refresh();
    });
    let pending = 0;
    addEventListener("resize", () => {
      cancelAnimationFrame(pending);
      pending = requestAnimationFrame(refresh);
    });
    darkMode.addEventListener("change", refresh);
  }

  /** Everything again: after a resize, a change of theme or of the address. */
  function refresh() {
    readTheme();
    sizeMap();
    applyFilters();
    $("colour").value = state.colour;
    fillLegend();
    showCount();
    drawCloud();
    showView();
  }

  function fillNotes() {
    const shape = `${meta.steps.toLocaleString("en")} steps × ${D} channel${D === 1 ? "" : "s"}`;
    const all = `${meta.total.toLocaleString("en")} explanations`;
    const sampled = " (a sample with every class and landmark in proportion, to keep this file small)";
    const part = N === meta.total ? all : `${N.toLocaleString("en")} of ${all}${sampled}`;
    $("summary").textContent =
      `${part}, ${shape}, ${classes.length} classes` +
      (meta.width > 1 ? `; drawn as the minimum and maximum of every ${meta.width} steps` : "");
    const { kind, share, of } = meta.projection;
    const how =
      kind === "PCA"
        ? `first two principal components (${share.map((v) => Math.round(100 * v) + " %").join(" and ")} of the variance)`
        : "UMAP";
    const what = of === "attributions" ? "attributions: this method has no latent space" : "explanations in the latent space";
    $("map-note").textContent =
      `${how[0].toUpperCase()}${how.slice(1)} of the ${what}. ` +
      (landmarks[0]?.place
        ? `Diamonds are landmarks, numbered by rank; small ones have fewer than ${FILTRATION} training explanations.`
        : "");
    map.setAttribute("aria-label", `Map of ${N} explanations. Step through them with the arrow keys, or search by sample.`);
  }

  async function start() {
    await Promise.all(meta.overview.map(unpack));
    readFragment();
    fillControls();
    fillNotes();
    refresh();
    listen();
    performance.mark("timex-map");
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done))); // let the map appear first
    if (document.readyState === "loading") await new Promise((done) => document.addEventListener("DOMContentLoaded", done));
    await Promise.all(
      Object.keys(meta.arrays)
        .filter((name) => !meta.overview.includes(name))
        .map(unpack),
    );
    showView();
    performance.mark("timex-ready");
    document.documentElement.dataset.ready = "true";
  }

  // For the console and for tests: what was unpacked, and where on the screen things were drawn.
  window.timexReport = {
    meta,
    data,
    state,
    attributionAt,
    valueAt,
    spansOf,
    shown: () => shown,
    pointAt: (i) => offset(map, screen(data.place[2 * i], data.place[2 * i + 1])),
    landmarkAt: (j) => offset(map, screen(...landmarks[j].place)),
    cellAt: (row, c) => {
      const { n, t, edges } = axis(state.sample);
      const { box } = hot[row];
      return offset($("series"), [box.x + ((t[c] - edges[0]) / (edges[n] - edges[0])) * box.w, box.y + box.h * 0.5]);
    },
    lanes: () => hot.map(({ k, m, box }) => ({ k, m, box })),
    colourOf: (m, level) => (methods[m].signed ? theme.diverging : theme.sequential)[level],
  };
  function offset(canvas, [x, y]) {
    const box = canvas.getBoundingClientRect();
    return [box.left + x, box.top + y];
  }

  start();
})();
