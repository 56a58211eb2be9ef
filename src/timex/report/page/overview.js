/* The first tab: how far to trust the explanations, where to look first, and what matters for each class. */

/** Title and reason of every verdict of `timex.report.overview`. */
const VERDICTS = {
  passed: [
    "The surrogate check is passed",
    "Seeing only the kept cells, the surrogate predicts the model's class. Faithful explanations pass this check; " +
      "passing it is no proof.",
  ],
  disagrees: [
    "Treat these explanations with care",
    "Seeing only the kept cells, the surrogate often predicts another class than the model.",
  ],
  "keeps most": ["Treat these explanations with care", "They keep most cells, so the surrogate's agreement shows little."],
  "one class": ["Treat these explanations with care", "All samples have one class, so empty explanations agree as well."],
};

/** Titles by the verdict of `timex check`, and the look of the banner. */
const CHECKED = {
  trust: ["The model confirms these explanations", "trusted"],
  weak: ["The model confirms these explanations in part", "weak"],
  "do not use": ["Do not use these explanations", "weak"],
};
const UNSTEADY = 0.5; // rank correlation under small noise below which `timex check` calls an explanation unsteady
const LEAST = 10; // samples in the list of the least stable
const LISTED = 200; // samples in any list: the address holds them

function showOverview() {
  fillBanner();
  fillAttention();
  fillClasses();
  if (data.label && !meta.targets) {
    fillConfusion();
    $("confusion-save").replaceChildren(csvButton("confusion", $("confusion")));
  }
  $("confusion-box").hidden = !data.label || meta.targets;
}

function fillBanner() {
  const { accuracy, agreement, commonest, kept, verdict } = meta.summary;
  const facts = [];
  if (accuracy !== null) facts.push(["Model is right", percent(accuracy), "of the samples with a label"]);
  if (agreement !== null)
    facts.push(["Surrogate agrees", percent(agreement), `empty explanations would reach ${percent(commonest)}`]);
  if (kept !== null) facts.push(["Cells kept", percent(kept), "mean share with p\u00a0>\u00a0.5"]);
  if (meta.check?.all.alone != null)
    facts.push(["Kept cells alone", percent(meta.check.all.alone), "of the samples keep their class"]);
  if (meta.check?.all.without != null)
    facts.push(["Without them", percent(meta.check.all.without), "of the samples keep their class"]);
  const unchecked = ["Explanations are not checked", `The method ${methods[0].name} has no surrogate to check them with.`];
  const [title, words] = verdict ? VERDICTS[verdict] : unchecked;
  const tiles = facts.map(([name, value, note]) =>
    make("div", {}, make("span", {}, name), make("strong", {}, value), make("small", {}, note)),
  );
  const banner = $("banner");
  const box = make("div", { className: "facts" }, ...tiles);
  if (meta.check) {
    const [heading, look] = CHECKED[meta.check.verdict];
    banner.className = `banner ${look}`;
    banner.replaceChildren(make("h2", {}, heading), ...checkWords(), box, findings());
  } else {
    banner.className = `banner ${verdict === "passed" ? "trusted" : verdict ? "weak" : ""}`;
    banner.replaceChildren(make("h2", {}, title), make("p", {}, words), box);
  }
}

/** The verdict of `timex check`, and every finding that weakens it. */
function checkWords() {
  const { verdict, series, findings } = meta.check;
  const doubts = findings.filter((f) => f.verdict !== "trust");
  const words = `timex check on ${series.toLocaleString("en")} series: ${verdict}.`;
  if (!doubts.length) return [make("p", {}, `${words} Hiding cells changed the model's answers as the explanations say.`)];
  const items = doubts.map((f) => {
    const advice = f.advice ? ` To do: ${f.advice}.` : "";
    return make("li", {}, make("b", { className: "warning" }, `${f.verdict}, ${f.name}`), `: ${f.meaning}.${advice}`);
  });
  return [make("p", {}, words), make("ul", { className: "doubts" }, ...items)];
}

function findings() {
  const rows = meta.check.findings.map((f) => make("tr", {}, ...[f.name, f.verdict, f.meaning].map((t) => make("td", {}, t))));
  const table = make("table", {}, make("tbody", {}, ...rows));
  return make(
    "details",
    {},
    make("summary", {}, `All ${rows.length} findings`),
    make("div", { className: "scroll" }, table),
    csvButton("check", table),
  );
}

/** Lists of samples that deserve a look. Each button filters them and opens the first. */
function fillAttention() {
  const lists = [];
  const add = (field, key, value, words) => {
    if (data[field]) lists.push({ key, value, words, count: data[field].reduce((n, v) => n + (v === value), 0) });
  };
  add("correct", "correct", 0, "the model is wrong");
  add("trust", "trust", WEAK, "the surrogate disagrees");
  add("trust", "trust", EMPTY, `the explanation is empty: no cell has p > .5${ofDefaultClass()}`);
  if (data.unfamiliar) {
    const value = [...data.unfamiliar.keys()].filter((i) => data.unfamiliar[i]);
    lists.push({ key: "these", value: value.slice(0, LISTED), words: "unlike the training series", count: value.length });
  }
  if (data.stability) lists.push(leastStable());
  const items = lists.map(({ key, value, words, count }) => {
    const text = [make("b", {}, count.toLocaleString("en")), ` ${count === 1 ? "sample" : "samples"}: ${words}`];
    if (!count) return make("li", { className: "note" }, ...text);
    const button = make("button", { type: "button", className: "link" }, ...text);
    button.addEventListener("click", () => (key === "these" ? showOnlyThese(value) : showOnly({ [key]: value })));
    return make("li", {}, button);
  });
  if (!items.length) items.push(make("li", { className: "note" }, "Nothing to list: no labels, no surrogate and no mask."));
  $("attention").replaceChildren(...items);
}

/** How many of the empty explanations are of the class that a blank series gets too. */
function ofDefaultClass() {
  const count = data.trust ? data.trust.reduce((n, v, i) => n + (v === EMPTY && isDefault(data.prediction[i])), 0) : 0;
  return count ? ` (${count.toLocaleString("en")} of the default class, which needs no cell)` : "";
}

/** The samples whose explanation small noise changes most, the least stable first. */
function leastStable() {
  const order = [...data.stability.keys()].sort((a, b) => data.stability[a] - data.stability[b]);
  const value = order.slice(0, LEAST);
  const worst = data.stability[value[0]];
  const unsteady = data.stability.reduce((n, v) => n + (v < UNSTEADY), 0);
  const words = `least stable under small noise (rank correlation from ${worst.toFixed(2)}; ${unsteady} below ${UNSTEADY})`;
  return { key: "these", value, words, count: value.length };
}

function fillClasses() {
  $("classes-title").textContent = meta.targets ? "By explained class" : "By predicted class";
  const cards = meta.perClass.map((row) => make("article", {}, classFacts(row), ...classChannels(row), ...classExemplar(row)));
  $("classes").className = D === 1 ? "single" : "";
  $("classes").replaceChildren(...cards);
  meta.perClass.forEach(({ exemplar }, j) => {
    const canvas = cards[j].querySelector("canvas");
    if (canvas) drawThumbnail(canvas, exemplar, 0, canvas.clientWidth || 180, 66);
  });
}

function classFacts(row) {
  const name = make("button", { type: "button", className: "link" }, classLabel(row.class));
  name.addEventListener("click", () => showOnly({ class: row.class }));
  const facts = [`${row.samples.toLocaleString("en")} ${row.samples === 1 ? "sample" : "samples"}`];
  if (row.accuracy !== null) facts.push(`model right: ${percent(row.accuracy)}`);
  if (row.agreement !== null) facts.push(`surrogate agrees: ${percent(row.agreement)}`);
  if (row.kept !== null) facts.push(`cells kept: ${percent(row.kept)}`);
  const hiding = meta.check?.classes[classes[row.class]];
  if (hiding?.alone != null) facts.push(`kept cells alone: ${percent(hiding.alone)}`);
  if (hiding?.without != null) facts.push(`without them: ${percent(hiding.without)}`);
  if (isDefault(row.class)) facts.push("default class: predicted for a blank series too");
  return make("div", { className: "facts-of-class" }, name, ...facts.map((text) => make("span", {}, text)));
}

/** The channels that matter most for a class, by their share of its attribution. */
function classChannels(row) {
  if (D === 1) return [];
  const order = [...row.channels.keys()].sort((a, b) => row.channels[b] - row.channels[a] || a - b).slice(0, 4);
  const bars = order.map((k) => ({
    name: channels[k],
    share: row.channels[k],
    text: percent(row.channels[k]),
    colour: classColour(row.class),
  }));
  return [barChart(bars)];
}

function classExemplar(row) {
  if (row.exemplar === null) return [];
  const button = make(
    "button",
    { type: "button", className: "exemplar" },
    document.createElement("canvas"),
    make("span", {}, `Typical: sample ${idOf(row.exemplar)}`),
  );
  button.addEventListener("click", () => selectSample(row.exemplar));
  return [button];
}

/** Counts of true (rows) against predicted class (columns); classes that do not occur are left out. */
function fillConfusion() {
  const counts = new Map();
  const used = new Set();
  for (let i = 0; i < N; i++) {
    const key = data.label[i] * classes.length + data.prediction[i];
    counts.set(key, (counts.get(key) || 0) + 1);
    used.add(data.label[i]).add(data.prediction[i]);
  }
  const order = [...used].sort((a, b) => a - b);
  const head = make("tr", {}, make("th", {}, "true \\ predicted"), ...order.map((c) => make("th", {}, classLabel(c))));
  const rows = order.map((y) => {
    const total = order.reduce((sum, c) => sum + (counts.get(y * classes.length + c) || 0), 0);
    const cells = order.map((c) => confusionCell(y, c, counts.get(y * classes.length + c) || 0, total));
    return make("tr", {}, make("th", { scope: "row" }, classLabel(y)), ...cells);
  });
  $("confusion").replaceChildren(make("thead", {}, head), make("tbody", {}, ...rows));
}

function confusionCell(y, c, count, total) {
  if (!count) return make("td", { className: "note" }, "0");
  const button = make("button", { type: "button" }, count.toLocaleString("en"));
  button.title = `${count} samples of class ${classes[y]} predicted as ${classes[c]}`;
  button.setAttribute("aria-label", button.title);
  button.setAttribute("aria-pressed", String(state.filter.true === y && state.filter.class === c));
  const strength = `${Math.round(8 + (42 * count) / total)}%`;
  button.style.background = `color-mix(in srgb, var(--${y === c ? "good" : "warning"}) ${strength}, var(--card))`;
  button.addEventListener("click", () => showOnly({ true: y, class: c }));
  return make("td", {}, button);
}
