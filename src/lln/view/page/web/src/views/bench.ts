// The optical bench: rays of chosen hidden coordinates on their way through the lenses.

import { css, fieldColours, shade } from "../draw/colormap";
import { axes, clip, dot, extent, line, linear, segment, short, type Box, type Scale } from "../draw/plot";
import { Surface } from "../draw/surface";
import { colours } from "../draw/theme";
import { lensField } from "../engine/lattice";
import { unpack, type FieldNetworkPayload, type LensPayload } from "../payload";
import type { State } from "../state";
import { largest, optics, type Optics } from "./optics";
import { element, type View } from "./view";

const SLICES = 44;
const TURNS = 64; // height of the strip with the turns
const HIGHLIGHTS = 3;
const three = (value: number): string => short(+value.toPrecision(3)); // digits

export class BenchView implements View {
  private readonly surface: Surface;
  private readonly profile: Surface;
  private coefficients: Float64Array;
  private layer: number;
  private ray = 0;
  private rays: number[] = [];
  private sums: Optics | null = null;
  private seen: object | null = null;
  private x: Scale = linear(0, 1, 0, 1);
  private y: Scale = linear(0, 1, 0, 1);
  private field: { ray: number; low: number; high: number; values: Float64Array; most: number } | null = null;

  constructor(
    private readonly state: State,
    private readonly lens: LensPayload | FieldNetworkPayload,
  ) {
    this.coefficients = unpack(lens.kind === "lens" ? lens.arrays.coefficients : lens.members[0].blocks[0].coefficients);
    this.layer = 0;
    const canvas = element<HTMLCanvasElement>("bench-canvas");
    this.surface = new Surface(canvas, () => {
      if (this.surface.visible) state.look();
      state.changed();
    });
    this.profile = new Surface(element<HTMLCanvasElement>("profile"), () => state.changed());
    canvas.addEventListener("pointermove", (event) => this.point(...this.surface.at(event)));
    canvas.addEventListener("pointerdown", (event) => this.point(...this.surface.at(event)));
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.controls();
    if (lens.kind === "field") this.place(lens);
  }

  draw(): void {
    const { trace } = this.state;
    const watched = this.surface.visible || this.profile.visible;
    if (watched && !this.state.watched) {
      this.state.watched = true;
      if (!this.state.upToDate) this.state.look();
    }
    this.state.watched = watched;
    if (!trace || !watched) return;
    if (trace !== this.seen) {
      const first = this.seen === null;
      this.seen = trace;
      this.sums = optics(trace, this.lens.width, this.lens.depth);
      this.choose();
      if (first) {
        this.layer = largest(this.sums.strength, 1)[0];
        this.ray = largest(Float64Array.from(this.rays, (j) => this.change(this.layer, j)), 1).map((i) => this.rays[i])[0] ?? 0;
      }
    }
    this.drawBench();
    this.drawProfile();
    this.tell();
  }

  private controls(): void {
    const rays = element<HTMLInputElement>("rays");
    rays.max = String(Math.min(this.lens.width, 64));
    rays.value = String(Math.min(this.lens.width, 20));
    const which = element<HTMLSelectElement>("which");
    for (const control of [rays, which]) {
      control.addEventListener("input", () => {
        this.choose();
        this.state.changed();
      });
    }
    const layer = element<HTMLInputElement>("layer");
    const ray = element<HTMLInputElement>("ray");
    layer.max = String(this.lens.depth);
    ray.max = String(this.lens.width);
    layer.addEventListener("input", () => this.focus(Number(layer.value) - 1, this.ray));
    ray.addEventListener("input", () => this.focus(this.layer, Number(ray.value) - 1));
  }

  /** A field has rays at every point and in every block. */
  private place(lens: FieldNetworkPayload): void {
    const { state } = this;
    const block = element<HTMLInputElement>("block");
    const point = element<HTMLInputElement>("point");
    element("place-fields").hidden = false;
    const points = state.payload.space.reduce((a, b) => a * b, 1);
    block.max = String(lens.members[0].blocks.length);
    point.max = String(points);
    state.focus.point = Math.floor(points / 2);
    point.value = String(state.focus.point + 1);
    const choose = (): void => {
      const within = (input: HTMLInputElement): number => Math.min(Math.max(Math.round(Number(input.value)), 1), Number(input.max)) - 1;
      state.focus.block = within(block);
      state.focus.point = within(point);
      this.coefficients = unpack(lens.members[0].blocks[state.focus.block].coefficients);
      this.field = null;
      state.look();
    };
    for (const input of [block, point]) input.addEventListener("input", choose);
  }

  /** Which rays are drawn: those that bend most, or an even selection by where they start. */
  private choose(): void {
    const { trace } = this.state;
    if (!trace || !this.sums) return;
    const count = Math.min(Number(element<HTMLInputElement>("rays").value), this.lens.width);
    if (element<HTMLSelectElement>("which").value === "bent") this.rays = largest(this.sums.bent, count);
    else {
      const byHeight = Array.from({ length: this.lens.width }, (_, j) => j).sort((a, b) => trace.y[a] - trace.y[b]);
      this.rays = Array.from({ length: count }, (_, i) => byHeight[Math.round((i * (this.lens.width - 1)) / Math.max(count - 1, 1))]);
    }
    if (!this.rays.includes(this.ray)) this.ray = this.rays[0] ?? 0;
  }

  private change(layer: number, ray: number): number {
    const { trace } = this.state;
    if (!trace) return 0;
    const at = layer * this.lens.width + ray;
    return Math.abs(trace.theta[at + this.lens.width] - trace.theta[at]);
  }

  private drawBench(): void {
    const { surface, lens } = this;
    const { trace } = this.state;
    if (!trace || !surface.begin()) return;
    const c = colours();
    const { context } = surface;
    const box = { left: 52, right: surface.width - 14, top: 26, bottom: surface.height - TURNS - 46 };
    const range = extent((report) => {
      for (const j of this.rays) for (let l = 0; l <= lens.depth; l++) report(trace.y[l * lens.width + j]);
    }, 0.2);
    this.x = linear(-0.4, lens.depth + 0.9, box.left, box.right);
    this.y = linear(...range, box.bottom, box.top);
    axes(surface, box, null, this.y, { y: "position y of a ray" });
    clip(context, box, () => {
      for (let l = 0; l < lens.depth; l++) this.drawLens(l, box);
      for (const j of this.rays) if (j !== this.ray) this.drawRay(j, c.forecast, 1.25, 0.8);
      this.drawRay(this.ray, c.paper, 5, 0.9);
      this.drawRay(this.ray, c.chosen, 2.5, 1);
      this.drawTurns();
      const at = [this.x(this.layer + 1), this.y(trace.y[(this.layer + 1) * lens.width + this.ray])] as const;
      dot(context, ...at, 5.5, c.chosen);
    });
    this.strip(box);
  }

  /** A lens: as thick as it is strong, coloured by what it does to the chosen ray at each height. */
  private drawLens(l: number, box: Box): void {
    const { surface, sums } = this;
    if (!sums) return;
    const { context } = surface;
    const c = colours();
    const most = Math.max(...sums.strength, 1e-12);
    const room = (this.x(1) - this.x(0)) * 0.46;
    const half = Math.max(1.2, Math.min(room, 13) * Math.sqrt(sums.strength[l] / most));
    const at = this.x(l + 1);
    const [low, high] = [box.bottom - 2, box.top + 2];
    const middle = (low + high) / 2;
    context.save();
    context.beginPath();
    context.moveTo(at, high);
    context.quadraticCurveTo(at + 2 * half, middle, at, low);
    context.quadraticCurveTo(at - 2 * half, middle, at, high);
    context.closePath();
    context.clip();
    const { values, most: top } = this.fieldOf(this.ray);
    const glass = context.createLinearGradient(0, low, 0, high);
    for (let s = 0; s < SLICES; s++) {
      glass.addColorStop((s + 0.5) / SLICES, css(shade(fieldColours, values[l * SLICES + s], top)));
    }
    context.globalAlpha = 0.8;
    context.fillStyle = glass;
    context.fillRect(at - 2 * half, high, 4 * half, low - high);
    context.restore();
    context.strokeStyle = l === this.layer ? c.chosen : c.lens;
    context.lineWidth = l === this.layer ? 2 : 1;
    context.beginPath();
    context.moveTo(at, high);
    context.quadraticCurveTo(at + 2 * half, middle, at, low);
    context.quadraticCurveTo(at - 2 * half, middle, at, high);
    context.stroke();
  }

  /** The field of every lens for one ray, sampled from the foot of the picture to its head. */
  private fieldOf(ray: number): { values: Float64Array; most: number } {
    const { low, high } = this.y;
    if (this.field?.ray === ray && this.field.low === low && this.field.high === high) return this.field;
    const { lens } = this;
    const values = new Float64Array(lens.depth * SLICES);
    let most = 1e-12;
    for (let l = 0; l < lens.depth; l++) {
      for (let s = 0; s < SLICES; s++) {
        const value = this.phi(l, ray, low + ((s + 0.5) / SLICES) * (high - low));
        values[l * SLICES + s] = value;
        most = Math.max(most, Math.abs(value));
      }
    }
    this.field = { ray, low, high, values, most };
    return this.field;
  }

  private phi(layer: number, ray: number, y: number): number {
    const { lens } = this;
    return lensField(y, this.coefficients, (layer * lens.width + ray) * lens.basis, lens.centers, lens.sigma);
  }

  private drawRay(ray: number, colour: string, width: number, alpha: number): void {
    const { trace } = this.state;
    if (!trace) return;
    const { context } = this.surface;
    const { depth, width: h } = this.lens;
    const length = this.state.switches.propagation ? this.lens.length : 0;
    context.globalAlpha = alpha;
    line(
      context,
      depth + 2,
      (l) => {
        if (l <= depth) return [this.x(l), this.y(trace.y[l * h + ray])];
        // Behind the last lens the ray leaves along its last angle.
        return [this.x(depth + 0.8), this.y(trace.y[depth * h + ray] + 0.8 * length * trace.theta[depth * h + ray])];
      },
      colour,
      width,
    );
    context.globalAlpha = 1;
  }

  /** Rings where a drawn ray turns most. */
  private drawTurns(): void {
    const { trace } = this.state;
    if (!trace) return;
    const { context } = this.surface;
    const { depth, width } = this.lens;
    const changes = new Float64Array(depth * this.rays.length);
    this.rays.forEach((j, r) => {
      for (let l = 0; l < depth; l++) changes[r * depth + l] = this.change(l, j);
    });
    context.strokeStyle = colours().highlight;
    context.lineWidth = 2.25;
    for (const index of largest(changes, HIGHLIGHTS)) {
      if (!(changes[index] > 0)) continue;
      const [r, l] = [Math.floor(index / depth), index % depth];
      context.beginPath();
      context.arc(this.x(l + 1), this.y(trace.y[(l + 1) * width + this.rays[r]]), 8, 0, 2 * Math.PI);
      context.stroke();
    }
  }

  /** Under the bench: by how many degrees each layer turns all rays together, the largest turns in red. */
  private strip(box: Box): void {
    const { surface, sums, lens } = this;
    if (!sums) return;
    const { context } = surface;
    const c = colours();
    const [top, bottom] = [box.bottom + 26, box.bottom + 26 + TURNS];
    const most = Math.max(...sums.turn, 1e-9);
    const best = new Set(most > 1e-9 ? largest(sums.turn, HIGHLIGHTS) : []);
    const wide = Math.max(2, (this.x(1) - this.x(0)) * 0.62);
    const every = Math.ceil(lens.depth / ((box.right - box.left) / 26));
    context.strokeStyle = c.rule;
    context.lineWidth = 1;
    segment(context, box.left, bottom - 16, box.right, bottom - 16);
    context.textAlign = "center";
    context.textBaseline = "top";
    for (let l = 0; l < lens.depth; l++) {
      const tall = (sums.turn[l] / most) * (bottom - top - 18);
      context.fillStyle = best.has(l) ? c.highlight : c.lens;
      context.fillRect(this.x(l + 1) - wide / 2, bottom - 16 - tall, wide, tall);
      context.fillStyle = c["soft-ink"];
      if (l % every === 0 || l === lens.depth - 1 && every === 1) context.fillText(String(l + 1), this.x(l + 1), bottom - 12);
    }
    context.fillStyle = c.ink;
    context.textAlign = "left";
    context.textBaseline = "bottom";
    context.fillText(`turn of each layer, up to ${three(most > 1e-9 ? most : 0)}°`, box.left, top - 2);
    context.textAlign = "right";
    context.fillText("layer", box.right, bottom + 14);
  }

  private drawProfile(): void {
    const { profile, lens } = this;
    const { trace } = this.state;
    if (!trace || !profile.begin()) return;
    const c = colours();
    const { context } = profile;
    const box = { left: 58, right: profile.width - 14, top: 24, bottom: profile.height - 40 };
    const at = trace.y[(this.layer + 1) * lens.width + this.ray];
    const count = 161;
    const [from, to] = extent((report) => [lens.centers[0] - lens.sigma, lens.centers[lens.basis - 1] + lens.sigma, at].forEach(report), 0.02);
    const place = (k: number): number => from + (k / (count - 1)) * (to - from);
    const range = extent((report) => {
      report(0);
      for (let k = 0; k < count; k++) report(this.phi(this.layer, this.ray, place(k)));
    }, 0.1);
    const x = linear(from, to, box.left, box.right);
    const y = linear(...range, box.bottom, box.top);
    axes(profile, box, x, y, { x: "position y", y: `φ of lens ${this.layer + 1}, ray ${this.ray + 1}` });
    context.strokeStyle = c["soft-ink"];
    context.lineWidth = 1;
    segment(context, box.left, y(0), box.right, y(0));
    for (const center of lens.centers) segment(context, x(center), box.bottom, x(center), box.bottom - 6);
    clip(context, box, () => {
      line(context, count, (k) => [x(place(k)), y(this.phi(this.layer, this.ray, place(k)))], c.forecast, 2.25);
    });
    context.strokeStyle = c.chosen;
    context.setLineDash([3, 3]);
    segment(context, x(at), y(0), x(at), y(this.phi(this.layer, this.ray, at)));
    context.setLineDash([]);
    dot(context, x(at), y(this.phi(this.layer, this.ray, at)), 5.5, c.chosen);
  }

  /** The focus in words, for everybody. */
  private tell(): void {
    const { trace } = this.state;
    if (!trace || !this.sums) return;
    const { width } = this.lens;
    const here = (this.layer + 1) * width + this.ray;
    const [before, behind] = [trace.theta[here - width], trace.theta[here]];
    const facts =
      `Lens ${this.layer + 1}, ray ${this.ray + 1}: at y = ${three(trace.y[here])} the lens field is ` +
      `${three(this.phi(this.layer, this.ray, trace.y[here]))}; the angle goes from ${three(before)} to ${three(behind)}. ` +
      `All rays together turn by ${three(this.sums.turn[this.layer])}° here.`;
    const told = element("facts");
    // While it plays the words change too fast to be read out.
    told.setAttribute("aria-live", this.state.playing ? "off" : "polite");
    if (told.textContent !== facts) told.textContent = facts;
    const layer = element<HTMLInputElement>("layer");
    const ray = element<HTMLInputElement>("ray");
    if (document.activeElement !== layer) layer.value = String(this.layer + 1);
    if (document.activeElement !== ray) ray.value = String(this.ray + 1);
  }

  private focus(layer: number, ray: number): void {
    if (!Number.isInteger(layer) || !Number.isInteger(ray)) return;
    this.layer = Math.min(Math.max(layer, 0), this.lens.depth - 1);
    this.ray = Math.min(Math.max(ray, 0), this.lens.width - 1);
    if (!this.rays.includes(this.ray)) this.rays.push(this.ray);
    this.state.changed();
  }

  private point(px: number, py: number): void {
    const { trace } = this.state;
    if (!trace || !this.rays.length) return;
    const layer = Math.min(Math.max(Math.round(this.x.invert(px)) - 1, 0), this.lens.depth - 1);
    const apart = (j: number): number => Math.abs(this.y(trace.y[(layer + 1) * this.lens.width + j]) - py);
    this.focus(layer, this.rays.reduce((best, j) => (apart(j) < apart(best) ? j : best)));
  }

  private key(event: KeyboardEvent): void {
    const { trace } = this.state;
    if (!trace) return;
    const height = (j: number): number => trace.y[(this.layer + 1) * this.lens.width + j];
    const order = [...this.rays].sort((a, b) => height(a) - height(b));
    const at = order.indexOf(this.ray);
    const to = (index: number): number => order[Math.min(Math.max(index, 0), order.length - 1)];
    if (event.key === "ArrowLeft") this.focus(this.layer - 1, this.ray);
    else if (event.key === "ArrowRight") this.focus(this.layer + 1, this.ray);
    else if (event.key === "ArrowUp") this.focus(this.layer, to(at + 1));
    else if (event.key === "ArrowDown") this.focus(this.layer, to(at - 1));
    else return;
    event.preventDefault();
  }
}
