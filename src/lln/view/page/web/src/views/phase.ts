// Phase space: two coordinates, or three that can be turned; the start is a point to drag.

import { axes, clip, dot, handle, linear, trail, type Box } from "../draw/plot";
import { grab, Surface } from "../draw/surface";
import { colours } from "../draw/theme";
import type { State } from "../state";
import { ranges } from "./ranges";
import { element, fillSelect, named, type View } from "./view";

const TOUCH = 24;
const FLAT = -1;

export class PhaseView implements View {
  private readonly surface: Surface;
  private chosen: [number, number, number];
  private yaw = -0.7;
  private pitch = 0.22;
  private held: "start" | "view" | null = null;
  private last: [number, number] = [0, 0];
  private project: (value: (i: number) => number) => [number, number] = () => [0, 0];
  /** What a move on the screen means for the chosen coordinates. */
  private unproject: (dx: number, dy: number) => [number, number][] = () => [];

  constructor(private readonly state: State) {
    const canvas = element<HTMLCanvasElement>("phase");
    this.surface = new Surface(canvas, () => state.changed());
    this.chosen = state.n >= 3 ? [0, 1, 2] : [0, 1, FLAT];
    this.controls();
    grab(
      this.surface,
      (x, y) => this.press(x, y),
      (x, y) => this.move(x, y),
      () => this.release(),
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  draw(): void {
    const { state, surface } = this;
    if (!surface.begin()) return;
    const c = colours();
    const box = { left: 52, right: surface.width - 14, top: 24, bottom: surface.height - 40 };
    if (this.chosen[2] === FLAT) this.flat(box);
    else this.orbit({ ...box, left: 14 });
    const { context } = surface;
    const now = Math.min(Math.floor(state.now), state.fresh);
    const frame = this.chosen[2] === FLAT ? box : { left: 0, top: 0, right: surface.width, bottom: surface.height };
    clip(context, frame, () => {
      const dash = state.reference.kind === "analog" ? [7, 5] : [];
      if (state.known > 0) trail(context, state.known + 1, now, (k) => this.project((i) => state.truth(k, i)), c.truth, 3, dash);
      trail(context, state.fresh + 1, now, (k) => this.project((i) => state.predicted(k, i)), c.forecast, 1.5);
      if (state.known > 0 && now <= state.known) dot(context, ...this.project((i) => state.truth(now, i)), 6, c.truth);
      dot(context, ...this.project((i) => state.predicted(now, i)), 5, c.forecast);
    });
    handle(context, ...this.project((i) => state.predicted(0, i)), this.held === "start");
  }

  /** Where the start is on the canvas. */
  spot(): [number, number] {
    return this.project((i) => this.state.predicted(0, i));
  }

  private controls(): void {
    const { payload, n } = this.state;
    const selects = ["phase-x", "phase-y", "phase-z"].map((id) => element<HTMLSelectElement>(id));
    fillSelect(selects[0], payload.names, this.chosen[0]);
    fillSelect(selects[1], payload.names, this.chosen[1]);
    fillSelect(selects[2], ["none (flat)", ...payload.names], this.chosen[2] + 1);
    if (n < 3) element("phase-z-field").hidden = true;
    selects.forEach((select, axis) =>
      select.addEventListener("change", () => {
        this.chosen[axis] = Number(select.value) - (axis === 2 ? 1 : 0);
        this.state.changed();
      }),
    );
  }

  private flat(box: Box): void {
    const { state } = this;
    const { payload } = state;
    const [i, j] = this.chosen;
    const [rx, ry] = ranges(state, [i, j]);
    const x = linear(...rx, box.left, box.right);
    const y = linear(...ry, box.bottom, box.top);
    axes(this.surface, box, x, y, { x: named(payload.names[i], payload.units[i]), y: named(payload.names[j], payload.units[j]) });
    this.project = (value) => [x(value(i)), y(value(j))];
    this.unproject = (dx, dy) => [
      [i, x.invert(dx) - x.invert(0)],
      [j, y.invert(dy) - y.invert(0)],
    ];
  }

  private orbit(box: Box): void {
    const { state, surface } = this;
    const known = ranges(state, this.chosen);
    const middle = known.map(([low, high]) => (low + high) / 2);
    const half = known.map(([low, high]) => (high - low) / 2 || 1);
    const size = Math.min(box.right - box.left, box.bottom - box.top) * 0.4;
    const centre = [(box.left + box.right) / 2, (box.top + box.bottom) / 2 + 6];
    const [cy, sy, cp, sp] = [Math.cos(this.yaw), Math.sin(this.yaw), Math.cos(this.pitch), Math.sin(this.pitch)];
    // Screen right and up, in coordinates where every half range is one; the third coordinate points up.
    const right = [cy, -sy, 0];
    const up = [sy * sp, cy * sp, cp];
    this.project = (value) => {
      const v = this.chosen.map((i, a) => (value(i) - middle[a]) / half[a]);
      return [
        centre[0] + size * (right[0] * v[0] + right[1] * v[1]),
        centre[1] - size * (up[0] * v[0] + up[1] * v[1] + up[2] * v[2]),
      ];
    };
    this.unproject = (dx, dy) =>
      this.chosen.map((i, a) => [i, (half[a] * (dx * right[a] - dy * up[a])) / size] as [number, number]);
    this.cage(surface.context, known);
  }

  /** The box of ranges around a turned view, with the names of its edges. */
  private cage(context: CanvasRenderingContext2D, known: [number, number][]): void {
    const { payload } = this.state;
    const c = colours();
    const corner = (bits: number): [number, number] =>
      this.project((i) => known[this.chosen.indexOf(i)][(bits >> this.chosen.indexOf(i)) & 1]);
    context.strokeStyle = c.rule;
    context.lineWidth = 1;
    for (let bits = 0; bits < 8; bits++) {
      for (let axis = 0; axis < 3; axis++) {
        if ((bits >> axis) & 1) continue;
        const [a, b] = [corner(bits), corner(bits | (1 << axis))];
        context.beginPath();
        context.moveTo(...a);
        context.lineTo(...b);
        context.stroke();
      }
    }
    context.fillStyle = c.ink;
    context.textAlign = "center";
    context.textBaseline = "middle";
    const heart = corner(0).map((value, d) => (value + corner(7)[d]) / 2);
    for (let axis = 0; axis < 3; axis++) {
      // The edge of this axis whose middle is farthest out: lowest on the screen, or leftmost for the upright one.
      const starts = [0, 1, 2, 3, 4, 5, 6, 7].filter((bits) => !((bits >> axis) & 1));
      const middles = starts.map((bits) => {
        const [a, b] = [corner(bits), corner(bits | (1 << axis))];
        return [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
      });
      const mid = middles.reduce((best, one) => (axis === 2 ? one[0] < best[0] : one[1] > best[1]) ? one : best);
      const away = Math.hypot(mid[0] - heart[0], mid[1] - heart[1]) || 1;
      const words = named(payload.names[this.chosen[axis]], payload.units[this.chosen[axis]]);
      const half = context.measureText(words).width / 2;
      const x = mid[0] + (16 * (mid[0] - heart[0])) / away;
      // Words stay whole at the edge of the picture.
      context.fillText(
        words,
        Math.max(half + 2, Math.min(x, this.surface.width - half - 2)),
        mid[1] + (16 * (mid[1] - heart[1])) / away,
      );
    }
  }

  private press(px: number, py: number): boolean {
    const [x, y] = this.spot();
    this.held = Math.hypot(px - x, py - y) < TOUCH ? "start" : this.chosen[2] === FLAT ? null : "view";
    this.last = [px, py];
    if (this.held === "start") this.state.dragging = true;
    return this.held !== null;
  }

  private move(px: number, py: number): void {
    const [dx, dy] = [px - this.last[0], py - this.last[1]];
    this.last = [px, py];
    if (this.held === "view") {
      this.yaw += dx / 120;
      this.pitch = Math.min(Math.max(this.pitch + dy / 160, -1.5), 1.5);
    } else this.shift(dx, dy);
    this.state.changed();
  }

  private shift(dx: number, dy: number): void {
    for (const [i, amount] of this.unproject(dx, dy)) this.state.shift(i, amount);
    this.state.refresh();
  }

  private release(): void {
    const dragged = this.held === "start";
    this.held = null;
    if (dragged) this.state.drop();
    else this.state.changed();
  }

  private key(event: KeyboardEvent): void {
    const steps: Record<string, [number, number]> = {
      ArrowLeft: [-4, 0], ArrowRight: [4, 0], ArrowUp: [0, -4], ArrowDown: [0, 4],
    };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    if (event.shiftKey && this.chosen[2] !== FLAT) {
      this.yaw += step[0] / 40;
      this.pitch = Math.min(Math.max(this.pitch + step[1] / 40, -1.5), 1.5);
    } else this.shift(...step);
    this.state.changed();
  }
}
