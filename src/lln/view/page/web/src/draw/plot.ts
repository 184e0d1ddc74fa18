// Axes, ticks and lines: as much of a plotting library as this page needs.

import type { Surface } from "./surface";
import { colours } from "./theme";

export interface Box {
  left: number;
  top: number;
  right: number;
  bottom: number;
}

export interface Scale {
  (value: number): number;
  invert(pixel: number): number;
  low: number;
  high: number;
}

export function linear(low: number, high: number, from: number, to: number): Scale {
  const span = high - low || 1;
  const scale = ((value: number) => from + ((value - low) / span) * (to - from)) as Scale;
  scale.invert = (pixel) => low + ((pixel - from) / (to - from || 1)) * span;
  scale.low = low;
  scale.high = high;
  return scale;
}

/** Round numbers between low and high, about `count` of them. */
export function ticks(low: number, high: number, count: number): number[] {
  const span = high - low;
  if (!(span > 0) || !Number.isFinite(span)) return [low];
  const rough = span / Math.max(count, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= rough) ?? rough;
  const values = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * span; k++) values.push(k * step);
  return values;
}

export function short(value: number): string {
  if (!Number.isFinite(value)) return value > 0 ? "∞" : value < 0 ? "−∞" : "not a number";
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-3 || size >= 1e5) ? value.toExponential(1) : String(+value.toPrecision(4));
  return text.replace(/-/g, "−");
}

/** A power of ten as people write it. */
export function powerOfTen(power: number): string {
  if (Math.abs(power) <= 3) return String(+(10 ** power).toPrecision(1));
  return `10${String(power).replace("-", "⁻").replace(/\d/g, (digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(digit)])}`;
}

/** How strongly the steps after the present one are drawn. */
const FUTURE = 0.35;

export interface AxisOptions {
  x?: string;
  y?: string;
  xTicks?: boolean;
  /** words for a value of x, instead of the number, and where ticks stand */
  dates?: { (value: number): string; ticks: typeof ticks };
  yCount?: number;
}

/** Grid, tick labels and axis titles around `box`; a scale that is null has neither grid nor labels. */
export function axes(surface: Surface, box: Box, x: Scale | null, y: Scale | null, options: AxisOptions = {}): void {
  const { context } = surface;
  const c = colours();
  context.lineWidth = 1;
  context.strokeStyle = c.grid;
  context.fillStyle = c["soft-ink"];
  context.font = context.font.replace(/^\S+/, "11px");
  context.textAlign = "center";
  context.textBaseline = "top";
  if (x) {
    const word = options.dates ?? short;
    const count = (box.right - box.left) / (options.dates ? 110 : 80);
    const stands = (many: number): number[] => (options.dates?.ticks ?? ticks)(x.low, x.high, many);
    // One tick alone gives no scale.
    const most = [0, 1, 2, 3].find((more) => stands(count + more).length > 1) ?? 3;
    for (const value of stands(count + most)) {
      const at = Math.round(x(value)) + 0.5;
      segment(context, at, box.top, at, box.bottom);
      if (options.xTicks === false) continue;
      const text = word(value);
      context.fillText(text, Math.min(at, surface.width - 2 - context.measureText(text).width / 2), box.bottom + 5);
    }
  }
  context.textAlign = "right";
  context.textBaseline = "middle";
  if (y) {
    for (const value of ticks(y.low, y.high, options.yCount ?? (box.bottom - box.top) / 40)) {
      const at = Math.round(y(value)) + 0.5;
      segment(context, box.left, at, box.right, at);
      context.fillText(short(value), box.left - 6, at);
    }
  }
  context.fillStyle = c.ink;
  if (options.x) {
    context.textAlign = "right";
    context.textBaseline = "bottom";
    context.fillText(options.x, box.right, box.bottom + 32);
  }
  if (options.y) {
    context.textAlign = "left";
    context.textBaseline = "bottom";
    // Words that are longer than the axis begin further left.
    const spare = surface.width - 4 - context.measureText(options.y).width;
    context.fillText(options.y, Math.max(2, Math.min(box.left, spare)), box.top - 4);
  }
}

export function segment(context: CanvasRenderingContext2D, x0: number, y0: number, x1: number, y1: number): void {
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

/** A polyline through `count` points, with a gap where a point is not finite. */
export function line(
  context: CanvasRenderingContext2D,
  count: number,
  point: (k: number) => readonly [number, number],
  colour: string,
  width = 1.75,
  dash: number[] = [],
): void {
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.setLineDash(dash);
  context.beginPath();
  let drawing = false;
  for (let k = 0; k < count; k++) {
    const [x, y] = point(k);
    const finite = Number.isFinite(x) && Number.isFinite(y);
    if (finite && drawing) context.lineTo(x, Math.min(Math.max(y, -1e5), 1e5));
    else if (finite) context.moveTo(x, y);
    drawing = finite;
  }
  context.stroke();
  context.setLineDash([]);
}

/** A path through time: faint as a whole, and strong up to the present step. */
export function trail(
  context: CanvasRenderingContext2D,
  count: number,
  now: number,
  point: (k: number) => readonly [number, number],
  colour: string,
  width: number,
  dash: number[] = [],
): void {
  context.globalAlpha = FUTURE;
  line(context, count, point, colour, width, dash);
  context.globalAlpha = 1;
  if (now > 0) line(context, Math.min(count, Math.floor(now) + 1), point, colour, width, dash);
}

export function clip(context: CanvasRenderingContext2D, box: Box, draw: () => void): void {
  context.save();
  context.beginPath();
  context.rect(box.left, box.top, box.right - box.left, box.bottom - box.top);
  context.clip();
  draw();
  context.restore();
}

/** A dot with a rim of paper, so that it stands out on any line. */
export function dot(context: CanvasRenderingContext2D, x: number, y: number, radius: number, fill: string): void {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = fill;
  context.fill();
  context.lineWidth = 2;
  context.strokeStyle = colours().paper;
  context.stroke();
}

/** What can be dragged: a ring around a dot. */
export function handle(context: CanvasRenderingContext2D, x: number, y: number, active: boolean): void {
  const c = colours();
  context.beginPath();
  context.arc(x, y, active ? 13 : 10, 0, 2 * Math.PI);
  context.globalAlpha = 0.25;
  context.fillStyle = c.handle;
  context.fill();
  context.globalAlpha = 1;
  context.lineWidth = 1.5;
  context.strokeStyle = c.handle;
  context.stroke();
  dot(context, x, y, 5, c.handle);
}

/** How persistence is drawn. */
export const DOTS = [2, 3];

/** The vertical mark of a moment, with words beside it: above the axis, where its `title` leaves room, or inside, at the foot if `low`. */
export function mark(
  surface: Surface, box: Box, at: number, text: string, colour: string, dash: number[] = [], title = "", low = false,
): void {
  const { context } = surface;
  context.strokeStyle = colour;
  context.lineWidth = 1.25;
  context.setLineDash(dash);
  segment(context, at, box.top, at, box.bottom);
  context.setLineDash([]);
  if (!text) return;
  const from = beside(context, box, at, text);
  if (low) return rimmed(context, text, from, box.bottom - 5, "bottom", colour);
  const above = title !== "" && from > box.left + context.measureText(title).width + 8;
  rimmed(context, text, from, above ? box.top - 4 : box.top + 5, above ? "bottom" : "top", colour);
}

/** Where words beside a mark begin: behind the line, or before it; where neither has room, as near as they stay whole. */
export function beside(context: CanvasRenderingContext2D, box: Box, at: number, text: string): number {
  const wide = context.measureText(text).width;
  return at + 6 + wide < box.right + 10 ? at + 6 : Math.max(at - 6 - wide, box.left + 2);
}

/** Words with a rim of paper, which keeps them readable on lines and pictures. */
export function rimmed(
  context: CanvasRenderingContext2D, text: string, x: number, y: number, baseline: CanvasTextBaseline, colour: string,
): void {
  context.textAlign = "left";
  context.textBaseline = baseline;
  context.fillStyle = colour;
  context.strokeStyle = colours().paper;
  context.lineWidth = 4;
  context.strokeText(text, x, y);
  context.fillText(text, x, y);
}

/** Least and largest of what `visit` reports, widened a little; never empty. */
export function extent(visit: (report: (value: number) => void) => void, margin = 0.06): [number, number] {
  let low = Infinity;
  let high = -Infinity;
  visit((value) => {
    if (!Number.isFinite(value)) return;
    if (value < low) low = value;
    if (value > high) high = value;
  });
  if (low > high) return [-1, 1];
  const more = (high - low) * margin || Math.max(Math.abs(high), 1) * margin;
  return [low - more, high + more];
}
