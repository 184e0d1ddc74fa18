// The start of a field as a curve to drag, and the field at the present step beside the truth.

import { axes, clip, handle, line, linear, type Box, type Scale } from "../draw/plot";
import { grab, Surface } from "../draw/surface";
import { colours } from "../draw/theme";
import type { State } from "../state";
import type { Grid } from "./field";
import { element, named, type View } from "./view";

export class CurveView implements View {
  private readonly start: Surface;
  private readonly present: Surface;
  private box: Box = { left: 0, top: 0, right: 1, bottom: 1 };
  private x: Scale = linear(0, 1, 0, 1);
  private y: Scale = linear(0, 1, 0, 1);
  private place: number;
  private held = false;
  private base: Float64Array = new Float64Array(0);
  /** Row of a two-dimensional field that the curves show. */
  private row = 0;

  constructor(
    private readonly state: State,
    private readonly grid: Grid,
    /** whether only the present is drawn, because the start is painted elsewhere */
    private readonly presentOnly = false,
  ) {
    const canvas = element<HTMLCanvasElement>("start-curve");
    this.start = new Surface(canvas, () => state.changed());
    this.present = new Surface(element<HTMLCanvasElement>("present-curve"), () => state.changed());
    this.place = Math.floor(this.count / 2);
    grab(
      this.start,
      (x, y) => this.press(x, y),
      (_, y) => this.move(y),
      () => this.release(),
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.rowControl();
  }

  draw(): void {
    const { state } = this;
    const now = Math.min(Math.floor(state.now), state.fresh);
    this.plot(this.present, now, false);
    if (!this.presentOnly) this.plot(this.start, 0, true);
  }

  private get count(): number {
    const { space } = this.state.payload;
    return this.grid.flat ? this.grid.places : space[space.length - 1];
  }

  private index(place: number): number {
    return this.grid.index(this.row * this.count + place);
  }

  private rowControl(): void {
    const field = element("row-field");
    field.hidden = this.grid.flat;
    if (this.grid.flat) return;
    const input = element<HTMLInputElement>("row");
    const rows = this.grid.places / this.count;
    input.max = String(rows - 1);
    this.row = Math.floor(rows / 2);
    input.value = String(this.row);
    input.addEventListener("input", () => {
      this.row = Number(input.value);
      this.state.changed();
    });
  }

  private plot(surface: Surface, step: number, draggable: boolean): void {
    if (!surface.begin()) return;
    const { state, grid } = this;
    const c = colours();
    const axis = grid.axes[grid.axes.length - 1];
    const box = { left: 58, right: surface.width - 14, top: 24, bottom: surface.height - 40 };
    const { middle, half } = grid.range();
    let most = half;
    for (let i = 0; i < this.count; i++) most = Math.max(most, Math.min(Math.abs(state.predicted(step, this.index(i)) - middle), 2 * half) || 0);
    const x = linear(axis.values[0], axis.values[axis.values.length - 1], box.left + 6, box.right - 6);
    const y = linear(middle - 1.1 * most, middle + 1.1 * most, box.bottom, box.top);
    const channel = grid.channels[grid.channel];
    axes(surface, box, x, y, { x: named(axis.name, axis.unit), y: named(channel, state.payload.units[this.index(0)] ?? "") });
    const { context } = surface;
    clip(context, box, () => {
      if (state.known > 0 && step <= state.known) {
        line(context, this.count, (i) => [x(axis.values[i]), y(state.truth(step, this.index(i)))], c.truth, 3.5);
      }
      line(context, this.count, (i) => [x(axis.values[i]), y(state.predicted(step, this.index(i)))], c.forecast, 2);
    });
    if (!draggable) return;
    [this.box, this.x, this.y] = [box, x, y];
    handle(context, x(axis.values[this.place]), y(state.predicted(0, this.index(this.place))), this.held);
  }

  private press(px: number, py: number): boolean {
    const { box, state } = this;
    if (px < box.left || px > box.right || py < box.top - 8 || py > box.bottom + 8) return false;
    const values = this.grid.axes[this.grid.axes.length - 1].values;
    const at = this.x.invert(px);
    this.place = values.reduce((best, value, i) => (Math.abs(value - at) < Math.abs(values[best] - at) ? i : best), 0);
    this.held = state.dragging = true;
    this.remember();
    state.changed();
    return true;
  }

  /** Pull the curve to the pointer, its neighbours along with it. */
  private move(py: number): void {
    const value = Math.min(Math.max(this.y.invert(py), this.y.low), this.y.high);
    this.bend(value - this.base[this.row * this.count + this.place]);
  }

  /** The whole field as it was before the pull. */
  private remember(): void {
    this.base = Float64Array.from({ length: this.grid.places }, (_, i) => this.state.predicted(0, this.grid.index(i)));
  }

  private bend(pull: number): void {
    const { state } = this;
    const reach = Math.max(1, (this.count * Number(element<HTMLInputElement>("brush").value)) / 100);
    for (let i = 0; i < this.base.length; i++) {
      const apart = Math.hypot((i % this.count) - this.place, Math.floor(i / this.count) - this.row);
      const goal = this.base[i] + pull * Math.exp(-((apart / reach) ** 2));
      state.shift(this.grid.index(i), goal - state.predicted(0, this.grid.index(i)));
    }
    state.refresh();
    state.changed();
  }

  private release(): void {
    this.held = false;
    this.state.drop();
  }

  private key(event: KeyboardEvent): void {
    const along: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1 };
    const up: Record<string, number> = { ArrowUp: 1, ArrowDown: -1 };
    if (event.key in along) this.place = Math.min(Math.max(this.place + along[event.key], 0), this.count - 1);
    else if (event.key in up) {
      this.remember();
      this.bend((up[event.key] * (this.y.high - this.y.low)) / 40);
    } else return;
    event.preventDefault();
    this.state.changed();
  }
}
