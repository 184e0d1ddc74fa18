// Every coordinate over time: the rows before the start, truth, forecast and persistence. The start of each can be dragged up and down.

import { axes, clip, dot, handle, line, linear, mark, trail, type Box, type Scale } from "../draw/plot";
import { grab, Surface } from "../draw/surface";
import { colours } from "../draw/theme";
import type { State } from "../state";
import { past, ranges } from "./ranges";
import { dateWords, element, named, timeAxis, type View } from "./view";

const ROW = 136;
const TOUCH = 22;
/** rows before the start are shown over at most this part of the steps after it */

export class SeriesView implements View {
  private readonly surface: Surface;
  private rows: { box: Box; x: Scale; y: Scale }[] = [];
  private held = -1;
  /** height of one plot: few coordinates get more room */
  private readonly row: number;

  constructor(private readonly state: State) {
    const canvas = element<HTMLCanvasElement>("series");
    this.row = Math.max(ROW, Math.min(220, 440 / state.n));
    canvas.style.height = `${state.n * this.row + 40}px`;
    this.surface = new Surface(canvas, () => state.changed());
    grab(
      this.surface,
      (x, y) => this.press(x, y),
      (x, y) => this.move(x, y),
      () => this.release(),
    );
  }

  draw(): void {
    const { state, surface } = this;
    if (!surface.begin()) return;
    const c = colours();
    const { payload } = state;
    const all = ranges(state, Array.from({ length: state.n }, (_, i) => i));
    const before = past(state);
    const times = [state.startTime - before * payload.dt, state.startTime + state.steps * payload.dt] as const;
    this.rows = all.map(([low, high], i) => {
      const box = { left: 58, right: surface.width - 14, top: i * this.row + 24, bottom: (i + 1) * this.row - 6 };
      return { box, x: linear(...times, box.left + 12, box.right), y: linear(low, high, box.bottom, box.top) };
    });
    this.rows.forEach(({ box, x, y }, i) => {
      const last = i === state.n - 1;
      const title = named(payload.names[i], payload.units[i]);
      axes(surface, box, x, y, {
        y: title,
        x: last ? timeAxis(payload) : undefined,
        xTicks: last,
        dates: dateWords(payload),
        yCount: 4,
      });
      const at = (k: number): number => x(state.startTime + k * payload.dt);
      clip(surface.context, { ...box, left: box.left - 14 }, () => {
        const { context } = surface;
        line(context, before + 1, (k) => [at(k - before), y(state.before(before - k, i))], c.truth, 2);
        const dash = state.reference.kind === "analog" ? [7, 5] : [];
        if (state.known > 0) {
          trail(context, state.known + 1, state.now, (k) => [at(k), y(state.truth(k, i))], c.truth, 3.5, dash);
          line(context, 2, (k) => [at(k * state.steps), y(state.predicted(0, i))], c["soft-ink"], 1.5, [1.5, 2.5]);
        }
        trail(context, state.fresh + 1, state.now, (k) => [at(k), y(state.predicted(k, i))], c.forecast, 1.75);
      });
      mark(surface, box, at(state.now), "", c["soft-ink"]);
      if (state.limit !== null) {
        mark(surface, box, at(state.limit), i === 0 ? "valid until here" : "", c.highlight, [5, 4], title);
      }
      const k = Math.min(Math.floor(state.now), state.fresh);
      dot(surface.context, at(k), y(state.predicted(k, i)), 4.5, c.forecast);
      handle(surface.context, at(0), y(state.predicted(0, i)), this.held === i);
    });
  }

  private press(px: number, py: number): boolean {
    this.held = this.rows.findIndex(({ x, y }, i) => {
      return Math.abs(px - x(this.state.startTime)) < TOUCH && Math.abs(py - y(this.state.predicted(0, i))) < TOUCH;
    });
    if (this.held >= 0) {
      this.state.dragging = true;
      return true;
    }
    const row = this.rows.find(({ box }) => px >= box.left && px <= box.right && py >= box.top && py <= box.bottom);
    if (row) this.seek(px, row.x);
    return row !== undefined;
  }

  private move(px: number, py: number): void {
    const { state } = this;
    if (this.held < 0) return this.seek(px, this.rows[0].x);
    const { y } = this.rows[this.held];
    const value = Math.min(Math.max(y.invert(py), y.low), y.high);
    state.shift(this.held, value - state.predicted(0, this.held));
    state.refresh();
    state.changed();
  }

  private seek(px: number, x: Scale): void {
    this.state.seek((x.invert(px) - this.state.startTime) / this.state.payload.dt);
  }

  private release(): void {
    const dragged = this.held >= 0;
    this.held = -1;
    if (dragged) this.state.drop();
  }
}
