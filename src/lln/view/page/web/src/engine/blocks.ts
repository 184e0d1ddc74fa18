// Building blocks that plain and field models share: affine maps and stacks of lenses, laid out for the fast loops.

import { even, type Arena, type Block } from "./kernel";
import { lattice, type Lattice } from "./lattice";

/** NaN stays NaN. */
export const clamp = (value: number, low: number, high: number): number =>
  value < low ? low : value > high ? high : value;

export interface Switches {
  lens: boolean;
  angle: boolean;
  propagation: boolean;
}

/** Positions and angles in front of and behind every lens, each (depth + 1, width). */
export interface Trace {
  y: Float64Array;
  theta: Float64Array;
}

/** Which rays of a field model are traced: those of one block at one grid point. */
export interface Focus {
  block: number;
  point: number;
}

/** One step of a model. */
export interface Stepper {
  readonly size: number;
  readonly inputs: number;
  readonly simd: boolean;
  /** The state after `window` (history rows of n, oldest first). */
  step(window: Float64Array[], inputs: ArrayLike<number> | null, switches: Switches): Float64Array;
  /** The rays of one window; null without lenses. */
  trace(window: Float64Array[], inputs: ArrayLike<number> | null, switches: Switches, focus: Focus): Trace | null;
}

export interface Optics {
  width: number;
  depth: number;
  basis: number;
  length: number;
  scale: number;
  sigma: number;
  centers: number[];
}

/** x -> weight x + bias, its rows padded to whole pairs. */
export class Affine {
  private readonly weight: Block;
  private readonly bias: Block;
  readonly columns: number;

  constructor(
    private readonly arena: Arena,
    weight: Float64Array,
    bias: Float64Array,
    readonly rows: number,
    columns: number,
  ) {
    this.columns = even(columns);
    this.weight = arena.block(rows * this.columns);
    for (let row = 0; row < rows; row++) {
      this.weight.values.set(weight.subarray(row * columns, (row + 1) * columns), row * this.columns);
    }
    this.bias = arena.block(rows);
    this.bias.values.set(bias);
  }

  /** From the numbers at address x to those at address out. */
  apply(x: number, out: number): void {
    this.arena.loops.affine(this.weight.at, this.bias.at, x, out, this.rows, this.columns);
  }

  static numbers(rows: number, columns: number): number {
    return rows * even(columns) + even(rows);
  }
}

/** The lenses of one network or block. */
export class Stack {
  private readonly lattice: Lattice;
  private readonly coefficients: Block;
  private readonly groups: Block;
  private readonly pairs: number;

  constructor(
    private readonly arena: Arena,
    private readonly optics: Optics,
    coefficients: Float64Array,
  ) {
    const { depth, width, basis } = optics;
    this.pairs = even(width) / 2;
    this.lattice = lattice(optics.centers, optics.sigma);
    this.coefficients = arena.block(depth * 2 * this.pairs * basis);
    this.groups = arena.block(2 * this.lattice.groups.length);
    this.lattice.groups.forEach((group, g) => this.groups.values.set([group.anchor, group.count], 2 * g));
    // (layer, ray, k) -> [layer][pair][k][2], times the weights of the factored form.
    const weights = this.lattice.groups.flatMap((group) => group.weights);
    for (let layer = 0; layer < depth; layer++) {
      for (let ray = 0; ray < width; ray++) {
        const to = (layer * this.pairs + (ray >> 1)) * basis * 2 + (ray & 1);
        const from = (layer * width + ray) * basis;
        for (let k = 0; k < basis; k++) this.coefficients.values[to + 2 * k] = coefficients[from + k] * weights[k];
      }
    }
  }

  /** Carry the rays at addresses y and theta through `layers` layers from `first` on. */
  carry(y: number, theta: number, first: number, layers: number, switches: Switches): void {
    const { kappa, gamma, clamp, groups } = this.lattice;
    const from = this.coefficients.at + 16 * first * this.pairs * this.optics.basis;
    const length = switches.propagation ? this.optics.length : 0;
    const scale = switches.lens ? this.optics.scale : 0;
    this.arena.loops.transport(
      y, theta, from, this.pairs, layers, this.groups.at, groups.length, kappa, gamma, clamp, length, scale,
    );
  }

  /** The rays behind every layer. */
  trace(y: Block, theta: Block, switches: Switches): Trace {
    const { depth, width } = this.optics;
    const seen = { y: new Float64Array((depth + 1) * width), theta: new Float64Array((depth + 1) * width) };
    for (let layer = 0; layer <= depth; layer++) {
      if (layer > 0) this.carry(y.at, theta.at, layer - 1, 1, switches);
      seen.y.set(y.values.subarray(0, width), layer * width);
      seen.theta.set(theta.values.subarray(0, width), layer * width);
    }
    return seen;
  }

  static numbers(optics: Optics): number {
    return optics.depth * even(optics.width) * optics.basis + 2 * optics.basis + 4;
  }
}
