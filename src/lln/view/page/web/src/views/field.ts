// A field as pictures: truth, forecast and error, over time and space (one dimension) or at the present step (two).

import { css, errorColours, fieldColours, shade } from "../draw/colormap";
import { linear, mark, short, ticks, type Box } from "../draw/plot";
import { grab, Surface } from "../draw/surface";
import { colours } from "../draw/theme";
import type { Axis } from "../payload";
import type { State } from "../state";
import { dateWords, element, fillSelect, named, timeAxis, type View } from "./view";

interface Panel {
  title: string;
  /** what is shown: `values` less `minus`, each an array of states from a first row on */
  values: Float64Array;
  first: number;
  minus: Float64Array | null;
  minusFirst: number;
  last: number;
  map: Uint32Array;
  most: number;
  /** what the middle colour means */
  middle: number;
  /** the picture changes only with this */
  key: string;
}

/** Which field is shown, and what space looks like. */
export class Grid {
  channel = 0;
  readonly places: number;
  readonly axes: Axis[];
  readonly flat: boolean;
  readonly channels: string[];
  /** Whether the first direction of a two-dimensional field runs across; x and longitude do, rows run up. */
  readonly turned: boolean;
  private cached: { key: string; middle: number; half: number } | null = null;

  constructor(readonly state: State) {
    const { space, axes, channels } = state.payload;
    this.places = space.length ? space.reduce((a, b) => a * b, 1) : state.n;
    this.flat = space.length < 2;
    this.axes = axes.length ? axes : [{ name: "coordinate", unit: "", values: Array.from({ length: state.n }, (_, i) => i) }];
    this.channels = space.length ? channels : ["state"];
    this.turned = !this.flat && /^(x|lon|longitude)$/i.test(this.axes[0].name);
  }

  index(place: number): number {
    return this.channel * this.places + place;
  }

  /** Pixels of a picture of a two-dimensional field: across, up. */
  get picture(): [number, number] {
    const [rows, columns] = this.state.payload.space;
    return this.turned ? [rows, columns] : [columns, rows];
  }

  /** The axes of a two-dimensional field: across, up. */
  get plane(): [Axis, Axis] {
    return this.turned ? [this.axes[0], this.axes[1]] : [this.axes[1], this.axes[0]];
  }

  /** Height over width of a two-dimensional field, so that both directions have one scale. */
  get aspect(): number {
    const [across, up] = this.plane.map((axis) => {
      const { values } = axis;
      const span = Math.abs(values[values.length - 1] - values[0]);
      return (span * values.length) / Math.max(values.length - 1, 1) || values.length;
    });
    return Math.min(Math.max(up / across, 0.25), 4);
  }

  /** Where a point of a two-dimensional field lies in its picture, whose rows begin at the top. */
  pixel(place: number): number {
    const [wide, tall] = this.picture;
    const [across, up] = this.turned
      ? [Math.floor(place / tall), place % tall]
      : [place % wide, Math.floor(place / wide)];
    return (tall - 1 - up) * wide + across;
  }

  /** The point of a two-dimensional field at a column and a row counted from the bottom. */
  place(across: number, up: number): number {
    const [wide, tall] = this.picture;
    return this.turned ? across * tall + up : up * wide + across;
  }

  /** Middle and half range of the shown field: over the truth, or else over what training saw. */
  range(): { middle: number; half: number } {
    const { state } = this;
    const key = `${state.chosen} ${state.row} ${this.channel} ${state.data.rows > 1 || state.payload.region ? "" : state.arrivals}`;
    if (this.cached?.key !== key) this.cached = { key, ...this.measure() };
    return this.cached;
  }

  private measure(): { middle: number; half: number } {
    const { state } = this;
    let low = Infinity;
    let high = -Infinity;
    const see = (value: number): void => {
      low = Math.min(low, value);
      high = Math.max(high, value);
    };
    for (let place = 0; place < this.places; place++) {
      const i = this.index(place);
      const last = Math.min(state.row + state.steps, state.data.rows - 1);
      if (last > state.row) for (let k = state.row; k <= last; k++) see(state.data.states[k * state.n + i]);
      else if (state.payload.region) state.bounds(i).forEach(see);
      else for (let k = 0; k <= state.fresh; k++) see(state.predicted(k, i));
    }
    // A field around zero keeps zero in the middle of its colours.
    const middle = low < 0 && high > 0 ? 0 : (low + high) / 2;
    return { middle, half: Math.max(high - middle, middle - low) || 1 };
  }
}

export class FieldView implements View {
  private readonly surface: Surface;
  private readonly pictures: HTMLCanvasElement[] = [];
  private readonly keys: string[] = [];
  private largest = { key: "", value: 0 };
  private boxes: Box[] = [];

  constructor(
    private readonly state: State,
    private readonly grid: Grid,
  ) {
    this.surface = new Surface(element<HTMLCanvasElement>("field"), () => state.changed());
    const select = element<HTMLSelectElement>("channel");
    fillSelect(select, grid.channels, 0);
    element("channel-field").hidden = grid.channels.length < 2;
    select.addEventListener("change", () => {
      grid.channel = Number(select.value);
      state.changed();
    });
    grab(this.surface, (x, y) => this.seek(x, y), (x, y) => void this.seek(x, y), () => undefined);
  }

  draw(): void {
    const { state, surface, grid } = this;
    if (!surface.begin()) return;
    const panels = this.panels();
    if (!grid.flat && this.resize(panels.length)) return; // drawn when the new size is there
    const across = surface.width > 640 ? panels.length : 1;
    const down = Math.ceil(panels.length / across);
    const wide = surface.width / across;
    const tall = surface.height / down;
    this.boxes = panels.map((_, p) => {
      const left = (p % across) * wide;
      const top = Math.floor(p / across) * tall;
      const box = { left: left + 46, right: left + wide - 14, top: top + 26, bottom: top + tall - 58 };
      if (grid.flat) return box;
      const most = Math.min(box.right - box.left, (box.bottom - box.top) / grid.aspect);
      return { ...box, right: box.left + most, bottom: box.top + most * grid.aspect };
    });
    panels.forEach((panel, p) => {
      this.picture(panel, p);
      this.labels(panel, this.boxes[p], across === 1 ? true : p % across === 0);
      if (grid.flat) {
        const x = linear(0, state.steps, this.boxes[p].left, this.boxes[p].right);
        this.veil(this.boxes[p], x(state.now));
        const { highlight, ink, paper } = colours();
        // A rim of paper keeps the present step in sight on pictures, and ink where there is none.
        for (const side of [-1.25, 1.25]) mark(surface, this.boxes[p], x(state.now) + side, "", paper);
        mark(surface, this.boxes[p], x(state.now), "", ink);
        if (state.limit !== null) mark(surface, this.boxes[p], x(state.limit), p > 0 ? "" : "valid until here", highlight, [5, 4]);
      }
      const missing = this.missing(panel, p);
      if (missing) this.say(missing, this.boxes[p]);
    });
  }

  /** Give a two-dimensional field the height at which both of its directions have one scale; true if it changed. */
  private resize(panels: number): boolean {
    const { surface, grid } = this;
    const across = surface.width > 640 ? panels : 1;
    const picture = (surface.width / across - 60) * grid.aspect;
    const height = Math.round((panels / across) * (Math.min(picture, 640) + 84));
    if (Math.abs(height - surface.height) < 2) return false;
    surface.canvas.style.height = `${height}px`;
    return true;
  }

  /** Fade what comes after the present step. */
  private veil(box: Box, from: number): void {
    const { context } = this.surface;
    if (from >= box.right) return;
    context.globalAlpha = 0.4;
    context.fillStyle = colours().paper;
    context.fillRect(from, box.top, box.right - from, box.bottom - box.top);
    context.globalAlpha = 1;
  }

  /** Why a panel has no picture at the present step; empty where it has one. */
  private missing(panel: Panel, p: number): string {
    const { state, grid } = this;
    const step = Math.floor(state.now);
    if (!grid.flat && step <= panel.last) return "";
    if (p === 1 || panel.title === "Forecast") return !grid.flat && step > state.fresh ? `computing: step ${state.fresh} of ${state.steps}` : "";
    if (grid.flat) return panel.last < state.steps && p === 0 && state.known === 0 ? "no truth from here on" : "";
    return step > state.known ? `no truth after step ${state.known}` : "";
  }

  private say(words: string, box: Box): void {
    const { context } = this.surface;
    context.fillStyle = colours()["soft-ink"];
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.fillText(words, (box.left + box.right) / 2, (box.top + box.bottom) / 2);
  }

  /** Where the pictures are on the canvas. */
  panelBoxes(): Box[] {
    return this.boxes;
  }

  private panels(): Panel[] {
    const { state, grid } = this;
    const { middle, half } = grid.range();
    const common = { map: fieldColours, most: half, middle, minus: null, minusFirst: 0 };
    const { reference } = state;
    const place = `${state.chosen} ${state.row} ${reference.kind} ${reference.first} ${grid.channel} ${grid.flat ? "" : Math.floor(state.now)}`;
    const moment = `${place} ${state.arrivals} ${state.fresh}`;
    const guess = { values: state.path, first: state.history - 1 };
    const forecast = { ...common, ...guess, title: "Forecast", last: state.fresh, key: moment };
    if (!state.hasTruth) return [forecast];
    const right = { values: reference.values, first: reference.first };
    const last = Math.min(state.fresh, state.known);
    const truth = reference.kind === "simulation" ? "Truth, simulated" : reference.kind === "analog" ? "Nearest state in the data" : "Truth";
    return [
      { ...common, ...right, title: truth, last: state.known, key: reference.kind === "simulation" ? moment : place },
      forecast,
      {
        ...guess, title: reference.kind === "analog" ? "Difference" : "Error: forecast − truth", minus: right.values, minusFirst: right.first, last,
        map: errorColours, most: Math.min(this.worst(last, moment), 2 * half) || 1e-12, middle: 0, key: moment,
      },
    ];
  }

  /** The largest error of the shown field. */
  private worst(last: number, moment: string): number {
    if (this.largest.key === moment) return this.largest.value;
    const { state, grid } = this;
    const { path, n, reference } = state;
    let most = 0;
    for (let k = 0; k <= last; k++) {
      const [a, b] = [(state.history - 1 + k) * n + grid.index(0), (reference.first + k) * n + grid.index(0)];
      for (let i = 0; i < grid.places; i++) {
        const error = Math.abs(path[a + i] - reference.values[b + i]);
        if (error > most) most = error;
      }
    }
    this.largest = { key: moment, value: most };
    return most;
  }

  private picture(panel: Panel, p: number): void {
    const { surface } = this;
    const canvas = (this.pictures[p] ??= document.createElement("canvas"));
    if (this.keys[p] !== panel.key) this.paint(panel, canvas);
    this.keys[p] = panel.key;
    const box = this.boxes[p];
    surface.context.imageSmoothingEnabled = false;
    surface.context.drawImage(canvas, box.left, box.top, box.right - box.left, box.bottom - box.top);
    surface.context.strokeStyle = colours().rule;
    surface.context.lineWidth = 1;
    surface.context.strokeRect(box.left - 0.5, box.top - 0.5, box.right - box.left + 1, box.bottom - box.top + 1);
  }

  private paint(panel: Panel, canvas: HTMLCanvasElement): void {
    const { state, grid } = this;
    const [wide, tall] = grid.flat ? [state.steps + 1, grid.places] : grid.picture;
    if (canvas.width !== wide || canvas.height !== tall) [canvas.width, canvas.height] = [wide, tall];
    const context = canvas.getContext("2d");
    if (!context) return;
    const image = context.createImageData(wide, tall);
    const pixels = new Uint32Array(image.data.buffer);
    const { values, minus, middle, most, map } = panel;
    const steps = grid.flat ? [0, Math.min(panel.last, state.steps)] : [Math.floor(state.now), Math.min(Math.floor(state.now), panel.last)];
    for (let k = steps[0]; k <= steps[1]; k++) {
      const at = (panel.first + k) * state.n + grid.index(0);
      const other = (panel.minusFirst + k) * state.n + grid.index(0);
      for (let i = 0; i < grid.places; i++) {
        const value = values[at + i] - (minus ? minus[other + i] : middle);
        pixels[grid.flat ? (tall - 1 - i) * wide + k : grid.pixel(i)] = shade(map, value, most);
      }
    }
    context.putImageData(image, 0, 0);
  }

  private labels(panel: Panel, box: Box, withAxis: boolean): void {
    const { context } = this.surface;
    const { state, grid } = this;
    const { payload } = state;
    const c = colours();
    context.fillStyle = c.ink;
    context.textAlign = "left";
    context.textBaseline = "bottom";
    context.font = context.font.replace(/^.*?\d+px/, "600 13px");
    context.fillText(panel.title, box.left, box.top - 6);
    context.font = context.font.replace(/^.*?\d+px/, "11px");
    context.fillStyle = c["soft-ink"];
    const vertical = grid.axes[grid.turned ? 1 : 0];
    const horizontal = grid.flat
      ? { name: payload.timeName, unit: payload.timeUnit, values: [state.startTime, state.startTime + state.steps * payload.dt] }
      : grid.axes[grid.turned ? 0 : 1];
    const x = linear(horizontal.values[0], horizontal.values[horizontal.values.length - 1], box.left, box.right);
    context.textAlign = "center";
    context.textBaseline = "top";
    const dates = grid.flat ? dateWords(payload) : undefined;
    const across = (dates?.ticks ?? ticks)(x.low, x.high, (box.right - box.left) / (dates ? 110 : 90));
    for (const value of across) context.fillText((dates ?? short)(value), x(value), box.bottom + 4);
    context.textAlign = "right";
    context.textBaseline = "bottom";
    context.fillText(grid.flat ? timeAxis(payload) : named(horizontal.name, horizontal.unit), box.right, box.bottom + 31);
    if (withAxis) {
      const ends = [vertical.values[0], vertical.values[vertical.values.length - 1]] as const;
      const y = linear(...ends, box.bottom, box.top);
      context.textBaseline = "middle";
      for (const value of ticks(Math.min(...ends), Math.max(...ends), 5)) context.fillText(short(value), box.left - 5, y(value));
      context.save();
      context.translate(box.left - 36, (box.top + box.bottom) / 2);
      context.rotate(-Math.PI / 2);
      context.textAlign = "center";
      context.fillText(named(vertical.name, vertical.unit), 0, 0);
      context.restore();
    }
    this.bar(panel, box);
  }

  /** The colour bar under a panel. */
  private bar(panel: Panel, box: Box): void {
    const { context } = this.surface;
    const wide = Math.min(110, (box.right - box.left) * 0.4);
    const glow = context.createLinearGradient(box.left, 0, box.left + wide, 0);
    for (let i = 0; i <= 16; i++) glow.addColorStop(i / 16, css(shade(panel.map, i / 8 - 1, 1)));
    context.fillStyle = glow;
    context.fillRect(box.left, box.bottom + 22, wide, 8);
    context.fillStyle = colours()["soft-ink"];
    context.textBaseline = "top";
    context.textAlign = "left";
    const [low, high] = pair(panel.middle - panel.most, panel.middle + panel.most);
    context.fillText(low, box.left, box.bottom + 34);
    context.textAlign = "right";
    context.fillText(high, box.left + wide, box.bottom + 34);
    const { grid, state } = this;
    if (!state.payload.space.length) return;
    const name = named(grid.channels[grid.channel], state.payload.units[grid.index(0)] ?? "");
    context.textAlign = "left";
    if (wide + 10 + context.measureText(name).width < box.right - box.left) context.fillText(name, box.left + wide + 10, box.bottom + 34);
  }

  private seek(px: number, py: number): boolean {
    if (!this.grid.flat) return false;
    const box = this.boxes.find((one) => px >= one.left - 8 && px <= one.right + 8 && py >= one.top && py <= one.bottom);
    if (!box) return false;
    this.state.seek(((px - box.left) / (box.right - box.left)) * this.state.steps);
    return true;
  }
}

/** Both ends of a colour bar in one notation, with digits that tell them apart. */
export function pair(low: number, high: number): [string, string] {
  const size = Math.max(Math.abs(low), Math.abs(high));
  const digits = high > low ? Math.min(8, 2 + Math.floor(Math.log10(size)) - Math.floor(Math.log10(high - low))) : 2;
  const text = (value: number): string => {
    if (Math.abs(value) <= 1e-4 * size) return "0";
    return (size < 1e-2 || size >= 1e4 ? value.toExponential(Math.max(digits, 2) - 1) : String(+value.toPrecision(Math.max(digits, 2)))).replace(/-/g, "−");
  };
  return [text(low), text(high)];
}
