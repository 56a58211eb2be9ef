/* One explanation in words: prediction, trust, spans, neighbours. */

function showSample() {
  const i = state.sample;
  $("sample-title").textContent = `Sample ${idOf(i)}`;
  $("trust").replaceChildren(...trustChip(i));
  fillVerdict(i);
  for (const button of $("methods").children)
    button.setAttribute("aria-pressed", String(Number(button.value) === state.method));
  $("previous").disabled = $("next").disabled = shown.length === 0;
  drawSample();
  fillSpans(i);
  fillTiles($("near"), Array.from(data.nearest.subarray(i * meta.neighbours, (i + 1) * meta.neighbours)));
}

/** The class's colour and its name. */
function classLabel(c) {
  const dot = make("i", { className: "dot" });
  dot.style.background = classColour(c);
  return make("span", { className: "class" }, dot, classes[c]);
}

const isDefault = (c) => meta.check !== null && classes[c] === meta.check.default;

function trustChip(i) {
  if (!data.trust) return [];
  const level = data.trust[i];
  // A blank series has the default class too, so neither an empty explanation nor a surrogate says anything of it.
  const byDefault = isDefault(data.prediction[i]) && level !== TRUSTED;
  const { name, words } = byDefault
    ? { name: "default", words: `default class: predicted for a blank series too (${TRUST[level].name})` }
    : TRUST[level];
  return [make("span", { className: `chip ${name}` }, methods.length > 1 ? `${methods[0].name} ${words}` : words)];
}

function fillVerdict(i) {
  const explained = data.prediction[i];
  let top = explained;
  for (let c = 0; c < meta.modelClasses; c++) if (probability(i, c) > probability(i, top)) top = c;
  const confident = (c) => [classLabel(c), ` (confidence ${probability(i, c).toFixed(2)})`];
  const rows = [["Predicted", confident(top)]];
  if (top !== explained) rows.unshift(["Explained", confident(explained)]);
  if (data.label) {
    const right = data.correct[i] === 1;
    const mark = make("span", { className: right ? "good" : "warning" }, right ? "✓ right" : "✗ wrong");
    rows.push(["True class", [classLabel(data.label[i]), " ", mark]]);
  }
  if (data.agreement) rows.push(["Surrogate", surrogateWords(i)]);
  if (data.unfamiliar?.[i]) {
    rows.push(["Series", [make("span", { className: "warning" }, "unlike the training series: do not trust")]]);
  }
  if (data.kept) rows.push(["Kept", [`${percent(data.kept[i])} of the cells`]]);
  if (data.kept?.[i] && methods[0].directed) rows.push(["Direction", [`${percent(shareFor(i))} of them speak for the class`]]);
  if (data.landmark && landmarks.length) {
    const l = landmarkOf.get(data.landmark[i]);
    const link = make("button", { type: "button", className: "link" }, `landmark ${l.number}`);
    link.addEventListener("click", () => selectLandmark(l.rank - 1));
    rows.push(["Landmark", [link]]);
  }
  const list = make("dl", {}, ...rows.flatMap(([term, content]) => [make("dt", {}, term), make("dd", {}, ...content)]));
  $("verdict").replaceChildren(list, barChart(probabilityBars(i, explained)));
}

/** The share of the kept cells that speak for the explained class, by the first method. */
function shareFor(i) {
  let [kept, against] = [0, 0];
  for (let at = i * D * S; at < (i + 1) * D * S; at++) {
    if (!bit(data["mask-0"], at)) continue;
    kept++;
    against += bit(data["against-0"], at);
  }
  return 1 - against / (kept || 1);
}

/** What the surrogate predicts from the explanation. Agreement on an empty explanation is no evidence. */
function surrogateWords(i) {
  const agrees = data.agreement[i] === 1;
  const more = data.divergence ? ` (JS divergence ${data.divergence[i].toFixed(3)})` : "";
  if (data.trust[i] === EMPTY) return [`${agrees ? "agrees" : "disagrees"}, but sees no cell${more}`];
  const words = agrees ? "agrees with the model" : "disagrees: treat with care";
  return [make("span", { className: agrees ? "good" : "warning" }, words), more];
}

function probabilityBars(i, explained) {
  const order = Array.from({ length: meta.modelClasses }, (_, c) => c)
    .sort((a, b) => probability(i, b) - probability(i, a))
    .slice(0, 6);
  return order.map((c) => ({
    name: classes[c],
    share: probability(i, c),
    text: probability(i, c).toFixed(2),
    colour: classColour(c),
    chosen: c === explained,
  }));
}

/** The heaviest spans of explanation i by method m, as `important_spans` finds them. */
function spansOf(i, m) {
  const shown = Math.min(data[`span-count-${m}`][i], meta.spans);
  return Array.from({ length: shown }, (_, r) => {
    const at = i * meta.spans + r;
    const ends = data[`span-ends-${m}`];
    return { k: data[`span-channel-${m}`][at], from: ends[2 * at], to: ends[2 * at + 1] };
  });
}

function keepsAny(i, m) {
  if (!methods[m].mask) return false;
  for (let at = i * D * S; at < (i + 1) * D * S; at++) if (bit(data["mask-" + m], at)) return true;
  return false;
}

/** A span of times of the series in words, in the unit of the axis and in steps. */
function spanText(from, to) {
  const time = (v) => String(Number(v.toPrecision(6)));
  const range = (a, b) => (a === b ? time(a) : `${time(a)} to ${time(b)}`);
  if (!meta.clock.unit) return `${inSteps ? "t" : "time"} = ${range(from, to)}`;
  const [low, high] = [from, to].map((t) => Number(clockAt(t).toPrecision(4)));
  return `${range(low, high)} ${meta.clock.unit} (step ${range(from, to)})`;
}

function fillSpans(i) {
  const m = state.method === ALL ? 0 : state.method;
  const items = spansOf(i, m).map(({ k, from, to }) => {
    return make("li", {}, `${spanText(from, to)}, ${channels[k]}`);
  });
  const more = data[`span-count-${m}`][i] - items.length;
  if (more > 0) items.push(make("li", { className: "note" }, `and ${more} more`));
  if (!items.length) items.push(make("li", { className: "note" }, "none: every cell has the same attribution"));
  $("spans").replaceChildren(...items);
  $("spans").previousElementSibling.textContent =
    `Most important spans by ${methods[m].name}: ` +
    (keepsAny(i, m) ? "cells kept by the mask" : "the strongest tenth of the cells");
}

function fillTiles(box, list) {
  const m = state.method === ALL ? 0 : state.method;
  const tiles = list.map((i) => {
    const canvas = document.createElement("canvas");
    const verdict = classes[data.prediction[i]] + (data.correct ? (data.correct[i] ? " ✓" : " ✗") : "");
    const button = make(
      "button",
      { type: "button" },
      canvas,
      make("span", {}, `Sample ${idOf(i)}`),
      make("span", {}, verdict),
    );
    button.addEventListener("click", () => selectSample(i));
    return { i, canvas, button };
  });
  box.replaceChildren(...tiles.map((tile) => tile.button));
  const width = tiles.length ? tiles[0].canvas.clientWidth || 140 : 0; // asked once: it makes the browser lay out the page
  for (const { i, canvas } of tiles) drawThumbnail(canvas, i, m, width, 66);
}
