/* The explanations that the filters and the lasso leave: what they have in common, and how two such selections differ. */

/** The filters and the lasso in words. */
function selectionName({ filter, lasso, only }) {
  const words = [];
  if (filter.class !== null) words.push(`predicted ${classes[filter.class]}`);
  if (filter.true !== null) words.push(`truly ${classes[filter.true]}`);
  if (filter.correct !== null) words.push(filter.correct ? "model right" : "model wrong");
  if (filter.trust !== null) words.push(TRUST[filter.trust].name);
  if (filter.near !== null) words.push(`landmark ${filter.near}`);
  if (lasso) words.push("inside the lasso");
  if (only) words.push("on the list");
  return words.length ? words.join(", ") : "all explanations";
}

const current = () => ({ filter: { ...state.filter }, lasso: state.lasso, only: state.only });

function showSelection() {
  const m = state.method === ALL ? 0 : state.method;
  const groups = state.kept ? [state.kept, current()] : [current()];
  const facts = groups.map((selection) => {
    const list = passing(selection);
    return { name: selectionName(selection), list, shares: channelShares(list, m) };
  });
  $("selection-title").textContent = state.kept ? "Two selections" : "Selection";
  const keep = $("selection-keep");
  keep.textContent = state.kept ? "Keep the right one instead" : "Keep this one to compare";
  keep.disabled = !facts.at(-1).list.length;
  $("selection-forget").hidden = !state.kept;
  $("selection-hint").textContent = state.kept
    ? "Left: kept. Right: what the filters and the lasso choose now."
    : "Filters, the lasso, a class or a landmark choose what is shown here. Keep one selection to compare it with another.";
  $("selection-change").replaceChildren(...(state.kept ? changes(...facts) : []));
  const shared = state.kept ? Math.max(...facts.map(({ list }) => topOf(alignedAverage(list, m)?.attribution ?? []))) : null;
  $("selections").className = state.kept ? "two" : "";
  $("selections").replaceChildren(...facts.map((group, j) => selectionColumn(group, m, j, shared)));
}

function selectionColumn({ name, list, shares }, m, j, shared) {
  const column = make("article", {}, make("h3", {}, `${name}: ${list.length.toLocaleString("en")}`));
  if (!list.length) {
    column.append(make("p", { className: "note" }, "No explanation passes these filters."));
    return column;
  }
  const mix = countsOf(list, data.prediction, classes.length);
  column.append(make("h4", {}, "Predicted classes"), makeupChart(mix));
  if (D > 1) column.append(make("h4", {}, "Channels, by share of the attribution"), barChart(channelBars(shares)));
  column.append(make("h4", {}, "Spans"), make("p", { className: "note" }, spanWords(list, m)));
  column.append(make("h4", {}, "Average, lined up at the heaviest span"), averageFigure(list, m, `selection-${j + 1}`, shared));
  column.append(make("h4", {}, "In the middle of the selection"));
  const tiles = make("div", { className: "tiles" });
  column.append(tiles);
  requestAnimationFrame(() => fillTiles(tiles, central(list, 4)));
  const save = make("button", { type: "button", className: "save" }, "CSV of these samples");
  save.addEventListener("click", () => saveTable(`selection-${j + 1}`, sampleRows(list)));
  column.append(save);
  return column;
}

function channelBars(shares) {
  const order = [...shares.keys()].sort((a, b) => shares[b] - shares[a] || a - b).slice(0, 6);
  return order.map((k) => ({ name: channels[k], share: shares[k], text: percent(shares[k]), colour: theme.accent }));
}

function countsOf(list, values, size) {
  const counts = new Array(size).fill(0);
  for (const i of list) counts[values[i]]++;
  return counts;
}

const meanOver = (list, values) => list.reduce((sum, i) => sum + values[i], 0) / (list.length || 1);

function spanWords(list, m) {
  const some = spread(list);
  const found = some.map((i) => heaviest(i, m)).filter(Boolean);
  if (!found.length) return "No span stands out.";
  const lengths = found.map(({ from, to }) => (to - from + 1) * meta.width).sort((a, b) => a - b);
  const count = meanOver(list, data[`span-count-${m}`]);
  const none = found.length === some.length ? "" : ` ${percent(1 - found.length / some.length)} of the samples have none.`;
  const kept = data.kept && m === 0 ? ` ${percent(meanOver(list, data.kept))} of the cells are kept.` : "";
  return `${count.toFixed(1)} per sample; the heaviest has a median of ${lengths[lengths.length >> 1]} steps.${none}${kept}`;
}

/** The explanations nearest to the middle of some, on the map. */
function central(list, most) {
  const [x, y] = [0, 1].map((d) => list.reduce((sum, i) => sum + data.place[2 * i + d], 0) / list.length);
  const far = new Map(list.map((i) => [i, (data.place[2 * i] - x) ** 2 + (data.place[2 * i + 1] - y) ** 2]));
  return [...list].sort((a, b) => far.get(a) - far.get(b)).slice(0, most);
}

/** What differs between two selections, the largest difference first. */
function changes(before, after) {
  if (!before.list.length || !after.list.length) return [];
  const rows = [];
  const add = (name, from, to) => rows.push({ name, from, to, change: to - from });
  const share = (values, wanted) => [before, after].map(({ list }) => list.filter((i) => values[i] === wanted).length / list.length);
  if (D > 1) for (let k = 0; k < D; k++) add(`attribution on ${channels[k]}`, before.shares[k], after.shares[k]);
  for (let c = 0; c < classes.length; c++) add(`predicted ${classes[c]}`, ...share(data.prediction, c));
  if (data.kept) add("cells kept", meanOver(before.list, data.kept), meanOver(after.list, data.kept));
  if (data.correct) add("model right", ...share(data.correct, 1));
  if (data.agreement) add("surrogate agrees", ...share(data.agreement, 1));
  const differing = rows.filter(({ change }) => Math.abs(change) >= 0.005);
  if (!differing.length) return [make("p", { className: "note" }, "Nothing differs by a per cent or more.")];
  differing.sort((a, b) => Math.abs(b.change) - Math.abs(a.change));
  const signed = (v) => `${v > 0 ? "+" : v < 0 ? "−" : ""}${Math.round(100 * Math.abs(v))} %`;
  const table = make(
    "table",
    {},
    make("thead", {}, make("tr", {}, ...["what changed", "left", "right", "difference"].map((h) => make("th", {}, h)))),
    make(
      "tbody",
      {},
      ...differing.slice(0, 8).map(({ name, from, to, change }) => {
        const cells = [name, percent(from), percent(to), signed(change)];
        return make("tr", {}, ...cells.map((text) => make("td", {}, text)));
      }),
    ),
  );
  return [make("div", { className: "scroll" }, table), csvButton("selections", table)];
}

/** A row per sample for a spreadsheet. */
function sampleRows(list) {
  const columns = [
    ["sample", (i) => idOf(i)],
    ["predicted", (i) => classes[data.prediction[i]]],
    ["confidence", (i) => probability(i, data.prediction[i]).toFixed(3)],
    ["true", data.label && ((i) => classes[data.label[i]])],
    ["trust", data.trust && ((i) => TRUST[data.trust[i]].name)],
    ["kept", data.kept && ((i) => data.kept[i].toFixed(4))],
    ["landmark", data.landmark && ((i) => data.landmark[i])],
  ].filter(([, of]) => of);
  return [columns.map(([name]) => name), ...list.map((i) => columns.map(([, of]) => of(i)))];
}

function keepSelection() {
  state.kept = current();
  showView();
  writeFragment();
}

function forgetSelection() {
  state.kept = null;
  showView();
  writeFragment();
}
