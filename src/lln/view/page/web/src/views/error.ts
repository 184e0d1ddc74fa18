// How far the rollout is from the truth, step by step, on a logarithmic axis, with the valid prediction time.

import { axes, clip, line, linear, mark, powerOfTen, rimmed, segment, short, type Scale } from "../draw/plot";
import { grab, Surface } from "../draw/surface";
import { colours } from "../draw/theme";
import type { State } from "../state";
import { dateWords, element, span, timeAxis, type View } from "./view";

const FLOOR = 1e-12;

export class ErrorView implements View {
  private readonly surface: Surface;
  private x: Scale = linear(0, 1, 0, 1);

  constructor(private readonly state: State) {
    this.surface = new Surface(element<HTMLCanvasElement>("error"), () => state.changed());
    const seek = (px: number): void => state.seek((this.x.invert(px) - state.startTime) / state.payload.dt);
    grab(this.surface, (px) => (seek(px), true), seek, () => undefined);
  }

  draw(): void {
    const { state, surface } = this;
    if (!surface.begin()) return;
    const { payload } = state;
    const c = colours();
    const box = { left: 58, right: surface.width - 14, top: 24, bottom: surface.height - 40 };
    const many = Math.min(state.fresh, state.known);
    let low = Math.log10(payload.threshold) - 2;
    let high = Math.log10(payload.threshold) + 1;
    for (let k = 1; k <= many; k++) {
      const value = Math.log10(Math.max(state.errors[k], FLOOR));
      if (Number.isNaN(value)) continue;
      low = Math.min(low, value);
      if (Number.isFinite(value)) high = Math.max(high, Math.min(value, 3));
    }
    this.x = linear(state.startTime, state.startTime + state.steps * payload.dt, box.left, box.right);
    const y = linear(Math.floor(low), Math.ceil(high), box.bottom, box.top);
    this.frame(box, y);
    const at = (k: number): number => this.x(state.startTime + k * payload.dt);
    const limit = y(Math.log10(payload.threshold));
    const { context } = surface;
    context.strokeStyle = c["soft-ink"];
    context.setLineDash([7, 4]);
    segment(context, box.left, limit, box.right, limit);
    context.setLineDash([]);
    clip(context, box, () => {
      line(context, many, (k) => [at(k + 1), y(Math.log10(Math.max(state.baseline[k + 1], FLOOR)))], c["soft-ink"], 1.5, [1.5, 2.5]);
      line(context, many, (k) => [at(k + 1), y(Math.log10(Math.max(state.errors[k + 1], FLOOR)))], c.forecast, 2);
    });
    const words = `threshold ${short(payload.threshold)}`;
    const above = !(state.errors[many] > payload.threshold); // where the last error is not
    const right = box.right - 6 - context.measureText(words).width;
    rimmed(context, words, right, limit + (above ? -3 : 4), above ? "bottom" : "top", c["soft-ink"]);
    mark(surface, box, at(state.now), "", c["soft-ink"]);
    if (state.limit !== null) {
      mark(surface, box, at(state.limit), `valid for ${span(payload, state.limit)}`, c.highlight, [5, 4]);
    }
  }

  private frame(box: { left: number; right: number; top: number; bottom: number }, y: Scale): void {
    const { surface, state } = this;
    axes(surface, box, this.x, null, {
      x: timeAxis(state.payload),
      dates: dateWords(state.payload),
      y: "error, in standard deviations of the training data",
    });
    const { context } = surface;
    const c = colours();
    const every = Math.ceil((y.high - y.low) / 6);
    for (let power = Math.ceil(y.low); power <= y.high; power += every) {
      const at = Math.round(y(power)) + 0.5;
      context.strokeStyle = c.grid;
      segment(context, box.left, at, box.right, at);
      context.fillStyle = c["soft-ink"];
      context.textAlign = "right";
      context.textBaseline = "middle";
      context.fillText(powerOfTen(power), box.left - 6, at);
    }
  }
}
