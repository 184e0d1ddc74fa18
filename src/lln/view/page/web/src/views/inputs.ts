// The known inputs over time: what was given before the start, and what is given along the forecast.

import { axes, clip, dot, extent, line, linear, mark, rimmed, trail, type Scale } from "../draw/plot";
import { grab, Surface } from "../draw/surface";
import { colours } from "../draw/theme";
import type { State } from "../state";
import { past } from "./ranges";
import { dateWords, element, timeAxis, type View } from "./view";

const ROW = 104;
const MOST = 6;
const KEPT = "last value kept from here";

export class InputsView implements View {
  private readonly surface: Surface;
  private readonly count: number;
  private x: Scale = linear(0, 1, 0, 1);

  constructor(private readonly state: State) {
    const canvas = element<HTMLCanvasElement>("inputs");
    const { inputNames } = state.payload;
    this.count = Math.min(inputNames.length, MOST);
    if (inputNames.length > MOST) canvas.previousElementSibling?.append(`: the first ${MOST} of ${inputNames.length}`);
    canvas.style.height = `${this.count * ROW + 40}px`;
    this.surface = new Surface(canvas, () => state.changed());
    const seek = (px: number): void => state.seek((this.x.invert(px) - state.startTime) / state.payload.dt);
    grab(this.surface, (px) => (seek(px), true), seek, () => undefined);
  }

  draw(): void {
    const { state, surface } = this;
    if (!surface.begin()) return;
    const { payload } = state;
    const { context } = surface;
    const c = colours();
    const before = past(state);
    const given = Math.min(state.steps, state.data.rows - 1 - state.row); // after it the last values are kept
    const now = Math.floor(state.now);
    const times = [state.startTime - before * payload.dt, state.startTime + state.steps * payload.dt] as const;
    for (let i = 0; i < this.count; i++) {
      const box = { left: 58, right: surface.width - 14, top: i * ROW + 24, bottom: (i + 1) * ROW - 6 };
      const [low, high] = extent((report) => {
        for (let k = -before; k <= state.steps; k++) report(state.inputsAt(k)[i]);
      });
      const last = i === this.count - 1;
      this.x = linear(...times, box.left + 12, box.right);
      const y = linear(low, high, box.bottom, box.top);
      axes(surface, box, this.x, y, {
        y: payload.inputNames[i], x: last ? timeAxis(payload) : undefined, xTicks: last, dates: dateWords(payload), yCount: 3,
      });
      const at = (k: number): readonly [number, number] => [this.x(state.startTime + k * payload.dt), y(state.inputsAt(k)[i])];
      clip(context, box, () => {
        line(context, before + 1, (k) => at(k - before), c.truth, 2);
        trail(context, given + 1, now, at, c.ink, 1.75);
        trail(context, state.steps - given + 1, now - given, (k) => at(given + k), c.ink, 1.75, [3, 4]);
      });
      mark(surface, box, at(state.now)[0], "", c["soft-ink"]);
      if (given < state.steps) {
        const [from, level] = at(given);
        mark(surface, box, from, "", c["soft-ink"], [1, 3]);
        // In the half without the curve, if there is room; the status says it too.
        const high = level < (box.top + box.bottom) / 2;
        const room = from + 6 + context.measureText(KEPT).width < box.right;
        if (room && i === 0) rimmed(context, KEPT, from + 6, high ? box.bottom - 3 : box.top + 3, high ? "bottom" : "top", c["soft-ink"]);
      }
      dot(context, ...at(now), 4, c.ink);
    }
  }
}
