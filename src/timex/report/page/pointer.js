/* The pointer on the map: hover, click, zoom, pan, lasso. */

/** What lies under a pixel: a landmark, else the nearest visible explanation within reach, else null. */
function under(px, py) {
  const radii = state.diamonds ? landmarkRadii() : [];
  for (let j = 0; j < radii.length; j++) {
    if (!landmarks[j].place) continue;
    const [x, y] = screen(...landmarks[j].place);
    if (Math.hypot(x - px, y - py) <= radii[j] + (radii[j] === SMALL ? 0 : 2)) return { landmark: j };
  }
  const [wx, wy] = plane(px, py);
  const reach = (radius() + 7) / (view.base * state.zoom.k);
  let best = null,
    distance = reach * reach;
  for (const i of shown) {
    const d = (data.place[2 * i] - wx) ** 2 + (data.place[2 * i + 1] - wy) ** 2;
    if (d < distance) [best, distance] = [i, d];
  }
  return best === null ? null : { sample: best };
}

function zoomBy(factor, px = view.w / 2, py = view.h / 2) {
  const [x, y] = plane(px, py);
  const k = Math.min(200, Math.max(0.5, state.zoom.k * factor));
  const change = state.zoom.k / k;
  Object.assign(state.zoom, { x: x + (state.zoom.x - x) * change, y: y + (state.zoom.y - y) * change, k });
  drawCloud();
  writeFragment();
}

function showTip(hit, px, py) {
  const tip = $("tip");
  if (hit === null) {
    tip.hidden = true;
    return;
  }
  tip.hidden = false;
  const canvas = $("tip-canvas");
  if (hit.sample === undefined) {
    const l = landmarks[hit.landmark];
    canvas.hidden = true;
    $("tip-text").textContent = `Landmark ${l.number}: ${l.count.toLocaleString("en")} training explanations`;
  } else {
    const i = hit.sample;
    canvas.hidden = !data.low;
    if (data.low) drawThumbnail(canvas, i, state.method === ALL ? 0 : state.method, 180, 70);
    $("tip-text").textContent =
      `Sample ${idOf(i)}: ${classes[data.prediction[i]]} (${probability(i, data.prediction[i]).toFixed(2)})`;
  }
  const right = px + 214 > view.w;
  tip.style.left = `${Math.max(0, right ? px - 208 : px + 14)}px`;
  tip.style.top = `${Math.max(0, Math.min(py + 12, view.h - tip.offsetHeight - 4))}px`;
}

const gesture = { pointers: new Map(), start: null, moved: false, pinch: 0 };

function listenToMap() {
  map.addEventListener("pointerdown", press);
  map.addEventListener("pointermove", drag);
  map.addEventListener("pointerup", release);
  map.addEventListener("pointercancel", release);
  map.addEventListener("pointerleave", () => hover(null));
  const wheel = (event) => {
    event.preventDefault();
    zoomBy(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.0018)), ...where(event));
  };
  map.addEventListener("wheel", wheel, { passive: false });
}

/** The place of an event on the map, in pixels. */
function where(event) {
  const box = map.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function press(event) {
  const at = where(event);
  map.setPointerCapture(event.pointerId);
  gesture.pointers.set(event.pointerId, at);
  Object.assign(gesture, { start: at, moved: false, pinch: 0 });
  if ($("lasso").getAttribute("aria-pressed") === "true" || event.shiftKey) drawing = [at];
  if (gesture.pointers.size > 1) drawing = null;
}

/** Hover, or with a pointer down: pinch, lasso or pan. */
function drag(event) {
  const { pointers, start } = gesture;
  const at = where(event);
  if (!pointers.has(event.pointerId)) return hover(at);
  const before = pointers.get(event.pointerId);
  pointers.set(event.pointerId, at);
  if (Math.hypot(at[0] - start[0], at[1] - start[1]) > 4) gesture.moved = true;
  if (pointers.size === 2) {
    const [a, b] = [...pointers.values()];
    const apart = Math.hypot(a[0] - b[0], a[1] - b[1]);
    if (gesture.pinch) zoomBy(apart / gesture.pinch, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
    gesture.pinch = apart;
  } else if (drawing) {
    drawing.push(at);
    drawMarks();
  } else if (gesture.moved) {
    state.zoom.x -= (at[0] - before[0]) / (view.base * state.zoom.k);
    state.zoom.y += (at[1] - before[1]) / (view.base * state.zoom.k);
    showTip(null);
    drawCloud();
  }
}

/** The end of a lasso, of a pan, or of a click. */
function release(event) {
  if (!gesture.pointers.delete(event.pointerId)) return;
  const corners = drawing;
  drawing = null;
  if (event.type === "pointercancel") return;
  if (corners && gesture.moved) {
    const every = Math.ceil(corners.length / 60); // few enough corners for an address
    state.lasso = corners.filter((_, j) => j % every === 0).map(([x, y]) => plane(x, y));
    if (state.view !== "sample") state.view = "selection";
    changeFilters();
  } else if (gesture.moved) {
    writeFragment();
  } else {
    const hit = under(...where(event));
    if (!hit) return;
    if (hit.landmark !== undefined) selectLandmark(hit.landmark);
    else selectSample(hit.sample);
    if (narrowPage.matches) $("detail").scrollIntoView(); // above the map there, out of sight
  }
}

function hover(at) {
  const hit = at && under(...at);
  map.classList.toggle("over", Boolean(hit));
  const same = hovered?.sample === hit?.sample && hovered?.landmark === hit?.landmark;
  hovered = hit;
  if (!same) drawMarks();
  showTip(hit, ...(at || []));
}
