/* One landmark: its members, their classes and their average. */

function showLandmark() {
  const l = landmarks[state.landmark];
  const members = [];
  for (let i = 0; i < N; i++) if (data.landmark[i] === l.number) members.push(i);
  $("landmark-title").textContent = `Landmark ${l.number} (${l.rank} of ${landmarks.length} by size)`;
  const size = l.count === undefined ? "" : `The nearest landmark of ${l.count.toLocaleString("en")} training explanations and of `;
  const small = l.count !== undefined && l.count < FILTRATION ? ` Fewer than ${FILTRATION}: little rests on it.` : "";
  const link = make("button", { type: "button", className: "link" }, "show only these");
  link.disabled = members.length === 0;
  link.addEventListener("click", () => {
    state.filter.near = l.number;
    changeFilters();
  });
  $("landmark-facts").replaceChildren(
    `${size}${members.length.toLocaleString("en")} explanations on this page (`,
    link,
    `).${small}`,
  );
  const counts = new Array(classes.length).fill(0);
  for (const i of members) counts[data.prediction[i]]++;
  const rows = [];
  if (l.composition) rows.push(make("h3", {}, "Classes of its training explanations"), makeupChart(l.composition));
  else rows.push(make("h3", {}, "Classes of its explanations here"), makeupChart(counts));
  $("makeup").replaceChildren(...rows);
  $("landmark-near-title").textContent = members.length ? "Most typical of them" : "None of the explanations here";
  fillTiles($("landmark-near"), l.nearest || members.slice(0, 8));
  $("landmark-average").replaceChildren(members.length ? averageFigure(members, 0, `landmark-${l.number}`) : "");
  fillLandmarkTable();
}

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

function fillLandmarkTable() {
  const here = new Map();
  for (let i = 0; i < N; i++) here.set(data.landmark[i], (here.get(data.landmark[i]) || 0) + 1);
  const trained = landmarks[0].count !== undefined;
  const head = ["landmark", ...(trained ? ["training", "commonest class"] : []), "on this page"];
  const rows = landmarks.slice(0, 200).map((l, j) => {
    const best = trained ? landmarkClass(l) : 0;
    const share = trained && l.count ? `, ${percent(l.composition[best] / l.count)}` : "";
    const open = make("button", { type: "button", className: "link" }, String(l.number));
    open.setAttribute("aria-label", `Landmark ${l.number}`);
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
  $("landmark-save").replaceChildren(csvButton("landmarks", $("landmark-table")));
}
