// What a rollout is compared with: the data, a simulation of the true system, or the nearest state in the data.

import { Flow } from "./engine/polynomial";
import type { Payload } from "./payload";
import type { Series } from "./state";

export interface Reference {
  kind: "data" | "simulation" | "analog" | "none";
  /** rows of n; step 0 is row `first` */
  values: Float64Array;
  first: number;
  /** how many steps behind the start are known */
  steps: number;
  /** in words, for an analog: which row it is */
  name: string;
  /** distance of an analog from the start, in standard deviations */
  distance: number;
}

export class Truths {
  private readonly flow: Flow | null;

  constructor(
    private readonly payload: Payload,
    private readonly series: Series[],
    private readonly scale: Float64Array,
    private readonly n: number,
  ) {
    this.flow = payload.system ? new Flow(payload.system.flow) : null;
  }

  /** The rows of the data behind row `row`. */
  data(series: Series, row: number, most: number): Reference {
    const { truth } = series;
    const measured = (step: number): boolean => !truth.subarray((row + step) * this.n, (row + step + 1) * this.n).some(Number.isNaN);
    let steps = Math.min(most, series.rows - 1 - row);
    while (steps > 0 && !measured(steps)) steps--;
    return { kind: steps > 0 ? "data" : "none", values: truth, first: row, steps, name: "truth", distance: 0 };
  }

  /** For a start that is not in the data: the true system where it is known, else the most similar state. */
  other(start: Float64Array, most: number): Reference {
    return this.flow ? this.simulated(this.flow, start, most) : this.analog(start, most);
  }

  /** Numbers that a search for the nearest state reads; few enough ones can be read while a start is dragged. */
  get cost(): number {
    return this.flow ? 0 : this.series.reduce((sum, one) => sum + one.states.length, 0);
  }

  private simulated(flow: Flow, start: Float64Array, most: number): Reference {
    const values = new Float64Array((most + 1) * this.n);
    const none = new Float64Array(0);
    let state = start;
    values.set(state);
    for (let k = 1; k <= most; k++) {
      state = flow.advance(state, none);
      values.set(state, k * this.n);
    }
    const name = `simulation of ${this.payload.system?.name ?? "the system"}`;
    return { kind: "simulation", values, first: 0, steps: most, name, distance: 0 };
  }

  private analog(start: Float64Array, most: number): Reference {
    const { n, scale } = this;
    let best = { series: null as Series | null, row: 0, distance: Infinity };
    for (const one of this.series) {
      // A state near the end has no future to show.
      const last = Math.max(0, one.rows - 1 - Math.min(most, Math.floor(one.rows / 2)));
      for (let row = 0; row <= last; row++) {
        let sum = 0;
        for (let i = 0; i < n && sum < best.distance; i++) sum += ((one.states[row * n + i] - start[i]) / scale[i]) ** 2;
        if (sum < best.distance) best = { series: one, row, distance: sum };
      }
    }
    if (!best.series || best.series.rows < 2) return { kind: "none", values: start, first: 0, steps: 0, name: "", distance: 0 };
    const found = this.data(best.series, best.row, most);
    const name = `nearest state in the data (row ${(best.series.firstRow + best.row).toLocaleString("en")})`;
    return { ...found, kind: "analog", name, distance: Math.sqrt(best.distance / n) };
  }
}
