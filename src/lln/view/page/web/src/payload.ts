// What `lln page` writes into the page, and how arrays are read from it.

import type { Side } from "./engine/stencil";

export interface Packed {
  dtype: "float32" | "float64" | "uint8" | "uint16";
  shape: number[];
  data: string;
  /** Quantised values are low + step * code, with one entry for each equal group of columns. */
  low?: number[];
  step?: number[];
}

type Arrays<Names extends string> = Record<Names, Packed>;

export interface LinearPayload {
  kind: "linear";
  arrays: Arrays<"matrix" | "offset">;
}

export interface PolynomialPayload {
  kind: "polynomial";
  arrays: Arrays<"table" | "weights">;
}

/** A vector field, advanced by the classical Runge-Kutta method; one step of data is the unit of time. */
export interface FlowPayload {
  kind: "flow";
  substeps: number;
  arrays: Arrays<"table" | "weights" | "offset"> & Partial<Arrays<"function_table" | "function_arguments">>;
}

export interface LensPayload {
  kind: "lens";
  width: number;
  depth: number;
  basis: number;
  members: number;
  length: number;
  scale: number;
  sigma: number;
  centers: number[];
  arrays: Arrays<"position_weight" | "position_bias" | "coefficients" | "readout_weight" | "readout_bias" | "gain"> &
    Partial<Arrays<"angle_weight" | "angle_bias">>;
}

export interface PerceptronPayload {
  kind: "perceptron";
  width: number;
  depth: number;
  /** 1 where a layer adds to the state, 0 where it replaces it. */
  keep: number;
  gain: Packed;
  members: Arrays<"embed_weight" | "embed_bias" | "hidden_weight" | "hidden_bias" | "gain" | "readout_weight" | "readout_bias">[];
}

type BlockArrays = Arrays<"position_weight" | "position_bias" | "coefficients" | "read_weight" | "read_bias"> &
  Partial<Arrays<"angle_weight" | "angle_bias">>;

/** A network that all points of a grid share. */
export interface FieldNetworkPayload {
  kind: "field";
  width: number;
  depth: number;
  basis: number;
  length: number;
  scale: number;
  sigma: number;
  centers: number[];
  kernel: number[];
  boundary: [Side, Side][];
  hidden: number;
  outputs: number;
  /** channels of a fixed field */
  fixed: number;
  angle: boolean;
  members: { blocks: BlockArrays[] }[];
}

/** How features are made and how an increment becomes a state. */
export interface FramePayload {
  kind: "plain";
  size: number;
  history: number;
  inputs: number;
  /** low and high bound the state; with log_floor, mean and scale are those of logarithms of what is at least that */
  arrays: Arrays<"mean" | "scale" | "difference_scale" | "input_mean" | "input_scale"> &
    Partial<Arrays<"low" | "high" | "log_floor">>;
}

export interface FieldFramePayload {
  kind: "field";
  size: number;
  history: number;
  inputs: number;
  space: number[];
  channels: number;
  boundary: [Side, Side][];
  kernel: number[];
  conserve: "none" | "mean" | "flux";
  arrays: Arrays<
    "channel_mean" | "channel_scale" | "difference_scale" | "input_mean" | "input_scale" | "matrix" | "offset" | "gain"
  > &
    Partial<Arrays<"static" | "polynomial_table" | "polynomial_weights" | "low" | "high">>;
}

export type AnyFrame = FramePayload | FieldFramePayload;
export type PartPayload = LinearPayload | PolynomialPayload | FlowPayload | LensPayload | PerceptronPayload;
export type AnyPart = PartPayload | FieldNetworkPayload;

/** A function of slope * coordinate + shift. */
export interface Named {
  kind: "gauss" | "sin" | "cos" | "abs" | "tanh" | "exp" | "reciprocal" | "clip";
  coordinate: number;
  slope: number;
  shift: number;
}

/** One term of an equation: its weight times a power of each coordinate, and of each function behind them. */
export interface Term {
  weight: number;
  powers: number[];
}

/** The equations of a small model without networks: derivatives in time, or changes over one step. */
export interface Equations {
  kind: "flow" | "step";
  /** the terms of each coordinate, the largest first */
  rows: Term[][];
  functions: Named[];
}

export type RowKind = "unseen" | "chose" | "trained";

export interface SeriesPayload {
  name: string;
  /** time of its first row */
  start: number;
  /** number of its first row in the file */
  firstRow: number;
  states: Packed;
  /** the first rows without rounding, where `states` is quantised */
  exact: Packed | null;
  inputs: Packed | null;
  /** places in `states` of values that were filled in: the model reads them, but they are no truth */
  filled: number[];
  /** what the model did with rows, [first, last + 1) counted from the first row here */
  marks: [first: number, last: number, kind: RowKind][];
  /** where a rollout starts at first */
  begin: number;
}

export interface Axis {
  name: string;
  unit: string;
  values: number[];
}

export interface Payload {
  format: 2;
  title: string;
  subtitle: string;
  made: string;
  steps: number;
  dt: number;
  timeName: string;
  timeUnit: string;
  /** the date from which times count; null for plain numbers */
  origin: string | null;
  /** dates of the steps of a calendar, the first of them at time `first`; null for steps of equal length */
  calendar: { first: number; dates: string[] } | null;
  /** largest Lyapunov exponent, per unit of time; null if unknown or not above zero */
  lyapunov: number | null;
  /** sentences on what the page leaves out or rounds */
  notes: string[];
  /** the true system, where its equations are known */
  system: { name: string; flow: FlowPayload } | null;
  /** null where the model has networks, a past, inputs or many coordinates */
  equations: Equations | null;
  names: string[];
  units: string[];
  inputNames: string[];
  /** Shape of the grid; empty for plain coordinates. */
  space: number[];
  channels: string[];
  axes: Axis[];
  threshold: number;
  series: SeriesPayload[];
  /** Where training has been, in the units of the data; null if unknown. Angles that turn on have no bounds. */
  region: { low: (number | null)[]; high: (number | null)[] } | null;
  numbers: { title: string; rows: [string, string][] }[];
  /** what counts as one in each coordinate */
  scale: Packed;
  frame: AnyFrame;
  parts: AnyPart[];
}

/** The part whose rays can be looked at. */
export function lensOf(payload: Payload): LensPayload | FieldNetworkPayload | null {
  return payload.parts.find((part) => part.kind === "lens" || part.kind === "field") ?? null;
}

/** The numbers of a packed array, as float64. */
export function unpack(packed: Packed): Float64Array {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  if (packed.dtype === "float64") return new Float64Array(bytes.buffer);
  if (packed.dtype === "float32") return Float64Array.from(new Float32Array(bytes.buffer));
  const codes = packed.dtype === "uint8" ? bytes : new Uint16Array(bytes.buffer);
  const { low = [0], step = [1] } = packed;
  const columns = packed.shape[packed.shape.length - 1];
  const group = columns / low.length;
  return Float64Array.from(codes, (code, at) => {
    const k = Math.floor((at % columns) / group);
    return low[k] + step[k] * code;
  });
}
