// The start of a two-dimensional field as a picture to paint on.

import { fieldColours, shade } from "../draw/colormap";
import { segment } from "../draw/plot";
import { grab, Surface } from "../draw/surface";
import { colours } from "../draw/theme";
import type { State } from "../state";
import type { Grid } from "./field";
import { element, type View } from "./view";

const MARGIN = 10;

export class PaintView implements View {
  private readonly surface: Surface;
  private readonly picture = document.createElement("canvas");
  /** cell under the pointer or the keys: column, and row from the bottom */
  private cell: [number, number];
  private box = { left: 0, top: 0, wide: 1, tall: 1 };

  constructor(
    private readonly state: State,
    private readonly grid: Grid,
  ) {
    const canvas = element<HTMLCanvasElement>("paint");
    this.surface = new Surface(canvas, () => state.changed());
    const [wide, tall] = grid.picture;
    this.cell = [Math.floor(wide / 2), Math.floor(tall / 2)];
    grab(
      this.surface,
      (x, y) => this.press(x, y),
      (x, y) => void (this.aim(x, y) && this.apply()),
      () => state.drop(),
    );
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  draw(): void {
    const { surface, grid, state } = this;
    if (!surface.begin()) return;
    const [wide, tall] = grid.picture;
    [this.picture.width, this.picture.height] = [wide, tall];
    const context = this.picture.getContext("2d");
    if (!context) return;
    const image = context.createImageData(wide, tall);
    const pixels = new Uint32Array(image.data.buffer);
    const { middle, half } = grid.range();
    for (let i = 0; i < grid.places; i++) {
      pixels[grid.pixel(i)] = shade(fieldColours, state.predicted(0, grid.index(i)) - middle, half);
    }
    context.putImageData(image, 0, 0);
    const room = [surface.width - 2 * MARGIN, surface.height - 2 * MARGIN];
    const size = Math.min(room[0], room[1] / grid.aspect);
    this.box = { left: (surface.width - size) / 2, top: (surface.height - size * grid.aspect) / 2, wide: size, tall: size * grid.aspect };
    surface.context.imageSmoothingEnabled = false;
    surface.context.drawImage(this.picture, this.box.left, this.box.top, this.box.wide, this.box.tall);
    this.cursor(wide, tall);
  }

  /** A cross and a ring of the brush's size. */
  private cursor(wide: number, tall: number): void {
    const { context } = this.surface;
    const { left, top } = this.box;
    const x = left + ((this.cell[0] + 0.5) / wide) * this.box.wide;
    const y = top + this.box.tall - ((this.cell[1] + 0.5) / tall) * this.box.tall;
    context.strokeStyle = colours().handle;
    context.lineWidth = 2;
    context.beginPath();
    context.arc(x, y, Math.max(4, (this.reach() / wide) * this.box.wide), 0, 2 * Math.PI);
    context.stroke();
    segment(context, x - 4, y, x + 4, y);
    segment(context, x, y - 4, x, y + 4);
  }

  private reach(): number {
    return Math.max(0.5, (this.grid.picture[0] * Number(element<HTMLInputElement>("paint-size").value)) / 100);
  }

  private aim(px: number, py: number): boolean {
    const [wide, tall] = this.grid.picture;
    const across = Math.floor(((px - this.box.left) / this.box.wide) * wide);
    const up = tall - 1 - Math.floor(((py - this.box.top) / this.box.tall) * tall);
    if (across < 0 || across >= wide || up < 0 || up >= tall) return false;
    this.cell = [across, up];
    return true;
  }

  private press(px: number, py: number): boolean {
    if (!this.aim(px, py)) return false;
    this.state.dragging = true;
    this.apply();
    return true;
  }

  /** Pull the field around the cell towards the chosen value. */
  private apply(): void {
    const { state, grid } = this;
    const [wide, tall] = grid.picture;
    const { middle, half } = grid.range();
    const goal = middle + half * Number(element<HTMLInputElement>("paint-value").value);
    const reach = this.reach();
    const far = Math.ceil(2.5 * reach);
    for (let dy = -far; dy <= far; dy++) {
      for (let dx = -far; dx <= far; dx++) {
        const [across, up] = [this.cell[0] + dx, this.cell[1] + dy];
        if (across < 0 || across >= wide || up < 0 || up >= tall) continue;
        const i = grid.index(grid.place(across, up));
        state.shift(i, 0.6 * Math.exp(-(dx * dx + dy * dy) / (reach * reach)) * (goal - state.predicted(0, i)));
      }
    }
    state.refresh();
    state.changed();
  }

  private key(event: KeyboardEvent): void {
    const steps: Record<string, [number, number]> = {
      ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1],
    };
    const [wide, tall] = this.grid.picture;
    const step = steps[event.key];
    if (step) {
      this.cell = [
        Math.min(Math.max(this.cell[0] + step[0], 0), wide - 1), Math.min(Math.max(this.cell[1] + step[1], 0), tall - 1),
      ];
    } else if (event.key === "Enter" || event.key === " ") this.apply();
    else return;
    event.preventDefault();
    event.stopPropagation();
    this.state.changed();
  }
}
