/* Controls filled, listeners attached, data unpacked. */

function fillControls() {
  const byNumber = (names) => names.map((name, j) => [j, name]);
  options("filter-class", "any class", byNumber(classes));
  options("filter-label", "any class", byNumber(classes));
  options("filter-correct", "right or wrong", [
    [1, "right"],
    [0, "wrong"],
  ]);
  options("filter-trust", "any", trustLevels().map((level) => [level, TRUST[level].name]));
  options(
    "filter-landmark",
    "any",
    landmarks.map((l) => [l.number, `${l.number}${l.count === undefined ? "" : ` (${l.count.toLocaleString("en")})`}`]),
  );
  for (const [id, key] of [
    ["class", "class"],
    ["label", "true"],
    ["correct", "correct"],
    ["trust", "trust"],
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
  $("methods").hidden = methods.length === 1;
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
  $("diamonds").hidden = !landmarks[0]?.place;
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
    if (i >= 0 && !shown.length) {
      clearFilters();
      event.target.value = text;
    }
    if (i >= 0) selectSample(i);
    if (text !== "") $("shown").textContent = i < 0 ? "no such sample" : `sample ${idOf(i)}`;
    else showCount();
  });
  const clicks = {
    reset: clearFilters,
    "nothing-reset": clearFilters,
    "filters-open": toggleFilters,
    previous: () => step(-1),
    next: () => step(1),
    lasso: toggleLasso,
    "zoom-fit": fit,
    "zoom-in": () => zoomBy(1.4),
    "zoom-out": () => zoomBy(1 / 1.4),
    "previous-landmark": () => stepLandmark(-1),
    "next-landmark": () => stepLandmark(1),
    "help-open": () => $("help").showModal(),
    "map-fold": toggleMap,
    density: () => toggleLayer("density"),
    diamonds: () => toggleLayer("diamonds"),
    "series-in": () => zoomSeries(2),
    "series-out": () => zoomSeries(0.5),
    "series-left": () => panSeries(-0.5),
    "series-right": () => panSeries(0.5),
    "series-whole": wholeSeries,
    "selection-keep": keepSelection,
    "selection-forget": forgetSelection,
    "copy-link": copyLink,
    "map-png": saveMap,
    "more-channels": () => {
      state.every = !state.every;
      drawSample();
    },
  };
  for (const [id, action] of Object.entries(clicks)) $(id).addEventListener("click", action);
  for (const name of VIEWS) $("tab-" + name).addEventListener("click", () => selectView(name));
  listenToSeries();
  $("series-save").append(...figureButtons(sampleFigure));
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
  foldMap();
  sizeMap();
  showLayers();
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
      ? "Diamonds are landmarks: typical training explanations, in the colour of their class, the largest with its number."
      : "");
  map.setAttribute("aria-label", `Map of ${N} explanations. Step through them with the arrow keys, or search by sample.`);
}

async function start() {
  await Promise.all(meta.early.map(unpack));
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
      .filter((name) => !meta.early.includes(name))
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
    const { t } = axis(state.sample);
    const { box } = hot[row];
    const [from, to] = windowOf(state.sample);
    return offset($("series"), [box.x + ((t[c] - from) / (to - from)) * box.w, box.y + box.h * 0.5]);
  },
  lanes: () => hot.map(({ k, m, box }) => ({ k, m, box })),
  colourOf: (m, level) => coloursOf(m)[level],
};
function offset(canvas, [x, y]) {
  const box = canvas.getBoundingClientRect();
  return [box.left + x, box.top + y];
}

start();
