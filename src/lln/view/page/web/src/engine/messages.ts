// What the page and its worker say to each other.

import type { AnyFrame, AnyPart } from "../payload";
import type { Focus, Switches, Trace } from "./blocks";

export interface Load {
  kind: "load";
  frame: AnyFrame;
  parts: AnyPart[];
  plain: boolean;
}

export interface Roll {
  kind: "roll";
  id: number;
  /** history rows, oldest first */
  window: Float64Array;
  /** one row a step; null without inputs */
  inputs: Float64Array | null;
  steps: number;
  switches: Switches;
}

export interface Look {
  kind: "look";
  id: number;
  window: Float64Array;
  inputs: Float64Array | null;
  switches: Switches;
  focus: Focus;
}

export type Request = Load | Roll | Look;

export interface Ready {
  kind: "ready";
  simd: boolean;
}

export interface Rows {
  kind: "rows";
  id: number;
  /** number of steps before these rows */
  first: number;
  rows: Float64Array;
  done: boolean;
}

export interface Seen {
  kind: "seen";
  id: number;
  trace: Trace | null;
}

export type Answer = Ready | Rows | Seen;
