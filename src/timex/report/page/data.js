/* The data: facts as JSON, arrays unpacked from their blocks, and access to single cells.

   n explanations, D channels, S columns of time, C classes. A lane is one channel of one explanation: its S values are one
   contiguous run that starts at (i * D + k) * S. */

const $ = (id) => document.getElementById(id);
const meta = JSON.parse($("meta").textContent);
const { channels, classes, methods, landmarks, columns: S, count: N } = meta;
const D = channels.length;
const ALL = methods.length; // the number that stands for "all methods, side by side"
const FEW = 16; // channels drawn before "show all" is asked for
const LANES = 8; // channels in one row of a comparison
const FEWER = 4; // channels in a thumbnail
const NAMED = 7; // landmarks with a colour of their own
const FILTRATION = 10; // training explanations that make a landmark count, as in the paper
const data = {}; // unpacked arrays by name
const inSteps = meta.clock.label === "step"; // not times with a unit
const clockAt = (t) => (t - meta.clock.origin) * meta.clock.factor; // a time of the series on the axis
const landmarkOf = new Map(landmarks.map((l) => [l.number, l]));

const TYPES = { uint8: Uint8Array, uint32: Uint32Array, float32: Float32Array };

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text);
  const bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return bytes;
}

async function unpack(name) {
  const block = $("array-" + name);
  const stream = new Blob([fromBase64(block.textContent)]).stream().pipeThrough(new DecompressionStream("deflate"));
  const buffer = await new Response(stream).arrayBuffer();
  data[name] = meta.arrays[name] === "uint16" ? joined(new Uint8Array(buffer)) : new TYPES[meta.arrays[name]](buffer);
  block.remove();
}

/** Two-byte numbers from all their low bytes followed by all their high ones. */
function joined(bytes) {
  const n = bytes.length / 2;
  const values = new Uint16Array(n);
  for (let i = 0; i < n; i++) values[i] = bytes[i] | (bytes[n + i] << 8);
  return values;
}

const bit = (bits, at) => (bits[at >> 3] >> (at & 7)) & 1;

/** Times of the columns of explanation i, and the edges of the cells half way between them. */
let sharedAxis = null;
function axis(i) {
  if (meta.times && sharedAxis) return sharedAxis;
  const n = meta.times ? S : Math.max(1, data.length[i]);
  const t = meta.times ? Float64Array.from(meta.times) : Float64Array.from(data.times.subarray(i * S, i * S + n));
  const edges = new Float64Array(n + 1);
  for (let c = 1; c < n; c++) edges[c] = (t[c - 1] + t[c]) / 2;
  edges[0] = n > 1 ? 2 * t[0] - edges[1] : t[0] - 0.5;
  edges[n] = n > 1 ? 2 * t[n - 1] - edges[n - 1] : t[0] + 0.5;
  const made = { n, t, edges };
  if (meta.times) sharedAxis = made;
  return made;
}

const scaleOf = (i, m) => [data["scale-" + m][2 * i], data["scale-" + m][2 * i + 1]];
const attributionAt = (i, k, c, m) => {
  const [low, high] = scaleOf(i, m);
  return low + (data["attribution-" + m][(i * D + k) * S + c] / meta.levels) * (high - low);
};
const valueAt = (i, k, c, which = "low") => {
  const at = (i * D + k) * 2,
    low = data.range[at],
    high = data.range[at + 1];
  return low + ((data[which] || data.low)[(i * D + k) * S + c] / meta.fine) * (high - low);
};
const seenAt = (i, k, c) => !data.observed || bit(data.observed, (i * D + k) * S + c) === 1;
