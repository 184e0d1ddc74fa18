// The step of a field model: convolutions embed and read out, the same lenses act at every point of the grid.

import { unpack, type FieldFramePayload, type FieldNetworkPayload, type Packed } from "../payload";
import { even, openArena, type Arena, type Block } from "./kernel";
import { Affine, clamp, Stack, type Focus, type Stepper, type Switches, type Trace } from "./blocks";
import { Polynomial } from "./polynomial";
import { Stencil } from "./stencil";

interface Section {
  position: Affine;
  angle: Affine | null;
  stack: Stack;
  read: Affine;
  channels: number;
}

export class FieldModel implements Stepper {
  readonly size: number;
  readonly inputs: number;
  readonly simd: boolean;
  private readonly points: number;
  private readonly channels: number;
  private readonly seen: number;
  private readonly constants: Record<keyof FieldFramePayload["arrays"], Float64Array>;
  private readonly around: Stencil;
  private readonly linear: Affine | null;
  private readonly polynomial: Polynomial | null;
  private readonly features: Float64Array;
  private readonly patches: Block;
  private readonly out: Block;
  private readonly network: FieldNetwork | null;
  private readonly free: Float64Array;

  constructor(
    private readonly frame: FieldFramePayload,
    network: FieldNetworkPayload | null,
    plain = false,
  ) {
    this.channels = frame.channels;
    this.points = frame.space.reduce((a, b) => a * b, 1);
    this.size = this.points * this.channels;
    this.inputs = frame.inputs;
    this.seen = frame.channels * frame.history + frame.inputs;
    const names = Object.keys(frame.arrays) as (keyof FieldFramePayload["arrays"])[];
    this.constants = Object.fromEntries(
      names.map((name) => [name, unpack(frame.arrays[name] as Packed)]),
    ) as typeof this.constants;
    this.around = new Stencil(frame.space, frame.kernel, frame.boundary);
    const columns = this.around.taps * this.seen;
    const mine = this.points * even(columns) + this.points * even(this.channels) + Affine.numbers(this.channels, columns);
    const { arena, simd } = openArena(mine + (network ? FieldNetwork.numbers(network, this.points, this.seen) : 0), plain);
    this.simd = simd;
    this.features = new Float64Array(this.points * this.seen);
    this.patches = arena.block(this.points * even(columns));
    this.out = arena.block(this.points * even(this.channels));
    const { matrix, offset, gain } = this.constants;
    this.linear = matrix.some((value) => value !== 0) ? new Affine(arena, matrix, offset, this.channels, columns) : null;
    const { polynomial_table: table, polynomial_weights: weights } = frame.arrays;
    this.polynomial = table && weights ? new Polynomial({ table, weights }) : null;
    const heard = network !== null && gain.some((value) => value !== 0);
    this.network = heard ? new FieldNetwork(arena, network, frame.space, this.seen, this.constants.static ?? null) : null;
    this.free = held(frame);
  }

  step(window: Float64Array[], inputs: ArrayLike<number> | null, switches: Switches): Float64Array {
    const { points, channels } = this;
    const { offset, gain, channel_scale, low, high } = this.constants;
    this.fill(window, inputs);
    const change = new Float64Array(points * channels);
    if (this.linear) this.convolve(change);
    else for (let i = 0; i < change.length; i++) change[i] = offset[i % channels];
    if (this.polynomial) {
      for (let p = 0; p < points; p++) {
        const here = this.features.subarray(p * this.seen, (p + 1) * this.seen);
        this.polynomial.add(here, change.subarray(p * channels, (p + 1) * channels));
      }
    }
    if (this.network) {
      let correction = this.network.apply(this.features, switches);
      if (this.frame.conserve === "flux") correction = this.divergence(correction);
      for (let i = 0; i < change.length; i++) change[i] += gain[i % channels] * correction[i];
    }
    if (this.frame.conserve !== "none") this.centre(change);
    const present = window[window.length - 1];
    const next = new Float64Array(this.size);
    for (let p = 0; p < points; p++) {
      for (let c = 0; c < channels; c++) {
        const value = present[c * points + p] + channel_scale[c] * this.free[p] * change[p * channels + c];
        next[c * points + p] = low && high ? clamp(value, low[c], high[c]) : value;
      }
    }
    return next;
  }

  trace(window: Float64Array[], inputs: ArrayLike<number> | null, switches: Switches, focus: Focus): Trace | null {
    if (!this.network) return null;
    this.fill(window, inputs);
    return this.network.trace(this.features, switches, focus);
  }

  private fill(window: Float64Array[], inputs: ArrayLike<number> | null): void {
    const { channel_mean: mean, channel_scale: scale, difference_scale, input_mean, input_scale } = this.constants;
    const { points, channels, seen, features } = this;
    const last = window.length - 1;
    for (let p = 0; p < points; p++) {
      for (let c = 0; c < channels; c++) {
        const z = (back: number): number => (window[last - back][c * points + p] - mean[c]) / scale[c];
        features[p * seen + c] = z(0);
        for (let j = 1; j < this.frame.history; j++) {
          features[p * seen + j * channels + c] = (z(j - 1) - z(j)) / difference_scale[(j - 1) * channels + c];
        }
      }
      const first = p * seen + channels * this.frame.history;
      for (let i = 0; i < this.inputs; i++) features[first + i] = ((inputs?.[i] ?? input_mean[i]) - input_mean[i]) / input_scale[i];
    }
  }

  private convolve(change: Float64Array): void {
    const { linear, points, channels } = this;
    if (!linear) return;
    this.around.gather(this.features, this.seen, this.seen, this.patches.values, linear.columns);
    const wide = even(channels);
    for (let p = 0; p < points; p++) {
      linear.apply(this.patches.at + 8 * p * linear.columns, this.out.at + 8 * p * wide);
      for (let c = 0; c < channels; c++) change[p * channels + c] = this.out.values[p * wide + c];
    }
  }

  /** What flows into each cell from its neighbours; nothing flows through walls. */
  private divergence(flux: Float64Array): Float64Array {
    const { points, channels } = this;
    const { space, boundary } = this.frame;
    const total = new Float64Array(points * channels);
    let stride = points;
    space.forEach((size, axis) => {
      stride /= size;
      const round = boundary[axis][0] === "periodic";
      const of = (p: number, c: number): number => flux[(p * space.length + axis) * channels + c];
      for (let p = 0; p < points; p++) {
        const i = Math.floor(p / stride) % size;
        const before = i > 0 ? p - stride : round ? p + (size - 1) * stride : -1;
        for (let c = 0; c < channels; c++) {
          const inward = before >= 0 ? of(before, c) : 0;
          const outward = i < size - 1 || round ? of(p, c) : 0;
          total[p * channels + c] += inward - outward;
        }
      }
    });
    return total;
  }

  /** Take the mean over space away. */
  private centre(change: Float64Array): void {
    const { points, channels } = this;
    for (let c = 0; c < channels; c++) {
      let sum = 0;
      for (let p = 0; p < points; p++) sum += change[p * channels + c];
      for (let p = 0; p < points; p++) change[p * channels + c] -= sum / points;
    }
  }
}

/** Blocks of lenses; the mean over members is the output. */
class FieldNetwork {
  private readonly members: Section[][];
  private readonly around: Stencil;
  private readonly patches: Block;
  private readonly y: Block;
  private readonly theta: Block;
  private readonly out: Block;
  private readonly wide: number;

  constructor(
    arena: Arena,
    private readonly payload: FieldNetworkPayload,
    space: number[],
    seen: number,
    private readonly fixed: Float64Array | null,
  ) {
    this.around = new Stencil(space, payload.kernel, payload.boundary);
    const { points, taps } = this.around;
    this.wide = even(payload.width);
    const first = seen + (fixed ? fixed.length / points : 0);
    this.members = payload.members.map((member) =>
      member.blocks.map((block, b) => {
        const channels = b === 0 ? first : payload.hidden;
        const embed = (weight: Packed, bias: Packed): Affine =>
          new Affine(arena, unpack(weight), unpack(bias), payload.width, taps * channels);
        const bias = unpack(block.read_bias);
        return {
          position: embed(block.position_weight, block.position_bias),
          angle: block.angle_weight && block.angle_bias ? embed(block.angle_weight, block.angle_bias) : null,
          stack: new Stack(arena, payload, unpack(block.coefficients)),
          read: new Affine(arena, unpack(block.read_weight), bias, bias.length, taps * payload.width),
          channels,
        };
      }),
    );
    this.patches = arena.block(points * FieldNetwork.widest(payload, taps, first));
    this.y = arena.block(points * this.wide);
    this.theta = arena.block(points * this.wide);
    this.out = arena.block(even(Math.max(payload.hidden, payload.outputs)));
  }

  apply(features: Float64Array, switches: Switches): Float64Array {
    const total = new Float64Array(this.around.points * this.payload.outputs);
    for (const member of this.members) {
      const out = this.through(member, features, switches);
      for (let i = 0; i < total.length; i++) total[i] += out[i] / this.members.length;
    }
    return total;
  }

  /** The rays of the first member at one point of one block. */
  trace(features: Float64Array, switches: Switches, focus: Focus): Trace {
    const member = this.members[0];
    const block = Math.min(focus.block, member.length - 1);
    const field = this.through(member, features, switches, block);
    this.embed(member[block], field, switches);
    const at = Math.min(focus.point, this.around.points - 1) * this.wide;
    const part = (block: Block): Block => ({ at: block.at + 8 * at, values: block.values.subarray(at, at + this.wide), count: this.wide });
    return member[block].stack.trace(part(this.y), part(this.theta), switches);
  }

  /** The field in front of block `last`, or behind all blocks. */
  private through(member: Section[], features: Float64Array, switches: Switches, last = member.length): Float64Array {
    const { points } = this.around;
    let field = this.withFixed(features);
    for (let b = 0; b < last; b++) {
      this.embed(member[b], field, switches);
      for (let p = 0; p < points; p++) {
        const at = 8 * p * this.wide;
        member[b].stack.carry(this.y.at + at, this.theta.at + at, 0, this.payload.depth, switches);
      }
      const read = this.read(member[b].read);
      // Between blocks of equal channels the reading is added to the field.
      if (b > 0 && b < member.length - 1) for (let i = 0; i < read.length; i++) read[i] += field[i];
      field = read;
    }
    return field;
  }

  private embed(section: Section, field: Float64Array, switches: Switches): void {
    const { points } = this.around;
    const { columns } = section.position;
    this.patches.values.fill(0);
    this.around.gather(field, section.channels, section.channels, this.patches.values, columns);
    const theta = this.theta.values;
    theta.fill(0);
    for (let p = 0; p < points; p++) {
      const [from, to] = [this.patches.at + 8 * p * columns, 8 * p * this.wide];
      section.position.apply(from, this.y.at + to);
      if (section.angle && switches.angle) section.angle.apply(from, this.theta.at + to);
    }
    if (section.angle && switches.angle) for (let i = 0; i < theta.length; i++) theta[i] = Math.tanh(theta[i]);
  }

  private read(map: Affine): Float64Array {
    const { points } = this.around;
    this.patches.values.fill(0);
    this.around.gather(this.y.values, this.wide, this.payload.width, this.patches.values, map.columns);
    const field = new Float64Array(points * map.rows);
    for (let p = 0; p < points; p++) {
      map.apply(this.patches.at + 8 * p * map.columns, this.out.at);
      field.set(this.out.values.subarray(0, map.rows), p * map.rows);
    }
    return field;
  }

  /** The first block also sees the fixed field. */
  private withFixed(features: Float64Array): Float64Array {
    if (!this.fixed) return features;
    const { points } = this.around;
    const [seen, more] = [features.length / points, this.fixed.length / points];
    const joined = new Float64Array(points * (seen + more));
    for (let p = 0; p < points; p++) {
      joined.set(features.subarray(p * seen, (p + 1) * seen), p * (seen + more));
      joined.set(this.fixed.subarray(p * more, (p + 1) * more), p * (seen + more) + seen);
    }
    return joined;
  }

  private static widest(payload: FieldNetworkPayload, taps: number, first: number): number {
    return even(taps * Math.max(first, payload.hidden, payload.width));
  }

  static numbers(payload: FieldNetworkPayload, points: number, seen: number): number {
    const taps = payload.kernel.reduce((a, b) => a * b, 1);
    const first = seen + payload.fixed;
    const most = FieldNetwork.widest(payload, taps, first);
    const outputs = Math.max(payload.hidden, payload.outputs);
    const block = 2 * Affine.numbers(payload.width, most) + Stack.numbers(payload) + Affine.numbers(outputs, most);
    const blocks = payload.members.reduce((sum, member) => sum + member.blocks.length, 0);
    return blocks * block + points * (most + 2 * even(payload.width)) + even(outputs) + 8;
  }
}

/** One where a point may change, zero on Dirichlet sides, whose values are prescribed. */
function held(frame: FieldFramePayload): Float64Array {
  const points = frame.space.reduce((a, b) => a * b, 1);
  const free = new Float64Array(points).fill(1);
  let stride = points;
  frame.space.forEach((size, axis) => {
    stride /= size;
    for (let p = 0; p < points; p++) {
      const i = Math.floor(p / stride) % size;
      const [low, high] = frame.boundary[axis];
      if ((i === 0 && low === "dirichlet") || (i === size - 1 && high === "dirichlet")) free[p] = 0;
    }
  });
  return free;
}
