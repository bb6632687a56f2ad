// The map: every item at its place on two directions of the board, and the point where one's own taste is.

import { chip, el, part } from "../shared/dom.js";

const REACH = 14;
const MARGIN = 22;
const LABELS = { wide: 16, narrow: 7 };
const NEAREST = 5;

/**
 * Draw the map.
 *
 * `projection` has `basis` (two rows of rank numbers) and `centre` (rank numbers): the two directions along which the
 * items vary most, found when the page was written. Gives a function that is told the own vector, the items of the
 * list and those rated.
 */
export function mapView({ titleOf, pick }) {
  const canvas = part("map");
  const tip = part("map-tip");
  let [scene, now, places] = [null, null, null];

  function useBoard(board, { basis, centre }) {
    const { values, shape } = board.arrays.item_factors;
    const [nItems, rank] = shape;
    const learnt = board.arrays.learnt?.values;
    const flat = new Float64Array(2 * nItems).fill(NaN);
    const reach = [0, 0];
    let norms = 0;
    for (let item = 0; item < nItems; item++) {
      if (learnt?.[item] === 0) continue;
      let square = 0;
      for (let side = 0; side < 2; side++) {
        let sum = 0;
        for (let d = 0; d < rank; d++) sum += basis[side][d] * (values[item * rank + d] - centre[d]);
        flat[2 * item + side] = sum;
        reach[side] = Math.max(reach[side], Math.abs(sum));
      }
      for (let d = 0; d < rank; d++) square += values[item * rank + d] ** 2;
      norms += square;
    }
    const counts = board.arrays.item_counts?.values ?? new Float64Array(nItems).fill(1);
    scene = { flat, reach: reach.map((most) => most || 1), counts, basis, length: 1.5 * Math.sqrt(norms / nItems) };
    scene.box = boxOf(flat, scene.reach);
    const isLearnt = (item) => !Number.isNaN(flat[2 * item]);
    scene.known = [...counts.keys()].filter(isLearnt).sort((a, b) => counts[b] - counts[a]);
  }

  /** Where a taste points: the place of an item of a usual length in that direction. */
  function ownPlace(vector) {
    const length = Math.hypot(...vector);
    const stretch = length ? (scene.length * length) / (length + 0.3) / length : 0;
    return [0, 1].map((side) => vector.reduce((sum, value, d) => sum + scene.basis[side][d] * value, 0) * stretch);
  }

  function draw(own, listed, rated) {
    now = { own, listed, rated };
    const width = canvas.clientWidth;
    const height = canvas.clientHeight;
    if (!width || scene === null) return;
    const density = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * density))
      [canvas.width, canvas.height] = [width * density, height * density].map(Math.round);
    const pen = canvas.getContext("2d");
    pen.setTransform(density, 0, 0, density, 0, 0);
    const colour = coloursOf(canvas);
    const place = (places = placing(width, height));
    pen.clearRect(0, 0, width, height);
    const dots = dotLayer(width, height, density, place, colour);
    pen.drawImage(dots, 0, 0, width, height);
    pen.font = `12px ${getComputedStyle(canvas).fontFamily}`;
    const [ownX, ownY] = place(ownPlace(own));
    const taken = [[ownX - 26, ownY - 26, ownX + 26, ownY + 14]];
    for (const item of rated) ring(pen, place(at(item)), colour.rated);
    for (const item of listed) dot(pen, place(at(item)), 4.2, colour.listed);
    const [some, many] = [listed.slice(0, width > 700 ? 8 : 4), scene.known.slice(0, 60)];
    let left = width > 700 ? LABELS.wide : LABELS.narrow;
    for (const [items, ink] of [
      [[...rated], colour.rated],
      [some, colour.listed],
      [many, colour.muted],
    ]) {
      for (const item of items)
        if (left > 0 && label(pen, place(at(item)), titleOf(item), ink, taken, width, colour)) left--;
    }
    you(pen, ownX, ownY, colour);
    tell(own, rated);
  }

  function at(item) {
    return [scene.flat[2 * item], scene.flat[2 * item + 1]];
  }

  /** From the plane to the picture, which the items fill. */
  function placing(width, height) {
    const [[left, right], [bottom, top]] = scene.box;
    const between = (value, low, high) => Math.min(Math.max((value - low) / (high - low || 1), 0), 1);
    return (point) => {
      const [x, y] = drawnNearer(point, scene.reach);
      const [along, up] = [between(x, left, right), between(y, bottom, top)];
      return [MARGIN + along * (width - 2 * MARGIN), height - MARGIN - up * (height - 2 * MARGIN)];
    };
  }

  function dotLayer(width, height, density, place, colour) {
    const key = `${width} ${height} ${density} ${colour.muted}`;
    if (scene.layer?.key === key) return scene.layer.canvas;
    const layer = el("canvas", { width: Math.round(width * density), height: Math.round(height * density) });
    const pen = layer.getContext("2d");
    pen.scale(density, density);
    const most = Math.max(...scene.known.slice(0, 1).map((item) => scene.counts[item]), 1);
    for (const item of scene.known) {
      const share = Math.sqrt(Math.max(scene.counts[item], 0) / most);
      pen.globalAlpha = 0.25 + 0.6 * share;
      dot(pen, place(at(item)), 1.1 + 1.6 * share, colour.muted);
    }
    scene.layer = { key, canvas: layer };
    return layer;
  }

  function tell(own, rated) {
    const [x, y] = ownPlace(own);
    const near = scene.known
      .filter((item) => !rated.includes(item))
      .map((item) => ({ item, away: Math.hypot(at(item)[0] - x, at(item)[1] - y) }))
      .sort((one, other) => one.away - other.away)
      .slice(0, NEAREST);
    part("map-told").textContent = rated.length
      ? "Nearest to your point:"
      : "Your point is in the middle until you rate. Near it:";
    part("map-near").replaceChildren(...near.map(({ item }) => chip(titleOf(item), () => pick(item))));
  }

  canvas.addEventListener("pointermove", (event) => {
    if (places === null) return;
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    let [nearest, distance] = [null, REACH];
    for (const item of scene.known) {
      const [itemX, itemY] = places(at(item));
      const away = Math.hypot(itemX - x, itemY - y);
      if (away < distance) [nearest, distance] = [item, away];
    }
    tip.hidden = nearest === null;
    if (nearest === null) return;
    tip.textContent = titleOf(nearest);
    const [tipX, tipY] = places(at(nearest));
    tip.style.left = `${Math.min(Math.max(tipX, 70), box.width - 70)}px`;
    tip.style.top = `${tipY}px`;
  });
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  const again = () => now && draw(now.own, now.listed, now.rated);
  new ResizeObserver(again).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  return { useBoard, draw };
}

/** Each side in its own measure, and what is far drawn nearer: the middle gets room. */
function drawnNearer(point, reach) {
  const [x, y] = point.map((value, side) => value / reach[side]);
  const distance = Math.hypot(x, y);
  const nearer = distance ? distance ** 0.6 / distance : 0;
  return [x * nearer, y * nearer];
}

/** Lowest and highest of all items, on each side. */
function boxOf(flat, reach) {
  const box = [1, 2].map(() => [0, 0]);
  for (let place = 0; place < flat.length; place += 2) {
    if (Number.isNaN(flat[place])) continue;
    drawnNearer([flat[place], flat[place + 1]], reach).forEach((value, side) => {
      box[side] = [Math.min(box[side][0], value), Math.max(box[side][1], value)];
    });
  }
  return box;
}

function coloursOf(canvas) {
  const style = getComputedStyle(canvas);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return { muted: of("muted"), listed: of("accent"), rated: of("warm"), surface: of("card") };
}

function dot(pen, [x, y], radius, colour) {
  pen.fillStyle = colour;
  pen.beginPath();
  pen.arc(x, y, radius, 0, 2 * Math.PI);
  pen.fill();
}

function ring(pen, [x, y], colour) {
  [pen.strokeStyle, pen.lineWidth] = [colour, 2];
  pen.beginPath();
  pen.arc(x, y, 4.5, 0, 2 * Math.PI);
  pen.stroke();
}

/** Words with a rim in the colour of the ground, so that they can be read above anything. */
function rimmed(pen, words, x, y, ink, colour) {
  [pen.lineWidth, pen.strokeStyle, pen.fillStyle] = [3, colour.surface, ink];
  pen.strokeText(words, x, y);
  pen.fillText(words, x, y);
}

function label(pen, [x, y], text, ink, taken, width, colour) {
  const plain = text.replace(/ \([^()]*\)$/, ""); // without the year
  const short = plain.length > 26 ? `${plain.slice(0, 25)}…` : plain;
  const length = pen.measureText(short).width;
  const left = x + 8 + length > width - 4 ? x - 8 - length : x + 8;
  const box = [left - 3, y - 9, left + length + 3, y + 9];
  if (left < 4 || taken.some(([x1, y1, x2, y2]) => box[0] < x2 && box[2] > x1 && box[1] < y2 && box[3] > y1))
    return false;
  taken.push(box);
  rimmed(pen, short, left, y + 4, ink, colour);
  return true;
}

function you(pen, x, y, colour) {
  [pen.lineWidth, pen.strokeStyle] = [3, colour.surface];
  dot(pen, [x, y], 8, colour.rated);
  pen.stroke();
  pen.font = `bold ${pen.font}`;
  rimmed(pen, "you", x - 11, y - 13, colour.rated, colour);
}
