// What `lln page` writes into the page, and how it becomes arrays again.

import type { Side } from "./engine/stencil";

export interface Packed {
  dtype: "float32" | "float64";
  shape: number[];
  data: string;
}

type Arrays<Names extends string> = Record<Names, Packed>;

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
  arrays: Arrays<"position_weight" | "position_bias" | "coefficients" | "readout_weight" | "readout_bias"> &
    Partial<Arrays<"angle_weight" | "angle_bias">>;
}

export interface PerceptronPayload {
  kind: "perceptron";
  width: number;
  depth: number;
  /** 1 where a layer adds to the state, 0 where it replaces it. */
  keep: number;
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

export interface FramePayload {
  kind: "plain";
  size: number;
  history: number;
  inputs: number;
  arrays: Arrays<
    "mean" | "scale" | "difference_scale" | "input_mean" | "input_scale" | "matrix" | "offset" | "gain"
  >;
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
    Partial<Arrays<"static">>;
}

export type AnyFrame = FramePayload | FieldFramePayload;
export type AnyNetwork = LensPayload | PerceptronPayload | FieldNetworkPayload;

export interface SeriesPayload {
  name: string;
  start: number;
  states: Packed;
  inputs: Packed | null;
}

export interface Axis {
  name: string;
  unit: string;
  values: number[];
}

export interface Payload {
  format: 1;
  title: string;
  subtitle: string;
  made: string;
  steps: number;
  dt: number;
  timeName: string;
  timeUnit: string;
  names: string[];
  units: string[];
  inputNames: string[];
  /** Shape of the grid; empty for plain coordinates. */
  space: number[];
  channels: string[];
  axes: Axis[];
  threshold: number;
  series: SeriesPayload[];
  /** Where training has been, in the units of the data; null if unknown. */
  region: { low: number[]; high: number[] } | null;
  numbers: { title: string; rows: [string, string][] }[];
  /** what counts as one in each coordinate */
  scale: Packed;
  frame: AnyFrame;
  network: AnyNetwork | null;
}

/** The numbers of a packed array, as float64. */
export function unpack(packed: Packed): Float64Array {
  const text = atob(packed.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  if (packed.dtype === "float64") return new Float64Array(bytes.buffer);
  return Float64Array.from(new Float32Array(bytes.buffer));
}
