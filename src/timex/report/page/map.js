/* The map: points, landmarks, legend. */

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
    ["trust", "trust", data.trust],
  ].filter(([, , there]) => there);
}

/** What the colours mean: for every kind its name, colour, marker and filter value, and the kind of explanation i. */
function colouring() {
  if (state.colour === "correct") {
    const kinds = [
      { name: "right", colour: classColour(0), marker: "circle", value: 1 },
      { name: "wrong", colour: classColour(5), marker: "triangle", value: 0 },
    ];
    return { kinds, of: (i) => 1 - data.correct[i], key: "correct" };
  }
  if (state.colour === "trust") {
    const looks = [
      [theme.soft, "square"],
      [classColour(5), "triangle"],
      [classColour(0), "circle"],
      [classColour(4), "circle"],
    ];
    const levels = trustLevels();
    const kinds = levels.map((v) => ({ name: TRUST[v].name, colour: looks[v][0], marker: looks[v][1], value: v }));
    return { kinds, of: (i) => levels.indexOf(data.trust[i]), key: "trust" };
  }
  if (state.colour === "landmark") {
    const kinds = landmarks.slice(0, NAMED).map((l, j) => ({
      name: `landmark ${l.number}`,
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
  const groups = kinds.map((kind) => ({ ...kind, mark: sprite(kind.colour, kind.marker, r, false), points: [] }));
  for (let i = 0; i < N; i++) (visible[i] ? groups[of(i)] : hidden).points.push(i);
  groups.sort((a, b) => b.points.length - a.points.length); // what is rare comes last, on top
  if (state.density) drawDensity(g, groups);
  for (const { mark, points } of state.density ? [hidden] : [hidden, ...groups])
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
  if (!shown.length) {
    g.font = FONT;
    g.fillStyle = theme.ink;
    g.textAlign = "center";
    g.fillText("No explanation passes these filters", view.w / 2, view.h / 2);
  }
  if (shown.length) ring(g, state.sample, theme.ink, 2.4);
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

const BIG = 8.5,
  SMALL = 3.6; // radius of a landmark with its number, and of one that would cover a larger one or has few explanations

/** The radius of every landmark at this zoom: the largest landmarks first, each as long as it covers no other. */
function landmarkRadii() {
  const placed = [];
  return landmarks.map((l, j) => {
    if (!l.place) return 0;
    const at = screen(...l.place);
    const current = j === state.landmark && state.view === "landmarks";
    const free = placed.every(([x, y]) => Math.hypot(x - at[0], y - at[1]) > 2.1 * BIG);
    if (!current && (l.count < FILTRATION || !free)) return SMALL;
    placed.push(at);
    return BIG;
  });
}

/** The commonest class of a landmark's training explanations. */
const landmarkClass = (l) => (l.composition ? l.composition.indexOf(Math.max(...l.composition)) : 0);

function drawLandmarks(g) {
  if (!state.diamonds && state.view !== "landmarks") return;
  const radii = landmarkRadii();
  g.textAlign = "center";
  for (let j = landmarks.length - 1; j >= 0; j--) {
    const l = landmarks[j];
    if (!l.place) continue;
    const [x, y] = screen(...l.place);
    const current = j === state.landmark && state.view === "landmarks";
    const small = radii[j] === SMALL;
    drawMarker(g, "diamond", x, y, radii[j] + (current ? 2 : 0));
    g.fillStyle = current ? theme.ink : small ? classColour(landmarkClass(l)) : theme.card;
    g.fill();
    g.lineWidth = small ? 1 : 2.4;
    g.strokeStyle = small ? theme.card : classColour(landmarkClass(l));
    g.stroke();
    if (small) continue;
    g.font = `600 ${l.number > 99 ? 8 : 10}px system-ui, sans-serif`;
    g.fillStyle = current ? theme.card : theme.ink;
    g.fillText(String(l.number), x, y + 3.5);
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

/** The map as a picture of its own. */
function saveMap() {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [map.width, map.height];
  const g = canvas.getContext("2d");
  g.fillStyle = theme.page;
  g.fillRect(0, 0, canvas.width, canvas.height);
  g.drawImage(map, 0, 0);
  canvas.toBlob((blob) => saveFile("map.png", "image/png", blob));
}
