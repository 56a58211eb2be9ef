/* Where explanations lie close together: every kind's share of the map as a soft cloud of its colour. */

const GRID = 72; // cells across the longer side of the map

function drawDensity(g, groups) {
  const cell = Math.max(view.w, view.h) / GRID;
  const [w, h] = [Math.ceil(view.w / cell), Math.ceil(view.h / cell)];
  const layer = document.createElement("canvas");
  [layer.width, layer.height] = [w, h];
  const pen = layer.getContext("2d");
  const clouds = groups.map(({ points }) => blurred(points, w, h, cell));
  const most = Math.max(...clouds.map(topOf), 1e-9);
  clouds.forEach((cloud, j) => {
    const rgb = rgbOf(groups[j].colour);
    const image = pen.createImageData(w, h);
    cloud.forEach((v, at) => image.data.set([...rgb, 215 * Math.sqrt(v / most)], 4 * at));
    pen.putImageData(image, 0, 0);
    g.imageSmoothingQuality = "high";
    g.drawImage(layer, 0, 0, w * cell, h * cell);
  });
}

/** Points counted on a grid, smoothed twice by a box of five cells in both directions. */
function blurred(points, w, h, cell) {
  let grid = new Float64Array(w * h);
  for (const i of points) {
    const [x, y] = screen(data.place[2 * i], data.place[2 * i + 1]).map((v) => Math.floor(v / cell));
    if (x >= 0 && y >= 0 && x < w && y < h) grid[y * w + x]++;
  }
  for (const [step, length, lines, jump] of [1, 2].flatMap(() => [
    [1, w, h, w],
    [w, h, w, 1],
  ])) {
    const out = new Float64Array(w * h);
    for (let line = 0; line < lines; line++)
      for (let c = 0; c < length; c++)
        for (let o = Math.max(0, c - 2); o <= Math.min(length - 1, c + 2); o++)
          out[line * jump + c * step] += grid[line * jump + o * step] / 5;
    grid = out;
  }
  return grid;
}

function rgbOf(colour) {
  return [1, 3, 5].map((a) => parseInt(colour.slice(a, a + 2), 16));
}

function toggleLayer(name) {
  state[name] = !state[name];
  showLayers();
  drawCloud();
  writeFragment();
}

function showLayers() {
  $("density").setAttribute("aria-pressed", String(state.density));
  $("diamonds").setAttribute("aria-pressed", String(state.diamonds));
}

/** The map folds away, and the panels take its place. */
function toggleMap() {
  state.folded = !state.folded;
  foldMap();
  refresh();
  writeFragment();
}

function foldMap() {
  document.querySelector("main").classList.toggle("folded", state.folded);
  $("map-fold").textContent = state.folded ? "Show the map" : "Hide";
  $("map-fold").setAttribute("aria-expanded", String(!state.folded));
}
