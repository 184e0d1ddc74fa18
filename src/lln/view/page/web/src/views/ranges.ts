// Ranges of the axes: steady while a start is dragged, wide enough for what matters.

import { extent } from "../draw/plot";
import type { State } from "../state";

const PAST = 0.25; // of the steps of a rollout
const ROOM = 0.75; // how far a forecast may widen an axis, in spans of what is known

/** How many rows before the start are shown. */
export function past(state: State): number {
  return Math.min(state.row, Math.ceil(PAST * state.steps));
}

/** The range of each of some coordinates: the truth's (or, without any, training's), then what is predicted. */
export function ranges(state: State, coordinates: number[]): [number, number][] {
  return coordinates.map((i) => {
    const bounds = state.bounds(i);
    const free = state.payload.region !== null && !bounds.every(Number.isFinite);
    const known = extent((report) => {
      // An angle that turns on is far from where it was: only rows that are shown count.
      const first = free ? state.row - past(state) : 0;
      const last = Math.min(free ? state.row + state.steps : Infinity, state.data.rows - 1);
      if (state.hasTruth) for (let k = first; k <= last; k++) report(state.data.states[k * state.n + i]);
      else if (bounds.every(Number.isFinite)) bounds.forEach(report);
      else for (let k = 0; k <= state.fresh; k++) report(state.predicted(k, i));
    });
    const room = free ? Infinity : ROOM * (known[1] - known[0]);
    const all = extent((report) => {
      for (let k = 0; k <= state.fresh; k++) report(state.predicted(k, i));
    }, 0.03);
    return [Math.max(Math.min(known[0], all[0]), known[0] - room), Math.min(Math.max(known[1], all[1]), known[1] + room)];
  });
}
