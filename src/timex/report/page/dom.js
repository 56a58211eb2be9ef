/* Elements, and numbers as text. Text from the data reaches the page through textContent and fillText only: it is never
   read as markup. */

/** An element with properties and children; text becomes text, whatever it says. */
function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

function svg(tag, attributes, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== "") element.setAttribute(name, value);
  element.append(...children);
  return element;
}

const numberText = (v) => {
  if (!Number.isFinite(v)) return "–";
  const size = Math.abs(v);
  return size !== 0 && (size >= 1e5 || size < 1e-3) ? v.toExponential(2) : String(Number(v.toPrecision(4)));
};

/** A time on the axis in words, with the number of its step where the axis has a unit. */
function timeText(v, step = null) {
  if (inSteps) return `t = ${numberText(v)}`;
  if (!meta.clock.unit) return `time = ${numberText(v)}`;
  return `${numberText(v)} ${meta.clock.unit}${step === null ? "" : ` (step ${step})`}`;
}

function ticks(low, high, wanted, whole = false) {
  const rough = Math.max((high - low) / Math.max(1, wanted) || 1, whole ? 1 : 0);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = (whole ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10]).map((m) => m * power).find((s) => s >= rough * 0.999);
  const found = [];
  for (let v = Math.ceil(low / step - 1e-9) * step; v <= high + step * 1e-9; v += step)
    found.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return found;
}

const percent = (share) => (share > 0 && share < 0.005 ? "< 1 %" : `${Math.round(100 * share)} %`);

function barChart(bars) {
  const cells = bars.flatMap((bar) => {
    const fill = make("i");
    fill.style.width = `${100 * bar.share}%`;
    fill.style.background = bar.colour;
    return [
      make("span", { className: bar.chosen ? "chosen" : "", title: bar.name }, bar.name),
      make("div", { className: "meter" }, fill),
      make("b", {}, bar.text),
    ];
  });
  return make("div", { className: "bars" }, ...cells);
}

function options(id, all, entries) {
  $(id).replaceChildren(
    make("option", { value: "" }, all),
    ...entries.map(([value, text]) => make("option", { value: String(value) }, text)),
  );
}
