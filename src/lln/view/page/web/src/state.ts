// The state of the page, and the only place where it changes.

import { Engine } from "./engine/client";
import type { Rows } from "./engine/messages";
import type { Focus, Switches, Trace } from "./engine/blocks";
import { lensOf, unpack, type Payload, type RowKind } from "./payload";
import { Truths, type Reference } from "./truth";

export interface Series {
  name: string;
  start: number;
  /** number of the first row in the file */
  firstRow: number;
  rows: number;
  marks: [number, number, RowKind][];
  begin: number;
  states: Float64Array;
  /** the states without what was filled in, which is NaN */
  truth: Float64Array;
  inputs: Float64Array | null;
}

/** One drawn frame of a drag: when, and how many fresh steps it showed. */
export interface Frame {
  at: number;
  fresh: number;
}

const FRAMES = 2000;
/** Numbers that may be searched for the nearest state on every move of a drag. */
const SEARCHED = 100_000;

export class State {
  readonly n: number;
  readonly history: number;
  readonly scale: Float64Array;
  readonly series: Series[];
  readonly hasTruth: boolean;
  /** window rows, then the forecast; the start is row history - 1 */
  readonly path: Float64Array;
  readonly errors: Float64Array;
  /** errors of persistence, the simplest forecast: the start stays as it is */
  readonly baseline: Float64Array;
  /** what the rollout is compared with */
  reference: Reference;
  private readonly truths: Truths;
  readonly switches: Switches = { lens: true, angle: true, propagation: true };
  readonly focus: Focus = { block: 0, point: 0 };
  readonly engine: Engine;
  readonly frames: Frame[] = [];
  chosen = 0;
  row: number;
  steps: number;
  /** steps of the newest rollout that have arrived */
  fresh = 0;
  /** how often rows of a new rollout have arrived */
  arrivals = 0;
  finished = false;
  moved = false;
  dragging = false;
  now = 0;
  playing = false;
  speed = 1;
  trace: Trace | null = null;
  /** whether anybody looks at the rays */
  watched = false;
  /** how many steps are valid; null while unknown */
  valid: number | null = null;
  left: number | null = null;
  diverged: number | null = null;
  private waiting = false;
  private again = false;
  private looking = false;
  private lookAgain = false;
  private looked = "";
  private readonly listeners: (() => void)[] = [];

  constructor(readonly payload: Payload, plain: boolean) {
    this.n = payload.frame.size;
    this.history = payload.frame.history;
    this.scale = unpack(payload.scale);
    this.series = payload.series.map((one) => {
      const states = unpack(one.states);
      if (one.exact) states.set(unpack(one.exact), (one.begin - this.history + 1) * this.n);
      const truth = one.filled.length ? states.slice() : states;
      for (const at of one.filled) truth[at] = NaN;
      return {
        name: one.name,
        start: one.start,
        firstRow: one.firstRow,
        rows: one.states.shape[0],
        states,
        truth,
        inputs: one.inputs ? unpack(one.inputs) : null,
        marks: one.marks,
        begin: one.begin,
      };
    });
    this.truths = new Truths(payload, this.series, this.scale, this.n);
    this.hasTruth = this.series.some((one) => one.rows > this.history);
    this.row = this.data.begin;
    this.steps = payload.steps;
    this.reference = this.truths.data(this.data, this.row, this.steps);
    this.path = new Float64Array((this.history + this.steps) * this.n);
    this.errors = new Float64Array(this.steps + 1);
    this.baseline = new Float64Array(this.steps + 1);
    this.engine = new Engine(payload, plain);
    this.rewind();
  }

  get data(): Series {
    return this.series[this.chosen];
  }

  get hasInputs(): boolean {
    return this.data.inputs !== null;
  }

  /** How many steps behind the start are known. */
  get known(): number {
    return this.reference.steps;
  }

  /** Whether a row trained the model, helped to choose it, or is unseen. */
  kindOf(row: number): RowKind | null {
    return this.data.marks.find(([first, last]) => row >= first && row < last)?.[2] ?? null;
  }

  get startTime(): number {
    return this.data.start + this.row * this.payload.dt;
  }

  onChange(listener: () => void): void {
    this.listeners.push(listener);
  }

  changed(): void {
    for (const listener of this.listeners) listener();
  }

  /** Keep account of a frame that showed a new future during a drag. */
  drew(at: number): void {
    this.frames.push({ at, fresh: this.fresh });
    if (this.frames.length > FRAMES) this.frames.shift();
  }

  /** The step where the valid prediction time ends, if it ends within the rollout and means something. */
  get limit(): number | null {
    if (this.reference.kind === "none" || this.valid === null || this.valid >= this.known) return null;
    return this.reference.kind === "analog" && this.valid === 0 ? null : this.valid;
  }

  predicted(step: number, coordinate: number): number {
    return this.path[(this.history - 1 + step) * this.n + coordinate];
  }

  /** A row of the data, so many rows before the start's. */
  before(rows: number, coordinate: number): number {
    return this.data.truth[(this.row - rows) * this.n + coordinate];
  }

  truth(step: number, coordinate: number): number {
    return this.reference.values[(this.reference.first + step) * this.n + coordinate];
  }

  /** Put the start back to where the data has it. */
  rewind(): void {
    const first = (this.row - this.history + 1) * this.n;
    this.path.set(this.data.states.subarray(first, first + this.history * this.n));
    this.reference = this.truths.data(this.data, this.row, this.steps);
    this.moved = false;
  }

  reset(): void {
    this.rewind();
    this.refresh();
  }

  /** First and last row, counted from the first row here, from which a rollout of this series can start. */
  get startRows(): [number, number] {
    return [this.history - 1, Math.max(this.history - 1, this.data.rows - 2)];
  }

  /** Start at a row of a series; false if it cannot be a start, and then nothing changes. */
  choose(series: number, row: number): boolean {
    const before = this.chosen;
    this.chosen = series;
    const [first, last] = this.startRows;
    if (!Number.isInteger(row) || row < first || row > last) {
      this.chosen = before;
      return false;
    }
    this.row = row;
    this.reset();
    return true;
  }

  /** Move the start; the states before it move along, so that differences stay as they are. */
  shift(coordinate: number, amount: number): void {
    for (let k = 0; k < this.history; k++) this.path[k * this.n + coordinate] += amount;
    this.moved = true;
  }

  /** After a move: find what the new start is to be compared with. While dragging only if that is quick. */
  compare(): void {
    if (!this.moved || (this.dragging && this.truths.cost > SEARCHED)) return;
    const start = this.path.slice((this.history - 1) * this.n, this.history * this.n);
    this.reference = this.truths.other(start, this.steps);
  }

  /** End of a drag. */
  drop(): void {
    this.dragging = false;
    this.compare();
    this.judge(0);
    this.changed();
  }

  /** Ask for a new rollout. While one is under way without a first answer, the newest request waits for it. */
  refresh(): void {
    this.finished = false;
    this.compare();
    if (this.waiting) {
      this.again = true;
      return;
    }
    this.waiting = true;
    const window = this.path.slice(0, this.history * this.n);
    this.engine.roll(window, this.futureInputs(), this.steps, { ...this.switches }, (rows) => this.hear(rows));
    this.look();
  }

  seek(step: number): void {
    this.now = Math.min(Math.max(step, 0), this.steps);
    this.look();
    this.changed();
  }

  /** Whether the rays that were last asked for are still those to be seen. */
  get upToDate(): boolean {
    return this.looked === this.sight();
  }

  private sight(): string {
    const { block, point } = this.focus;
    const parts = [Math.min(Math.floor(this.now), this.fresh), this.arrivals, this.finished, block, point];
    return [...parts, ...Object.values(this.switches)].join(" ");
  }

  /** The rays at the present step. */
  look(): void {
    if (!lensOf(this.payload) || (!this.watched && this.trace)) return;
    if (this.looking) {
      this.lookAgain = true;
      return;
    }
    this.looking = true;
    this.looked = this.sight();
    const step = Math.min(Math.floor(this.now), this.fresh);
    const window = this.path.slice(step * this.n, (step + this.history) * this.n);
    const inputs = this.payload.frame.inputs ? this.inputsAt(step).slice() : null;
    void this.engine.look(window, inputs, { ...this.switches }, { ...this.focus }).then((trace) => {
      this.looking = false;
      this.trace = trace;
      this.changed();
      if (this.lookAgain) {
        this.lookAgain = false;
        this.look();
      }
    });
  }

  /** Known inputs at one step, which may lie before the start; behind the end of the data its last row is repeated. */
  inputsAt(step: number): Float64Array {
    const m = this.payload.frame.inputs;
    const row = Math.min(this.row + step, this.data.rows - 1);
    return this.data.inputs?.subarray(row * m, (row + 1) * m) ?? new Float64Array(0);
  }

  /** Inputs for every step. */
  private futureInputs(): Float64Array | null {
    const m = this.payload.frame.inputs;
    if (!m || !this.data.inputs) return null;
    const inputs = new Float64Array((this.steps + 1) * m);
    for (let k = 0; k <= this.steps; k++) inputs.set(this.inputsAt(k), k * m);
    return inputs;
  }

  private hear(rows: Rows): void {
    this.path.set(rows.rows, (this.history + rows.first) * this.n);
    this.fresh = rows.first + rows.rows.length / this.n;
    this.finished = rows.done;
    if (rows.first === 0) this.arrivals++;
    this.judge(rows.first === 0 ? 0 : rows.first + 1);
    this.waiting = false;
    if (this.again) {
      this.again = false;
      this.refresh();
    } else if (rows.first === 0 || rows.done) this.look();
    this.changed();
  }

  /** Where training has been in one coordinate. */
  bounds(i: number): [number, number] {
    const { region } = this.payload;
    return [region?.low[i] ?? -Infinity, region?.high[i] ?? Infinity];
  }

  /** Errors and the rollout's ending, for the steps from `first` to the newest. */
  private judge(first: number): void {
    if (first === 0) this.valid = this.left = this.diverged = null;
    for (let k = first; k <= this.fresh; k++) {
      let sum = 0;
      let still = 0;
      let inside = true;
      let measured = true;
      for (let i = 0; i < this.n; i++) {
        const value = this.predicted(k, i);
        const [low, high] = this.bounds(i);
        if (!(value >= low && value <= high)) inside = false;
        if (k > this.known) continue;
        const truth = this.truth(k, i);
        if (Number.isNaN(truth)) measured = false;
        sum += ((value - truth) / this.scale[i]) ** 2;
        still += ((this.predicted(0, i) - truth) / this.scale[i]) ** 2;
      }
      this.baseline[k] = Math.sqrt(still / this.n);
      const error = Math.sqrt(sum / this.n);
      this.errors[k] = Number.isFinite(error) || !measured ? error : Infinity;
      if (!inside && this.left === null) this.left = k;
      if (this.diverged === null && !this.isFinite(k)) this.diverged = k;
      // Step 0 is the start itself; the steps before the first bad one are valid.
      if (k > 0 && k <= this.known && this.valid === null && this.errors[k] > this.payload.threshold) this.valid = k - 1;
    }
    if (this.valid === null && this.fresh >= this.known && this.known > 0) this.valid = this.known;
  }

  private isFinite(step: number): boolean {
    for (let i = 0; i < this.n; i++) if (!Number.isFinite(this.predicted(step, i))) return false;
    return true;
  }
}
