/* What a click or a key does. */

function selectView(view) {
  state.view = view;
  showView();
  drawMarks();
  writeFragment();
}

function selectSample(i) {
  state.sample = i;
  selectView("sample");
}

function selectLandmark(j) {
  state.landmark = j;
  selectView("landmarks");
}

/** Only the explanations that pass this filter, and the first of them. */
function showOnly(filter) {
  for (const key of Object.keys(state.filter)) state.filter[key] = filter[key] ?? null;
  Object.assign(state, { lasso: null, only: null, view: "sample" });
  changeFilters();
}

/** Only these explanations, and the first of them. The list stands in the address. */
function showOnlyThese(list) {
  for (const key of Object.keys(state.filter)) state.filter[key] = null;
  Object.assign(state, { lasso: null, view: "sample", only: list, sample: list[0] });
  changeFilters();
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
  if (shown.length && !visible[state.sample]) state.sample = shown[0];
  fillLegend();
  showCount();
  drawCloud();
  showView();
  writeFragment();
}

function clearFilters() {
  for (const key of Object.keys(state.filter)) state.filter[key] = null;
  Object.assign(state, { lasso: null, only: null });
  $("search").value = "";
  changeFilters();
}

function showCount() {
  const filtered = state.lasso !== null || state.only !== null || Object.values(state.filter).some((v) => v !== null);
  $("shown").textContent = `${shown.length.toLocaleString("en")} of ${N.toLocaleString("en")} shown`;
  $("reset").disabled = !filtered;
  for (const [key, id] of [
    ["class", "class"],
    ["true", "label"],
    ["correct", "correct"],
    ["trust", "trust"],
    ["near", "landmark"],
  ])
    $("filter-" + id).value = state.filter[key] === null ? "" : String(state.filter[key]);
}

function showView() {
  const nothing = state.view === "sample" && !shown.length;
  $("nothing").hidden = !nothing;
  for (const name of VIEWS) {
    const chosen = state.view === name;
    $("panel-" + name).hidden = !chosen || nothing;
    $("tab-" + name).setAttribute("aria-selected", String(chosen));
    $("tab-" + name).tabIndex = chosen ? 0 : -1;
  }
  if (!data.low) return; // the series are still being unpacked
  if (state.view === "overview") showOverview();
  else if (state.view === "sample") showSample();
  else if (state.view === "selection") showSelection();
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
    ArrowLeft: () => (tab ? stepTab(-1) : event.shiftKey ? panSeries(-0.2) : step(-1)),
    ArrowRight: () => (tab ? stepTab(1) : event.shiftKey ? panSeries(0.2) : step(1)),
    "[": () => stepLandmark(-1),
    "]": () => stepLandmark(1),
    m: () => methods.length > 1 && selectMethod((state.method + 1) % (ALL + 1)),
    c: () => {
      const keys = colourings().map(([key]) => key);
      selectColour(keys[(keys.indexOf(state.colour) + 1) % keys.length]);
    },
    "/": () => $("search").focus(),
    "+": () => (target === $("series") ? zoomSeries(2) : zoomBy(1.4)),
    "=": () => (target === $("series") ? zoomSeries(2) : zoomBy(1.4)),
    "-": () => (target === $("series") ? zoomSeries(0.5) : zoomBy(1 / 1.4)),
    0: () => (target === $("series") ? wholeSeries() : fit()),
    d: () => toggleLayer("density"),
    k: keepSelection,
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

/** On a narrow page the filters are folded. */
function toggleFilters() {
  const open = $("filters").classList.toggle("open");
  $("filters-open").setAttribute("aria-expanded", String(open));
}

function toggleLasso() {
  const on = $("lasso").getAttribute("aria-pressed") !== "true";
  $("lasso").setAttribute("aria-pressed", String(on));
  map.classList.toggle("lasso", on);
}
