/* Colours of the theme, canvases sharp on any screen, colours and markers of classes. */

const theme = {};
const darkMode = matchMedia("(prefers-color-scheme: dark)");
const narrowPage = matchMedia("(max-width: 60rem)"); // as in the style sheet: the panels lie below the map

function readTheme() {
  ratio = Math.min(devicePixelRatio || 1, 2);
  const css = getComputedStyle(document.documentElement);
  for (const name of ["page", "card", "ink", "soft", "line", "absent", "kept", "grid", "accent", "warning"])
    theme[name] = css.getPropertyValue("--" + name).trim();
  const ramps = meta.style[darkMode.matches ? "dark" : "light"];
  theme.sequential = ramp(ramps.sequential);
  theme.probability = ramp(ramps.sequential, emphasis);
  theme.diverging = ramp(ramps.diverging);
  const purple = [ramps.sequential[0], ...ramps.diverging.slice(0, (ramps.diverging.length - 1) / 2).reverse()];
  theme.against = ramp(purple);
  theme.againstProbability = ramp(purple, emphasis);
  theme.truth = hatch(meta.style.truth);
  sprites.clear();
}

/** Place on the colour ramp of a probability p: none up to the prior, weak up to .5, strong above, where a cell is kept. */
function emphasis(p) {
  if (p >= 0.5) return p;
  return p <= meta.prior ? 0 : (0.35 * (p - meta.prior)) / (0.5 - meta.prior);
}

/** A colour for every level of a quantised attribution, along `stops`. */
function ramp(stops, place = (share) => share) {
  const rgb = stops.map((s) => [1, 3, 5].map((a) => parseInt(s.slice(a, a + 2), 16)));
  return Array.from({ length: meta.levels + 1 }, (_, level) => {
    const at = place(level / meta.levels) * (rgb.length - 1);
    const a = Math.min(Math.floor(at), rgb.length - 2);
    const mixed = rgb[a].map((v, j) => Math.round(v + (rgb[a + 1][j] - v) * (at - a)));
    return `rgb(${mixed.join(",")})`;
  });
}

/** The colours of method m's attribution, by level. */
function coloursOf(m) {
  if (methods[m].signed) return theme.diverging;
  return methods[m].probability ? theme.probability : theme.sequential;
}

/** The colours of method m's cells that speak against the prediction, by level; null if it gives no direction. */
function againstOf(m) {
  if (!methods[m].directed) return null;
  return methods[m].probability ? theme.againstProbability : theme.against;
}

function hatch(colour) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 6;
  const g = tile.getContext("2d");
  g.fillStyle = colour;
  g.globalAlpha = 0.45;
  g.fillRect(0, 0, 6, 6);
  g.globalAlpha = 1;
  g.strokeStyle = colour;
  g.lineWidth = 1.6;
  for (const shift of [-6, 0, 6]) {
    g.moveTo(shift, 6);
    g.lineTo(shift + 6, 0);
  }
  g.stroke();
  return g.createPattern(tile, "repeat");
}

const FONT = "12px system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif";
let ratio = 1; // pixels of a canvas to one of the page

/** A canvas of its size on the screen, sharp on any screen, cleared. */
function surface(canvas, width, height) {
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.font = FONT;
  return g;
}

function classColour(c) {
  const colour = meta.style.classes[c % meta.style.classes.length];
  return colour === "#000000" ? theme.ink : colour;
}
const classMarker = (c) => meta.style.markers[Math.floor(c / meta.style.classes.length) % meta.style.markers.length];
