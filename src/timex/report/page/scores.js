/* The tables of scores, and the curves below them. */

function showScores() {
  const parts = scoreTables();
  const figures = curves();
  if (figures.length)
    parts.push(make("h3", {}, "Diagnostics"), make("div", { className: "curves" }, ...figures));
  if (!parts.length) {
    const words = "No scores, occlusion curves or training history were given to this report.";
    parts.push(make("p", { className: "note" }, words));
  }
  $("scores").replaceChildren(...parts);
}

function curves() {
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
  return figures;
}

/** A table for every set of methods with the same metrics, and the definitions of these. */
function scoreTables() {
  const groups = new Map();
  for (const [name, row] of Object.entries(meta.scores)) {
    if (!row || typeof row !== "object") continue;
    const key = JSON.stringify(Object.keys(row).sort());
    groups.set(key, [...(groups.get(key) || []), name]);
  }
  const tables = [...groups.values()].map((names) =>
    scoreGroup(names, Object.keys(meta.scores[names[0]])),
  );
  return tables.length ? [...tables, ...definitions()] : [];
}

/** One table; columns that only repeat the others in another way fold away. */
function scoreGroup(names, keys) {
  const main = keys.filter((key) => !RARE.includes(key));
  const rest = keys.filter((key) => RARE.includes(key));
  const table = scoreTable(names, main);
  const box = make("div", {}, make("div", { className: "scroll" }, table), csvButton("scores", scoreTable(names, keys)));
  if (rest.length)
    box.append(
      make("details", {}, make("summary", {}, "More metrics"), make("div", { className: "scroll" }, scoreTable(names, rest))),
    );
  return box;
}

const RARE = ["auprc_trapezoid", "aup_rank", "aur_rank"];
const meanOf = (v) => (v !== null && typeof v === "object" ? v.mean : v);

/** The best value of a metric: controls never count, and a metric of unknown direction has no best. */
function bestOf(key, names) {
  const values = names.filter((name) => !meta.controls.includes(name)).map((name) => meanOf(meta.scores[name][key]));
  const known = values.filter((v) => typeof v === "number");
  if (!meta.metrics[key] || known.length < 2) return null;
  return meta.metrics[key].better === "higher" ? Math.max(...known) : Math.min(...known);
}

function scoreTable(names, keys) {
  const best = keys.map((key) => bestOf(key, names));
  const cell = (v, bold) => {
    const number = meanOf(v);
    if (typeof number !== "number") return make("td", {}, "–");
    const error = v !== null && typeof v === "object" && typeof v.se === "number" ? ` ± ${v.se.toFixed(3)}` : "";
    return make("td", { className: number === bold ? "best" : "" }, number.toFixed(3) + error);
  };
  const rows = names.map((name) => {
    const control = meta.controls.includes(name);
    const cells = keys.map((key, j) => cell(meta.scores[name][key] ?? null, control ? null : best[j]));
    const label = control ? [name, make("small", {}, " control")] : [name];
    return make("tr", { className: control ? "control" : "" }, make("td", {}, ...label), ...cells);
  });
  const head = ["", ...keys.map(metricLabel)].map((text) => make("th", {}, text));
  return make("table", {}, make("thead", {}, make("tr", {}, ...head)), make("tbody", {}, ...rows));
}

function metricLabel(key) {
  const metric = meta.metrics[key];
  if (!metric) return key.replaceAll("_", " ");
  return `${metric.label} ${metric.better === "higher" ? "↑" : "↓"}`;
}

function definitions() {
  const entries = Object.values(meta.metrics).flatMap(({ label, better, definition }) => [
    make("dt", {}, label),
    make("dd", {}, `${definition} ${better === "higher" ? "Higher" : "Lower"} is better.`),
  ]);
  const controls = Object.keys(meta.scores).filter((name) => meta.controls.includes(name));
  if (controls.length) {
    const words = "Never see the model. What they score, the data give away; a method should score higher.";
    entries.push(make("dt", {}, `Controls (${controls.join(", ")})`), make("dd", {}, words));
  }
  return entries.length ? [make("h3", {}, "How to read the scores"), make("dl", { className: "definitions" }, ...entries)] : [];
}
