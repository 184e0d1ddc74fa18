// How a row of equally spaced Gaussians is split so that the factored form of `kernel/kernel.ts` stays in range.

export interface Lattice {
  kappa: number;
  gamma: number;
  /** |z| is clamped here; behind it a lens is below 2^-144 of its coefficients. */
  clamp: number;
  groups: { first: number; count: number; anchor: number; weights: number[] }[];
}

// The largest distance of a centre from its group's anchor, in units of z. With |z| <= REACH + TAIL the largest power
// of E is 2^(2 * 18 * 30) / 2^(18^2) = 2^756, and the smallest bell 2^-900: both are normal numbers.
const REACH = 18;
const TAIL = 12;
const LARGEST_EXPONENT = 1000;

export function lattice(centers: number[], sigma: number): Lattice {
  const last = centers.length - 1;
  const spacing = last > 0 ? (centers[last] - centers[0]) / last : 0;
  const kappa = Math.sqrt(Math.LOG2E) / sigma;
  const gamma = 2 * kappa * spacing;
  let most = gamma > 0 ? Math.floor((2 * REACH) / gamma) + 1 : centers.length;
  if (gamma * (REACH + TAIL) > LARGEST_EXPONENT) most = 1;
  const parts = Math.ceil(centers.length / most);
  const groups = [];
  let first = 0;
  for (let part = 0; part < parts; part++) {
    const count = Math.ceil((centers.length - first) / (parts - part));
    const weights = Array.from({ length: count }, (_, i) => 2 ** -((kappa * spacing * i) ** 2));
    groups.push({ first, count, anchor: centers[first], weights });
    first += count;
  }
  const widest = Math.max(...groups.map((group) => kappa * spacing * (group.count - 1)));
  return { kappa, gamma: most === 1 ? 0 : gamma, clamp: widest + TAIL, groups };
}

/** phi(y) as the paper writes it, for the pictures. */
export function lensField(y: number, coefficients: ArrayLike<number>, at: number, centers: number[], sigma: number): number {
  let sum = 0;
  for (let k = 0; k < centers.length; k++) {
    const offset = (y - centers[k]) / sigma;
    sum += coefficients[at + k] * Math.exp(-offset * offset);
  }
  return sum;
}
