/* One landmark: its members, their classes and their mean attribution. */

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
  canvas.setAttribute("aria-label", $("mean-title").textContent);
  canvas.parentElement.hidden = members.length === 0;
  $("mean-note").textContent = meta.times ? "" : "Averaged by the number of the step: the times of the samples differ.";
  if (!members.length) return;
  const mean = meanPattern(members);
  const top = mean.reduce((most, v) => (Math.abs(v) > most ? Math.abs(v) : most), 0);
  const { n, edges } = meta.times ? axis(0) : { n: S, edges: Float64Array.from({ length: S + 1 }, (_, c) => c + 0.5) };
  const width = Math.max(240, canvas.parentElement.clientWidth);
  const gutter = D > 1 ? (width < 520 ? 66 : 96) : 44;
  const each = D === 1 ? 110 : D <= 8 ? 34 : D <= 16 ? 22 : 14;
  canvas.style.height = `${each * D + AXIS}px`;
  const g = surface(canvas, width, each * D + AXIS);
  const box = { x: gutter, w: width - gutter - 6, h: each - 1 };
  for (let k = 0; k < D; k++) drawMeanLane(g, mean.subarray(k * S, k * S + n), top, edges, { ...box, y: k * each }, channels[k]);
  if (D === 1) drawMeanLine(g, mean, box, each, top, edges, n);
  g.font = FONT;
  if (meta.times) drawTimeAxis(g, 0, box.x, each * D + 2, box.w);
  $("mean-note").textContent += ` Colours from ${methods[0].signed ? numberText(-top) : 0} to ${numberText(top)}.`;
}

/** The mean attribution of one channel as colours, on the scale of the means. */
function drawMeanLane(g, mean, top, edges, box, name) {
  const signed = methods[0].signed;
  const colours = signed ? theme.diverging : theme.sequential;
  const scale = box.w / (edges[mean.length] - edges[0]);
  g.fillStyle = theme.absent;
  g.fillRect(box.x, box.y, box.w, box.h);
  mean.forEach((v, c) => {
    if (Number.isNaN(v)) return;
    const share = v / (top || 1);
    g.fillStyle = colours[Math.round((signed ? (share + 1) / 2 : share) * meta.levels)];
    const x = box.x + (edges[c] - edges[0]) * scale;
    g.fillRect(x, box.y, Math.max(1, (edges[c + 1] - edges[c]) * scale + 0.3), box.h);
  });
  if (D === 1) return;
  g.fillStyle = theme.ink;
  g.textAlign = "right";
  g.font = box.h < 20 ? "10px system-ui, sans-serif" : FONT;
  g.fillText(cut(g, name, box.x - 8), box.x - 8, box.y + (box.h + 1) / 2 + 4);
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
