// Polynomials of features, and vector fields made of them and of functions of single variables; the true systems of presets are such fields, too.

import { unpack, type FlowPayload, type PolynomialPayload } from "../payload";

/** Weighted monomials; monomial j is feature table[j][1] times monomial table[j][0], or times 1 where that is -1. */
export class Polynomial {
  private readonly table: Float64Array;
  private readonly values: Float64Array;
  /** non-zero weights: row, monomial, weight */
  private readonly rows: Int32Array;
  private readonly places: Int32Array;
  private readonly weights: Float64Array;

  constructor(payload: { table: PolynomialPayload["arrays"]["table"]; weights: PolynomialPayload["arrays"]["weights"] }) {
    this.table = unpack(payload.table);
    const terms = this.table.length / 2;
    this.values = new Float64Array(terms);
    const dense = unpack(payload.weights);
    const used = Array.from(dense.keys()).filter((at) => dense[at] !== 0);
    this.rows = Int32Array.from(used, (at) => Math.floor(at / terms));
    this.places = Int32Array.from(used, (at) => at % terms);
    this.weights = Float64Array.from(used, (at) => dense[at]);
  }

  /** Add the polynomial of `features` to `out`. */
  add(features: Float64Array, out: Float64Array): void {
    const { table, values, rows, places, weights } = this;
    for (let j = 0; j < values.length; j++) {
      const parent = table[2 * j];
      const feature = features[table[2 * j + 1]];
      values[j] = parent < 0 ? feature : values[parent] * feature;
    }
    for (let k = 0; k < rows.length; k++) out[rows[k]] += weights[k] * values[places[k]];
  }
}

// Kinds of functions of a = slope * variable + shift.
const KINDS: ((a: number) => number)[] = [
  (a) => Math.exp(-0.5 * a * a),
  Math.sin,
  Math.abs,
  Math.tanh,
  Math.exp,
  (a) => 1 / a,
  (a) => Math.max(-1, Math.min(1, a)),
];

/** Functions of single variables. */
class Functions {
  readonly count: number;
  private readonly table: Float64Array;
  private readonly slopes: Float64Array;

  constructor(payload: FlowPayload["arrays"]) {
    this.table = payload.function_table ? unpack(payload.function_table) : new Float64Array(0);
    this.slopes = payload.function_arguments ? unpack(payload.function_arguments) : new Float64Array(0);
    this.count = this.table.length / 2;
  }

  /** Write the values into `variables`, from place `first` on. */
  put(variables: Float64Array, first: number): void {
    for (let k = 0; k < this.count; k++) {
      const a = this.slopes[2 * k] * variables[this.table[2 * k]] + this.slopes[2 * k + 1];
      variables[first + k] = KINDS[this.table[2 * k + 1]](a);
    }
  }
}

/** dz/dt = offset + polynomial([z, inputs, functions]) by the classical Runge-Kutta method; inputs are held. */
export class Flow {
  private readonly field: Polynomial;
  private readonly functions: Functions;
  private readonly offset: Float64Array;
  private readonly substeps: number;

  constructor(payload: FlowPayload) {
    this.field = new Polynomial(payload.arrays);
    this.functions = new Functions(payload.arrays);
    this.offset = unpack(payload.arrays.offset);
    this.substeps = payload.substeps;
  }

  /** The state after one step of data. */
  advance(start: Float64Array, inputs: Float64Array): Float64Array {
    const size = start.length;
    const h = 1 / this.substeps;
    let z = start;
    for (let step = 0; step < this.substeps; step++) {
      const k1 = this.slope(z, inputs);
      const k2 = this.slope(moved(z, k1, h / 2), inputs);
      const k3 = this.slope(moved(z, k2, h / 2), inputs);
      const k4 = this.slope(moved(z, k3, h), inputs);
      const next = new Float64Array(size);
      for (let i = 0; i < size; i++) next[i] = z[i] + (h / 6) * (k1[i] + 2 * k2[i] + 2 * k3[i] + k4[i]);
      z = next;
    }
    return z;
  }

  private slope(z: Float64Array, inputs: Float64Array): Float64Array {
    const out = this.offset.slice();
    const known = z.length + inputs.length;
    if (inputs.length || this.functions.count) {
      const joined = new Float64Array(known + this.functions.count);
      joined.set(z);
      joined.set(inputs, z.length);
      this.functions.put(joined, known);
      this.field.add(joined, out);
    } else this.field.add(z, out);
    return out;
  }
}

function moved(z: Float64Array, slope: Float64Array, by: number): Float64Array {
  const out = new Float64Array(z.length);
  for (let i = 0; i < z.length; i++) out[i] = z[i] + by * slope[i];
  return out;
}
