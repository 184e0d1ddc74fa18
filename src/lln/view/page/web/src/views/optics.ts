// What the rays do at each lens, as numbers: strengths, turns, and which rays are worth a look.

import type { Trace } from "../engine/blocks";

export interface Optics {
  /** root mean square change of angle at each lens, (depth,) */
  strength: Float64Array;
  /** angle between (1, theta) before and behind each lens, in degrees, (depth,) */
  turn: Float64Array;
  /** sum over lenses of each ray's change of angle, (width,) */
  bent: Float64Array;
}

export function optics(trace: Trace, width: number, depth: number): Optics {
  const strength = new Float64Array(depth);
  const turn = new Float64Array(depth);
  const bent = new Float64Array(width);
  for (let l = 0; l < depth; l++) {
    let before = 1;
    let behind = 1;
    let change = 0;
    for (let j = 0; j < width; j++) {
      const a = trace.theta[l * width + j];
      const b = trace.theta[(l + 1) * width + j];
      before += a * a;
      behind += b * b;
      change += (b - a) ** 2;
      bent[j] += Math.abs(b - a);
    }
    strength[l] = Math.sqrt(change / width);
    turn[l] = angle(trace, width, l, Math.sqrt(before), Math.sqrt(behind));
  }
  return { strength, turn, bent };
}

/** Half the angle's tangent is |u - v| / |u + v| for unit vectors; an arc cosine would lose small turns. */
function angle(trace: Trace, width: number, l: number, before: number, behind: number): number {
  let apart = (1 / before - 1 / behind) ** 2;
  let along = (1 / before + 1 / behind) ** 2;
  for (let j = 0; j < width; j++) {
    const u = trace.theta[l * width + j] / before;
    const v = trace.theta[(l + 1) * width + j] / behind;
    apart += (u - v) ** 2;
    along += (u + v) ** 2;
  }
  return (2 * Math.atan2(Math.sqrt(apart), Math.sqrt(along)) * 180) / Math.PI;
}

/** Indices of the `count` largest values, the largest first. */
export function largest(values: ArrayLike<number>, count: number): number[] {
  return Array.from(values, (_, i) => i)
    .sort((a, b) => values[b] - values[a])
    .slice(0, count);
}
