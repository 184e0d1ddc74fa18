// The surrogate's step in float64: x <- x + scale * (matrix f + offset + gain * net(f)).

import { unpack, type FramePayload, type LensPayload, type PerceptronPayload } from "../payload";
import { even, openArena, type Arena, type Block } from "./kernel";
import { Affine, Stack, type Stepper, type Switches, type Trace } from "./parts";

interface Network {
  /** Reads `features`, leaves its output in `out`. */
  apply(features: Block, out: Block, switches: Switches): void;
}

export class Model implements Stepper {
  readonly size: number;
  readonly inputs: number;
  readonly simd: boolean;
  private readonly linear: Affine;
  private readonly features: Block;
  private readonly change: Block;
  private readonly correction: Block;
  private readonly constants: Record<keyof FramePayload["arrays"], Float64Array>;
  private readonly network: Network | null;

  constructor(
    readonly frame: FramePayload,
    network: LensPayload | PerceptronPayload | null,
    plain = false,
  ) {
    const { arena, simd } = openArena(demand(frame, network), plain);
    this.simd = simd;
    this.size = frame.size;
    this.inputs = frame.inputs;
    const names = Object.keys(frame.arrays) as (keyof FramePayload["arrays"])[];
    this.constants = Object.fromEntries(names.map((name) => [name, unpack(frame.arrays[name])])) as typeof this.constants;
    const columns = frame.size * frame.history + frame.inputs;
    this.features = arena.block(columns);
    this.change = arena.block(frame.size);
    this.correction = arena.block(frame.size);
    this.linear = new Affine(arena, this.constants.matrix, this.constants.offset, frame.size, columns);
    const heard = this.constants.gain.some((value) => value !== 0);
    if (network === null || !heard) this.network = null;
    else if (network.kind === "lens") this.network = new Lenses(arena, network, columns);
    else this.network = new Perceptrons(arena, network, columns, frame.size);
  }

  step(window: Float64Array[], inputs: ArrayLike<number> | null, switches: Switches): Float64Array {
    const { scale, gain } = this.constants;
    this.fill(window, inputs);
    this.linear.apply(this.features.at, this.change.at);
    const present = window[window.length - 1];
    const next = new Float64Array(this.size);
    if (this.network) {
      this.network.apply(this.features, this.correction, switches);
      for (let i = 0; i < this.size; i++) {
        next[i] = present[i] + scale[i] * (this.change.values[i] + gain[i] * this.correction.values[i]);
      }
    } else {
      for (let i = 0; i < this.size; i++) next[i] = present[i] + scale[i] * this.change.values[i];
    }
    return next;
  }

  trace(window: Float64Array[], inputs: ArrayLike<number> | null, switches: Switches): Trace | null {
    if (!(this.network instanceof Lenses)) return null;
    this.fill(window, inputs);
    return this.network.trace(this.features, switches);
  }

  private fill(window: Float64Array[], inputs: ArrayLike<number> | null): void {
    const { mean, scale, difference_scale, input_mean, input_scale } = this.constants;
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

class Lenses implements Network {
  private readonly position: Affine;
  private readonly angle: Affine | null;
  private readonly readout: Affine;
  private readonly stack: Stack;
  private readonly y: Block;
  private readonly theta: Block;

  constructor(
    arena: Arena,
    private readonly lens: LensPayload,
    columns: number,
  ) {
    const { width, arrays } = lens;
    this.position = new Affine(arena, unpack(arrays.position_weight), unpack(arrays.position_bias), width, columns);
    this.angle =
      arrays.angle_weight && arrays.angle_bias
        ? new Affine(arena, unpack(arrays.angle_weight), unpack(arrays.angle_bias), width, columns)
        : null;
    const bias = unpack(arrays.readout_bias);
    this.readout = new Affine(arena, unpack(arrays.readout_weight), bias, bias.length, width);
    this.stack = new Stack(arena, lens, unpack(arrays.coefficients));
    this.y = arena.block(width);
    this.theta = arena.block(width);
  }

  apply(features: Block, out: Block, switches: Switches): void {
    this.embed(features, switches);
    this.stack.carry(this.y.at, this.theta.at, 0, this.lens.depth, switches);
    this.readout.apply(this.y.at, out.at);
  }

  trace(features: Block, switches: Switches): Trace {
    this.embed(features, switches);
    return this.stack.trace(this.y, this.theta, switches);
  }

  private embed(features: Block, switches: Switches): void {
    this.position.apply(features.at, this.y.at);
    const theta = this.theta.values;
    theta.fill(0);
    if (!this.angle || !switches.angle) return;
    this.angle.apply(features.at, this.theta.at);
    for (let j = 0; j < this.lens.width; j++) theta[j] = Math.tanh(theta[j]);
  }
}

/** Networks of ReLU layers, plain or residual: z <- keep z + gain relu(W z + b). The members' mean is the output. */
class Perceptrons implements Network {
  private readonly members: { embed: Affine; hidden: Affine[]; gain: Float64Array; readout: Affine }[];
  private readonly z: Block;
  private readonly next: Block;
  private readonly part: Block;

  constructor(
    arena: Arena,
    private readonly payload: PerceptronPayload,
    columns: number,
    size: number,
  ) {
    const { width, depth } = payload;
    this.members = payload.members.map((member) => {
      const weight = unpack(member.hidden_weight);
      const bias = unpack(member.hidden_bias);
      const layer = (l: number): Affine => {
        const square = weight.subarray(l * width * width, (l + 1) * width * width);
        return new Affine(arena, square, bias.subarray(l * width, (l + 1) * width), width, width);
      };
      return {
        embed: new Affine(arena, unpack(member.embed_weight), unpack(member.embed_bias), width, columns),
        hidden: Array.from({ length: depth }, (_, l) => layer(l)),
        gain: unpack(member.gain),
        readout: new Affine(arena, unpack(member.readout_weight), unpack(member.readout_bias), size, width),
      };
    });
    this.z = arena.block(width);
    this.next = arena.block(width);
    this.part = arena.block(size);
  }

  apply(features: Block, out: Block): void {
    const { width, keep } = this.payload;
    out.values.fill(0);
    for (const member of this.members) {
      const z = this.z.values;
      member.embed.apply(features.at, this.z.at);
      for (let j = 0; j < width; j++) z[j] = relu(z[j]);
      member.hidden.forEach((layer, l) => {
        layer.apply(this.z.at, this.next.at);
        for (let j = 0; j < width; j++) z[j] = keep * z[j] + member.gain[l * width + j] * relu(this.next.values[j]);
      });
      member.readout.apply(this.z.at, this.part.at);
      for (let i = 0; i < out.values.length; i++) out.values[i] += this.part.values[i] / this.members.length;
    }
  }
}

/** As torch has it: NaN stays NaN. */
const relu = (value: number): number => (value < 0 ? 0 : value);

/** How many numbers a model takes in memory. */
function demand(frame: FramePayload, network: LensPayload | PerceptronPayload | null): number {
  const columns = frame.size * frame.history + frame.inputs;
  const numbers = even(columns) + 2 * even(frame.size) + Affine.numbers(frame.size, columns);
  if (network === null) return numbers;
  const { width, depth } = network;
  const ends = 2 * Affine.numbers(width, columns) + Affine.numbers(frame.size, width);
  const rest = 2 * even(width) + even(frame.size);
  if (network.kind === "lens") return numbers + ends + Stack.numbers(network) + rest;
  return numbers + network.members.length * (ends + depth * Affine.numbers(width, width)) + rest;
}
