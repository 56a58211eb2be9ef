/* Curves as SVG. */

/** Curves as SVG, on a log scale where asked for and the values are positive and far apart. */
function chart({ title, curves, across, mark = null, log = false }) {
  const [W, H, left, right, top, bottom] = [440, 210, 54, 12, 8, 34];
  const points = Object.values(curves)
    .flat()
    .filter(([, v]) => typeof v === "number");
  if (!points.length) return make("p", { className: "note" }, `${title}: no values.`);
  const [x0, x1, low, high] = bounds(points);
  const useLog = log && low > 0 && high > 20 * low;
  const warp = (v) => (useLog ? Math.log10(v) : v);
  const [a, b] = high > low ? [warp(low), warp(high)] : [warp(low) - 0.5, warp(low) + 0.5];
  const px = (v) => left + (x1 > x0 ? (v - x0) / (x1 - x0) : 0.5) * (W - left - right);
  const py = (v) => H - bottom - ((warp(v) - a) / (b - a)) * (H - top - bottom);
  const root = svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title });
  const powers = ticks(a, b, 4, true).map((v) => 10 ** v); // of ten: half steps of a logarithm are no round numbers
  const marks = useLog && powers.length ? powers : useLog ? [low, high] : ticks(a, b, 4);
  for (const v of marks)
    root.append(
      svg("line", { class: "grid", x1: left, x2: W - right, y1: py(v), y2: py(v) }),
      svg("text", { x: left - 7, y: py(v) + 4, "text-anchor": "end" }, numberText(v)),
    );
  for (const v of ticks(x0, x1, 6, mark !== null))
    root.append(svg("text", { x: px(v), y: H - bottom + 15, "text-anchor": "middle" }, numberText(v)));
  root.append(
    svg("line", { class: "axis", x1: left, x2: W - right, y1: H - bottom, y2: H - bottom }),
    svg("text", { x: (left + W - right) / 2, y: H - 3, "text-anchor": "middle" }, across),
  );
  if (mark !== null) root.append(svg("line", { class: "mark", x1: px(mark), x2: px(mark), y1: top, y2: H - bottom }));
  const dashes = ["", "7 3", "2 3", "9 3 2 3", "5 2", "1 2"];
  const key = make("p", { className: "key" });
  Object.entries(curves).forEach(([name, values], j) => {
    const colour = j === 0 ? theme.ink : classColour((j - 1) % 6);
    const known = values.filter(([, v]) => typeof v === "number");
    const line = known.map(([x, v]) => `${px(x).toFixed(1)},${py(v).toFixed(1)}`).join(" ");
    if (known.length > 1)
      root.append(svg("polyline", { class: "curve", points: line, stroke: colour, "stroke-dasharray": dashes[j % 6] }));
    if (known.length <= 12)
      for (const [x, v] of known) root.append(svg("circle", { cx: px(x), cy: py(v), r: 2.6, fill: colour }));
    const swatch = svg(
      "svg",
      { width: 26, height: 8 },
      svg("line", { x1: 0, x2: 26, y1: 4, y2: 4, stroke: colour, "stroke-width": 2.4, "stroke-dasharray": dashes[j % 6] }),
    );
    key.append(make("span", {}, swatch, name));
  });
  if (mark !== null) key.append(make("span", {}, `dashed line: epoch ${mark}, selected`));
  return make("figure", {}, make("figcaption", {}, title), key, root);
}
