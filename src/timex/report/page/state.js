/* What is shown: the state, the filters, and both in the address of the page. */

const VIEWS = ["overview", "sample", "selection", "landmarks", "scores"];
const state = {
  view: "overview", // one of VIEWS
  sample: 0, // place among the embedded explanations
  landmark: landmarks.length ? 0 : null, // place in the ranking
  colour: "prediction",
  method: 0,
  order: "given",
  every: false, // all channels, not only the FEW strongest
  filter: { class: null, true: null, correct: null, trust: null, near: null },
  lasso: null, // corners in the plane of the map, [[x, y], ...]
  only: null, // a list of explanations, of which the others are left out
  kept: null, // a selection to compare with: its filter and lasso
  window: null, // the part of the time axis in view, [from, to]
  density: false,
  diamonds: true, // landmarks on the map
  folded: false, // no map
  zoom: { x: 0.5, y: 0.5, k: 1 },
};
const FIELDS = { class: "prediction", true: "label", correct: "correct", trust: "trust", near: "landmark" };
let visible = new Uint8Array(N).fill(1);
let shown = []; // places of the visible explanations

const idOf = (i) => (meta.ids ? meta.ids[i] : String(data.sample[i]));
/** Trust in an explanation by its code, as `timex.report.overview` numbers it. */
const TRUST = [
  { name: "empty", words: "empty: no cell has p > .5" },
  { name: "weak", words: "weak: the surrogate disagrees" },
  { name: "trusted", words: "trusted: the surrogate agrees" },
  { name: "unchecked", words: "unchecked: no surrogate to ask" },
];
const trustLevels = () => [...TRUST.keys()].filter((level) => data.trust?.includes(level));
const EMPTY = 0,
  WEAK = 1,
  TRUSTED = 2;

const probability = (i, c) => data.probability[i * meta.modelClasses + c] / meta.fine;

/** The explanations that pass a filter, lie in a lasso, and are on a list if there is one. */
function passing({ filter, lasso, only }) {
  const wanted = Object.entries(filter).filter(([key, value]) => value !== null && data[FIELDS[key]]);
  const box = lasso && bounds(lasso);
  const found = [];
  for (const i of only ? [...only].sort((a, b) => a - b) : visible.keys()) {
    if (!wanted.every(([key, value]) => data[FIELDS[key]][i] === value)) continue;
    const x = data.place[2 * i],
      y = data.place[2 * i + 1];
    if (box && !(x >= box[0] && x <= box[1] && y >= box[2] && y <= box[3] && inside(lasso, x, y))) continue;
    found.push(i);
  }
  return found;
}

function applyFilters() {
  shown = passing(state);
  visible.fill(0);
  for (const i of shown) visible[i] = 1;
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
  writeSelection(f, state);
  if (state.kept) {
    const kept = new URLSearchParams();
    writeSelection(kept, state.kept);
    f.set("kept", kept);
  }
  if (state.window) f.set("time", state.window.map((v) => Number(v.toPrecision(7))).join(","));
  if (state.density) f.set("density", 1);
  if (!state.diamonds) f.set("diamonds", 0);
  if (state.folded) f.set("map", 0);
  const { x, y, k } = state.zoom;
  if (k !== 1 || x !== 0.5 || y !== 0.5) f.set("zoom", [x, y, k].map((v) => v.toFixed(3)).join(","));
  try {
    history.replaceState(null, "", "#" + f);
  } catch {
    location.replace("#" + f); // some browsers refuse replaceState on files
  }
}

function writeSelection(f, { filter, lasso, only }) {
  for (const [key, value] of Object.entries(filter)) if (value !== null) f.set(key, value);
  if (lasso) f.set("lasso", lasso.map((p) => p.map((v) => v.toFixed(3)).join(",")).join(";"));
  if (only) f.set("only", only.join(","));
}

const number = (text) => (text !== null && text !== "" && Number.isFinite(Number(text)) ? Number(text) : null);

function readSelection(f) {
  const filter = {};
  for (const key of Object.keys(state.filter)) filter[key] = data[FIELDS[key]] ? number(f.get(key)) : null;
  const corners = (f.get("lasso") || "").split(";").map((p) => p.split(",").map(Number));
  const lasso = corners.length > 2 && corners.flat().every(Number.isFinite) ? corners : null;
  const places = (f.get("only") || "").split(",").map((text) => number(text));
  return { filter, lasso, only: places.every((i) => Number.isInteger(i) && i >= 0 && i < N) ? places : null };
}

function readFragment() {
  const f = new URLSearchParams(location.hash.slice(1));
  Object.assign(state, { view: f.has("sample") ? "sample" : "overview", colour: "prediction", method: 0, order: "given" });
  Object.assign(state, { zoom: { x: 0.5, y: 0.5, k: 1 }, density: f.get("density") === "1", folded: f.get("map") === "0" });
  state.diamonds = f.get("diamonds") !== "0";
  if (VIEWS.includes(f.get("view"))) state.view = f.get("view");
  if (f.has("sample")) state.sample = Math.max(0, find(f.get("sample")));
  const place = landmarks.findIndex((l) => l.number === number(f.get("landmark")));
  if (place >= 0) state.landmark = place;
  if (colourings().some(([key]) => key === f.get("colour"))) state.colour = f.get("colour");
  const method = f.get("method") === "all" ? ALL : methods.findIndex((m) => m.name === f.get("method"));
  if (method >= 0 && methods.length > 1) state.method = method;
  if (f.get("order") === "strong") state.order = "strong";
  Object.assign(state, readSelection(f));
  state.kept = f.has("kept") ? readSelection(new URLSearchParams(f.get("kept"))) : null;
  const time = (f.get("time") || "").split(",").map(Number);
  state.window = time.length === 2 && time.every(Number.isFinite) && time[0] < time[1] ? time : null;
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
