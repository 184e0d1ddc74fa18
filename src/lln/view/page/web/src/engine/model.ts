// One step of a model of plain states, in float64: x <- clip(x + scale * (sum of parts of the features)), or the same
// of the logarithm of x.

import { unpack, type FramePayload, type PartPayload } from "../payload";
import { clamp, type Stepper, type Switches, type Trace } from "./blocks";
import { even, openArena, type Block } from "./kernel";
import { makePart, partNumbers, type Part } from "./parts";

export class Model implements Stepper {
  readonly size: number;
  readonly inputs: number;
  readonly simd: boolean;
  private readonly features: Block;
  private readonly constants: Record<string, Float64Array | undefined>;
  private readonly parts: Part[];

  constructor(readonly frame: FramePayload, parts: PartPayload[], plain = false) {
    this.size = frame.size;
    this.inputs = frame.inputs;
    const columns = frame.size * frame.history + frame.inputs;
    const numbers = even(columns) + parts.reduce((sum, part) => sum + partNumbers(part, columns, frame.size), 0);
    const { arena, simd } = openArena(numbers, plain);
    this.simd = simd;
    this.constants = Object.fromEntries(Object.entries(frame.arrays).map(([name, packed]) => [name, unpack(packed)]));
    this.features = { ...arena.block(columns), count: columns, inputs: frame.inputs };
    this.parts = parts.map((part) => makePart(arena, part, columns, frame.size));
  }

  step(window: Float64Array[], inputs: ArrayLike<number> | null, switches: Switches): Float64Array {
    const { scale, low, high, log_floor } = this.constants as Record<string, Float64Array>;
    const present = this.seen(window[window.length - 1]);
    const change = new Float64Array(this.size);
    this.fill(window, inputs);
    for (const part of this.parts) part.add(this.features, change, switches);
    const next = new Float64Array(this.size);
    for (let i = 0; i < this.size; i++) {
      const after = present[i] + scale[i] * change[i];
      const value = log_floor ? Math.exp(after) : after;
      next[i] = low && high ? clamp(value, low[i], high[i]) : value;
    }
    return next;
  }

  trace(window: Float64Array[], inputs: ArrayLike<number> | null, switches: Switches): Trace | null {
    this.fill(window, inputs);
    for (const part of this.parts) if (part.trace) return part.trace(this.features, switches);
    return null;
  }

  /** What the step computes with: the state, or its logarithm. */
  private seen(state: Float64Array): Float64Array {
    const floor = this.constants.log_floor;
    return floor ? state.map((value, i) => Math.log(Math.max(value, floor[i]))) : state;
  }

  private fill(given: Float64Array[], inputs: ArrayLike<number> | null): void {
    const window = this.constants.log_floor ? given.map((state) => this.seen(state)) : given;
    const { mean, scale, difference_scale, input_mean, input_scale } = this.constants as Record<string, Float64Array>;
    const n = this.size;
    const last = window.length - 1;
    const f = this.features.values;
    for (let i = 0; i < n; i++) f[i] = (window[last][i] - mean[i]) / scale[i];
    for (let j = 1; j < this.frame.history; j++) {
      const now = window[last - j + 1];
      const before = window[last - j];
      for (let i = 0; i < n; i++) {
        const change = (now[i] - mean[i]) / scale[i] - (before[i] - mean[i]) / scale[i];
        f[j * n + i] = change / difference_scale[(j - 1) * n + i];
      }
    }
    const first = n * this.frame.history;
    for (let i = 0; i < this.inputs; i++) f[first + i] = ((inputs?.[i] ?? input_mean[i]) - input_mean[i]) / input_scale[i];
  }
}
