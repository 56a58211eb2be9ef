/* Figures and tables as files: PNG, SVG, CSV; and the address of the view. */

/** What the figures use of a canvas, recorded as SVG. */
class Pen {
  constructor() {
    Object.assign(this, { parts: [], path: "", clips: 0, clipped: "", kept: [] });
    Object.assign(this, { fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, textAlign: "left", font: FONT });
    this.ruler = document.createElement("canvas").getContext("2d");
  }
  add(tag, attributes, ...children) {
    const known = { ...attributes };
    if (this.clipped) known["clip-path"] = `url(#${this.clipped})`;
    if (this.globalAlpha < 1) known.opacity = this.globalAlpha;
    this.parts.push(svg(tag, known, ...children));
  }
  get ink() {
    return typeof this.fillStyle === "string" ? this.fillStyle : meta.style.truth; // a pattern: that of the ground truth
  }
  measureText(text) {
    this.ruler.font = this.font;
    return this.ruler.measureText(text);
  }
  save() {
    this.kept.push(this.clipped);
  }
  restore() {
    this.clipped = this.kept.pop() || "";
  }
  beginPath() {
    this.path = "";
  }
  closePath() {
    this.path += "Z";
  }
  moveTo(x, y) {
    this.path += `M${x.toFixed(2)} ${y.toFixed(2)}`;
  }
  lineTo(x, y) {
    this.path += `${this.path ? "L" : "M"}${x.toFixed(2)} ${y.toFixed(2)}`;
  }
  rect(x, y, w, h) {
    this.path += `M${x} ${y}h${w}v${h}h${-w}Z`;
  }
  clip() {
    const id = `clip-${++this.clips}`;
    this.parts.push(svg("clipPath", { id }, svg("path", { d: this.path })));
    this.clipped = id;
  }
  stroke() {
    const look = { stroke: this.strokeStyle, "stroke-width": this.lineWidth, "stroke-linejoin": "round" };
    this.add("path", { d: this.path, fill: "none", ...look });
  }
  fill() {
    this.add("path", { d: this.path, fill: this.ink });
  }
  fillRect(x, y, w, h) {
    this.add("rect", { x: +x.toFixed(2), y: +y.toFixed(2), width: +w.toFixed(2), height: +h.toFixed(2), fill: this.ink });
  }
  strokeRect(x, y, w, h) {
    this.add("rect", { x, y, width: w, height: h, fill: "none", stroke: this.strokeStyle, "stroke-width": this.lineWidth });
  }
  fillText(text, x, y) {
    const anchor = { left: "start", center: "middle", right: "end" }[this.textAlign];
    const [, weight = "", size] = this.font.match(/^(\d+ )?(\d+)px/) || [];
    const look = { "font-size": size || 12, "font-weight": weight.trim(), "text-anchor": anchor, fill: this.ink };
    this.add("text", { x: +x.toFixed(2), y: +y.toFixed(2), ...look }, text);
  }
}

/** A figure as a file: `paint` draws it on a canvas or on a pen, below its title. */
function saveFigure(kind, name, title, { width, height }, paint) {
  const head = 26;
  const heading = (g) => {
    g.fillStyle = theme.card;
    g.fillRect(0, 0, width, height + head);
    g.fillStyle = theme.ink;
    g.textAlign = "left";
    g.font = "600 14px system-ui, sans-serif";
    g.fillText(cut(g, title, width - 8), 4, 17);
    g.font = FONT;
  };
  if (kind === "svg") {
    const [above, pen] = [new Pen(), new Pen()];
    heading(above);
    paint(pen);
    const size = { width, height: height + head, viewBox: `0 0 ${width} ${height + head}`, "font-family": "system-ui, sans-serif" };
    const root = svg("svg", size, ...above.parts, svg("g", { transform: `translate(0 ${head})` }, ...pen.parts));
    return saveFile(`${name}.svg`, "image/svg+xml", new XMLSerializer().serializeToString(root));
  }
  const before = ratio;
  ratio = 2; // sharp in print too
  const canvas = document.createElement("canvas");
  const g = surface(canvas, width, height + head);
  heading(g);
  g.translate(0, head);
  paint(g);
  ratio = before;
  canvas.toBlob((blob) => saveFile(`${name}.png`, "image/png", blob));
}

function saveFile(name, type, content) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Rows of cells as CSV. A text that a spreadsheet would run as a formula gets a quote in front. */
function saveTable(name, rows) {
  const cell = (value) => {
    let text = String(value ?? "");
    if (/^[=@\t\r]/.test(text) || (/^[+-]/.test(text) && !Number.isFinite(Number(text)))) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  saveFile(`${name}.csv`, "text/csv", rows.map((row) => row.map(cell).join(",")).join("\n") + "\n");
}

const rowsOf = (table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent));

/** A button that saves a table of the page. */
function csvButton(name, table) {
  const button = make("button", { type: "button", className: "save" }, "CSV");
  button.setAttribute("aria-label", `Save this table as ${name}.csv`);
  button.addEventListener("click", () => saveTable(name, rowsOf(table)));
  return button;
}

/** Two buttons that save a figure. `figure()` gives its name, title, size and painter at that moment. */
function figureButtons(figure) {
  return ["png", "svg"].map((kind) => {
    const button = make("button", { type: "button", className: "save" }, kind.toUpperCase());
    button.setAttribute("aria-label", `Save this figure as ${kind.toUpperCase()}`);
    button.addEventListener("click", () => saveFigure(kind, ...figure()));
    return button;
  });
}

/** The address of the view goes to the clipboard, or, where the browser forbids that, into a field to copy from. */
async function copyLink() {
  writeFragment();
  const said = $("copied");
  try {
    await navigator.clipboard.writeText(location.href);
    said.textContent = "copied";
  } catch {
    const field = make("input", { value: location.href, readOnly: true });
    field.setAttribute("aria-label", "Address of this view");
    said.replaceChildren(field);
    field.select();
    return;
  }
  setTimeout(() => (said.textContent = ""), 2000);
}
