// The hot loops of the page in WebAssembly: two float64 rays at a time. Compiled by AssemblyScript at build time.
//
// Equally spaced control points c_i = c_0 + i d let one lens cost two exponentials instead of K. With
// z = kappa (y - c_0), kappa = sqrt(log2 e) / sigma and E = 2^(gamma z), gamma = 2 kappa d:
//
//   exp(-((y - c_i) / sigma)^2) = 2^(-z^2) * E^i * w_i,   w_i = 2^(-(kappa i d)^2),
//
// so phi(y) = 2^(-z^2) * Horner(E) over coefficients that carry their w_i. `src/engine/lattice.ts` splits wide grids
// into groups whose factors stay in range, and says where z may be clamped.

// 2^r on [-1/2, 1/2], interpolated at Chebyshev points, the highest power first: relative error 2e-16, as lenses solved in
// float64 need it. Then a number whose sum with a small integer holds that integer and the exponent's bias in its low
// bits. Each twice, and in memory: as immediates they would cost three instructions each.
const TABLE: usize = memory.data<f64>([
  4.4558179083360645e-10, 4.4558179083360645e-10,
  7.074194297288521e-09, 7.074194297288521e-09,
  1.0178057087733941e-07, 1.0178057087733941e-07,
  1.3215432535912375e-06, 1.3215432535912375e-06,
  1.5252733841556773e-05, 1.5252733841556773e-05,
  0.00015403530463724353, 0.00015403530463724353,
  0.001333355814640647, 0.001333355814640647,
  0.009618129107587256, 0.009618129107587256,
  0.055504108664821625, 0.055504108664821625,
  0.24022650695910158, 0.24022650695910158,
  0.6931471805599453, 0.6931471805599453,
  1.0, 1.0,
  6755399441056767.0, 6755399441056767.0,
], 16);
const BIAS: usize = 192;

/** 2^whole for integers of at most 1022 in size. */
// @ts-ignore: decorator
@inline
function power2(whole: v128): v128 {
  return i64x2.shl(f64x2.add(whole, v128.load(TABLE, BIAS)), 52);
}

/** One step of Horner's rule. */
// @ts-ignore: decorator
@inline
function step(sum: v128, x: v128, next: v128): v128 {
  return f64x2.add(f64x2.mul(sum, x), next);
}

/** The polynomial in `power` with `count` coefficients at `at`, even and odd powers in chains of their own. */
// @ts-ignore: decorator
@inline
function horner(at: usize, count: i32, power: v128): v128 {
  let k = <usize>(count - 1) << 4;
  let high = v128.load(at + k);
  if (count == 1) return high;
  const square = f64x2.mul(power, power);
  k -= 16;
  let low = v128.load(at + k);
  while (k >= 32) {
    k -= 32;
    high = step(high, square, v128.load(at + k, 16));
    low = step(low, square, v128.load(at + k));
  }
  const sum = step(high, power, low);
  return k > 0 ? step(sum, power, v128.load(at)) : sum;
}

/**
 * Carry rays through `layers` layers, in place: y <- y + length theta, theta <- theta + scale phi(y).
 *
 * Coefficients lie as [layer][pair of rays][k][2], times w_i; groups as [anchor, count] in float64.
 */
export function transport(
  y: usize, theta: usize, coefficients: usize, pairs: i32, layers: i32, groups: usize, groupCount: i32,
  kappa: f64, gamma: f64, clamp: f64, length: f64, scale: f64,
): void {
  const edge = f64x2.splat(clamp);
  const minusEdge = f64x2.splat(-clamp);
  let at = coefficients;
  for (let layer = 0; layer < layers; ++layer) {
    for (let pair = 0; pair < pairs; ++pair) {
      const slot = <usize>pair << 4;
      const angle = v128.load(theta + slot);
      const position = f64x2.add(v128.load(y + slot), f64x2.mul(angle, f64x2.splat(length)));
      v128.store(y + slot, position);
      let field = f64x2.splat(0.0);
      for (let g = 0; g < groupCount; ++g) {
        const group = groups + (<usize>g << 4);
        const count = <i32>load<f64>(group + 8);
        const offset = f64x2.mul(f64x2.sub(position, f64x2.splat(load<f64>(group))), f64x2.splat(kappa));
        // In this order a NaN stays a NaN.
        const z = f64x2.pmax(f64x2.pmin(offset, edge), minusEdge);
        const x = f64x2.neg(f64x2.mul(z, z));
        const e = f64x2.mul(z, f64x2.splat(gamma));
        const wholeX = f64x2.nearest(x);
        const wholeE = f64x2.nearest(e);
        const r = f64x2.sub(x, wholeX);
        const s = f64x2.sub(e, wholeE);
        // Both exponentials side by side, so that each constant is loaded once.
        let c = v128.load(TABLE);
        let bell = c;
        let power = c;
        c = v128.load(TABLE, 16);
        bell = step(bell, r, c);
        power = step(power, s, c);
        c = v128.load(TABLE, 32);
        bell = step(bell, r, c);
        power = step(power, s, c);
        c = v128.load(TABLE, 48);
        bell = step(bell, r, c);
        power = step(power, s, c);
        c = v128.load(TABLE, 64);
        bell = step(bell, r, c);
        power = step(power, s, c);
        c = v128.load(TABLE, 80);
        bell = step(bell, r, c);
        power = step(power, s, c);
        c = v128.load(TABLE, 96);
        bell = step(bell, r, c);
        power = step(power, s, c);
        c = v128.load(TABLE, 112);
        bell = step(bell, r, c);
        power = step(power, s, c);
        c = v128.load(TABLE, 128);
        bell = step(bell, r, c);
        power = step(power, s, c);
        c = v128.load(TABLE, 144);
        bell = step(bell, r, c);
        power = step(power, s, c);
        c = v128.load(TABLE, 160);
        bell = step(bell, r, c);
        power = step(power, s, c);
        c = v128.load(TABLE, 176);
        bell = step(bell, r, c);
        power = step(power, s, c);
        power = f64x2.mul(power, power2(wholeE));
        bell = f64x2.mul(bell, power2(wholeX));
        field = f64x2.add(field, f64x2.mul(horner(at, count, power), bell));
        at += <usize>count << 4;
      }
      v128.store(theta + slot, f64x2.add(angle, f64x2.mul(field, f64x2.splat(scale))));
    }
  }
}

/** out = matrix x + bias; rows of `columns` numbers each, an even count. */
export function affine(matrix: usize, bias: usize, x: usize, out: usize, rows: i32, columns: i32): void {
  let at = matrix;
  for (let row = 0; row < rows; ++row) {
    let a = f64x2.splat(0.0);
    let b = f64x2.splat(0.0);
    let column = 0;
    for (; column + 4 <= columns; column += 4) {
      const slot = <usize>column << 3;
      a = f64x2.add(a, f64x2.mul(v128.load(at + slot), v128.load(x + slot)));
      b = f64x2.add(b, f64x2.mul(v128.load(at + slot, 16), v128.load(x + slot, 16)));
    }
    if (column < columns) {
      const slot = <usize>column << 3;
      a = f64x2.add(a, f64x2.mul(v128.load(at + slot), v128.load(x + slot)));
    }
    const sum = f64x2.add(a, b);
    const slot = <usize>row << 3;
    store<f64>(out + slot, f64x2.extract_lane(sum, 0) + f64x2.extract_lane(sum, 1) + load<f64>(bias + slot));
    at += <usize>columns << 3;
  }
}
