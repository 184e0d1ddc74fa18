// Ranges of the axes: steady while a start is dragged, wide enough for what matters.

import { extent } from "../draw/plot";
import type { State } from "../state";

const ROOM = 0.75; // how far a prediction may widen an axis, in spans of what is known

/** The range of each of some coordinates: the truth's (or, without any, training's), then what is predicted. */
export function ranges(state: State, coordinates: number[]): [number, number][] {
  return coordinates.map((i) => {
    const bounds = state.bounds(i);
    const known = extent((report) => {
      if (state.hasTruth) for (let k = 0; k < state.data.rows; k++) report(state.data.states[k * state.n + i]);
      else if (bounds.every(Number.isFinite)) bounds.forEach(report);
      else for (let k = 0; k <= state.fresh; k++) report(state.predicted(k, i));
    });
    const room = ROOM * (known[1] - known[0]);
    const all = extent((report) => {
      for (let k = 0; k <= state.fresh; k++) report(state.predicted(k, i));
    }, 0.03);
    return [Math.max(Math.min(known[0], all[0]), known[0] - room), Math.min(Math.max(known[1], all[1]), known[1] + room)];
  });
}
