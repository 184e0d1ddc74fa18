// Neighbourhoods on a grid: what a convolution sees at every point, with a boundary condition for each side.

/** "periodic" goes round, "dirichlet" is the odd and "neumann" the even reflection, "replicate" copies the edge. */
export type Side = "periodic" | "dirichlet" | "neumann" | "replicate";

type Terms = [place: number, weight: number][];

export class Stencil {
  /** terms of (point, kernel index) lie from starts[point * taps + k] on */
  private readonly starts: Int32Array;
  private readonly places: Int32Array;
  private readonly weights: Float64Array;
  readonly taps: number;
  readonly points: number;

  constructor(space: number[], kernel: number[], boundary: [Side, Side][]) {
    this.points = space.reduce((a, b) => a * b, 1);
    this.taps = kernel.reduce((a, b) => a * b, 1);
    const starts = [0];
    const places: number[] = [];
    const weights: number[] = [];
    for (let point = 0; point < this.points; point++) {
      const at = unravel(point, space);
      for (let tap = 0; tap < this.taps; tap++) {
        let terms: Terms = [[0, 1]];
        unravel(tap, kernel).forEach((k, axis) => {
          const along = beyond(at[axis] + k - Math.floor((kernel[axis] - 1) / 2), space[axis], boundary[axis]);
          terms = terms.flatMap(([place, weight]) =>
            along.map(([index, factor]): [number, number] => [place * space[axis] + index, weight * factor]),
          );
        });
        for (const [place, weight] of terms) {
          places.push(place);
          weights.push(weight);
        }
        starts.push(places.length);
      }
    }
    this.starts = Int32Array.from(starts);
    this.places = Int32Array.from(places);
    this.weights = Float64Array.from(weights);
  }

  /** Patches of a field: (points, channels) in rows of `stride` -> (points, taps * channels) in rows of `wide`. */
  gather(field: Float64Array, stride: number, channels: number, out: Float64Array, wide: number): void {
    for (let point = 0; point < this.points; point++) {
      for (let tap = 0; tap < this.taps; tap++) {
        const index = point * this.taps + tap;
        const to = point * wide + tap * channels;
        const [first, last] = [this.starts[index], this.starts[index + 1]];
        for (let c = 0; c < channels; c++) {
          let sum = 0;
          for (let t = first; t < last; t++) sum += this.weights[t] * field[this.places[t] * stride + c];
          out[to + c] = sum;
        }
      }
    }
  }
}

function unravel(index: number, shape: number[]): number[] {
  const found = new Array<number>(shape.length);
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    found[axis] = index % shape[axis];
    index = Math.floor(index / shape[axis]);
  }
  return found;
}

/** The value at `place` of an axis of `size` points, as a sum over points that are there. */
function beyond(place: number, size: number, [low, high]: [Side, Side]): Terms {
  if (place >= 0 && place < size) return [[place, 1]];
  if (low === "periodic") return [[((place % size) + size) % size, 1]];
  const edge = place < 0 ? 0 : size - 1;
  const side = place < 0 ? low : high;
  const mirror = 2 * edge - place;
  if (side === "replicate") return [[edge, 1]];
  return side === "neumann" ? [[mirror, 1]] : [[edge, 2], [mirror, -1]];
}
