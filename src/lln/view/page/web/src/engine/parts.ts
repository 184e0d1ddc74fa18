// The parts of a step of plain states. Each adds to the standardised increment; to add a kind of part, write a class here
// and name it in `makePart` and in `PartPayload`.

import {
  unpack, type FlowPayload, type LensPayload, type LinearPayload, type PartPayload, type PerceptronPayload,
  type PolynomialPayload,
} from "../payload";
import { Affine, Stack, type Switches, type Trace } from "./blocks";
import { even, type Arena, type Block } from "./kernel";
import { Flow, Polynomial } from "./polynomial";

export interface Part {
  /** Add this part's increment for `features` to `change`. */
  add(features: Block, change: Float64Array, switches: Switches): void;
  /** The rays for `features`, where the part has lenses. */
  trace?(features: Block, switches: Switches): Trace;
}

export function makePart(arena: Arena, payload: PartPayload, columns: number, size: number): Part {
  if (payload.kind === "linear") return new LinearPart(arena, payload, columns, size);
  if (payload.kind === "polynomial") return new PolynomialPart(payload);
  if (payload.kind === "flow") return new FlowPart(payload, size);
  if (payload.kind === "lens") return new LensPart(arena, payload, columns, size);
  return new PerceptronPart(arena, payload, columns, size);
}

/** Numbers of arena memory that a part takes. */
export function partNumbers(payload: PartPayload, columns: number, size: number): number {
  if (payload.kind === "linear") return Affine.numbers(size, columns) + even(size);
  if (payload.kind === "polynomial" || payload.kind === "flow") return 0;
  const { width } = payload;
  const ends = 2 * Affine.numbers(width, columns) + Affine.numbers(size, width);
  const rest = 2 * even(width) + 2 * even(size);
  if (payload.kind === "lens") return ends + Stack.numbers(payload) + rest;
  return payload.members.length * (ends + payload.depth * Affine.numbers(width, width)) + rest;
}

/** matrix f + offset */
class LinearPart implements Part {
  private readonly map: Affine;
  private readonly out: Block;

  constructor(arena: Arena, payload: LinearPayload, columns: number, size: number) {
    this.map = new Affine(arena, unpack(payload.arrays.matrix), unpack(payload.arrays.offset), size, columns);
    this.out = arena.block(size);
  }

  add(features: Block, change: Float64Array): void {
    this.map.apply(features.at, this.out.at);
    for (let i = 0; i < change.length; i++) change[i] += this.out.values[i];
  }
}

class PolynomialPart implements Part {
  private readonly polynomial: Polynomial;

  constructor(payload: PolynomialPayload) {
    this.polynomial = new Polynomial(payload.arrays);
  }

  add(features: Block, change: Float64Array): void {
    this.polynomial.add(features.values, change);
  }
}

/** The increment of a flow over one step of data. */
class FlowPart implements Part {
  private readonly flow: Flow;

  constructor(payload: FlowPayload, private readonly size: number) {
    this.flow = new Flow(payload);
  }

  add(features: Block, change: Float64Array): void {
    // The field sees the present state and the inputs, which stand at the end of the features.
    const inputs = features.values.subarray(features.count - (features.inputs ?? 0), features.count);
    const start = features.values.slice(0, this.size);
    const end = this.flow.advance(start, inputs);
    for (let i = 0; i < this.size; i++) change[i] += end[i] - start[i];
  }
}

/** gain * (readout y_D + bias), with y_D the positions behind the last lens. */
class LensPart implements Part {
  private readonly position: Affine;
  private readonly angle: Affine | null;
  private readonly readout: Affine;
  private readonly stack: Stack;
  private readonly y: Block;
  private readonly theta: Block;
  private readonly out: Block;
  private readonly gain: Float64Array;

  constructor(arena: Arena, private readonly lens: LensPayload, columns: number, size: number) {
    const { width, arrays } = lens;
    this.position = new Affine(arena, unpack(arrays.position_weight), unpack(arrays.position_bias), width, columns);
    this.angle =
      arrays.angle_weight && arrays.angle_bias
        ? new Affine(arena, unpack(arrays.angle_weight), unpack(arrays.angle_bias), width, columns)
        : null;
    this.readout = new Affine(arena, unpack(arrays.readout_weight), unpack(arrays.readout_bias), size, width);
    this.stack = new Stack(arena, lens, unpack(arrays.coefficients));
    this.y = arena.block(width);
    this.theta = arena.block(width);
    this.out = arena.block(size);
    this.gain = unpack(arrays.gain);
  }

  add(features: Block, change: Float64Array, switches: Switches): void {
    this.embed(features, switches);
    this.stack.carry(this.y.at, this.theta.at, 0, this.lens.depth, switches);
    this.readout.apply(this.y.at, this.out.at);
    for (let i = 0; i < change.length; i++) change[i] += this.gain[i] * this.out.values[i];
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

/** Networks of ReLU layers, plain or residual: z <- keep z + gain relu(W z + b). The mean of the members is the output. */
class PerceptronPart implements Part {
  private readonly members: { embed: Affine; hidden: Affine[]; gain: Float64Array; readout: Affine }[];
  private readonly z: Block;
  private readonly next: Block;
  private readonly out: Block;
  private readonly gain: Float64Array;

  constructor(arena: Arena, private readonly payload: PerceptronPayload, columns: number, size: number) {
    const { width, depth } = payload;
    this.gain = unpack(payload.gain);
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
    this.out = arena.block(size);
  }

  add(features: Block, change: Float64Array): void {
    const { width, keep } = this.payload;
    for (const member of this.members) {
      const z = this.z.values;
      member.embed.apply(features.at, this.z.at);
      for (let j = 0; j < width; j++) z[j] = relu(z[j]);
      member.hidden.forEach((layer, l) => {
        layer.apply(this.z.at, this.next.at);
        for (let j = 0; j < width; j++) z[j] = keep * z[j] + member.gain[l * width + j] * relu(this.next.values[j]);
      });
      member.readout.apply(this.z.at, this.out.at);
      for (let i = 0; i < change.length; i++) change[i] += (this.gain[i] * this.out.values[i]) / this.members.length;
    }
  }
}

/** As in torch: NaN stays NaN. */
const relu = (value: number): number => (value < 0 ? 0 : value);
