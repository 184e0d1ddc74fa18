// Memory and the two hot loops: in WebAssembly where the browser has it, otherwise in plain script.

import wasm from "kernel:wasm";

/** Pointers are byte addresses into `Arena.memory`. */
export interface Loops {
  affine(matrix: number, bias: number, x: number, out: number, rows: number, columns: number): void;
  transport(
    y: number, theta: number, coefficients: number, pairs: number, layers: number, groups: number, groupCount: number,
    kappa: number, gamma: number, clamp: number, length: number, scale: number,
  ): void;
}

export interface Block {
  at: number;
  values: Float64Array;
  /** numbers in use; `values` is padded to whole pairs */
  count: number;
  /** how many of them, at the end, are known inputs */
  inputs?: number;
}

const RESERVED = 4096; // the kernel's own constants
const PAGE = 65536;

/** Hands out float64 arrays that the loops can reach. The size is fixed at the start, so views never go stale. */
export class Arena {
  readonly memory: ArrayBuffer;
  private next = RESERVED;

  constructor(
    numbers: number,
    readonly loops: Loops,
    memory: WebAssembly.Memory | null,
  ) {
    this.memory = memory ? memory.buffer : new ArrayBuffer(RESERVED + 8 * numbers);
  }

  /** `count` zeros, padded to whole pairs. */
  block(count: number): Block {
    const at = this.next;
    this.next += 8 * even(count);
    return { at, values: new Float64Array(this.memory, at, even(count)), count };
  }
}

export const even = (count: number): number => count + (count % 2);

export function openArena(numbers: number, plain: boolean): { arena: Arena; simd: boolean } {
  if (!plain) {
    try {
      const memory = new WebAssembly.Memory({ initial: Math.ceil((RESERVED + 8 * numbers) / PAGE) + 1 });
      const module = new WebAssembly.Module(wasm as BufferSource);
      const instance = new WebAssembly.Instance(module, { env: { memory } });
      return { arena: new Arena(numbers, instance.exports as unknown as Loops, memory), simd: true };
    } catch {
      // No WebAssembly with vectors here: the plain loops below give the same numbers, slower.
    }
  }
  const loops = plainLoops(() => arena.memory);
  const arena: Arena = new Arena(numbers, loops, null);
  return { arena, simd: false };
}

function plainLoops(memory: () => ArrayBuffer): Loops {
  let values: Float64Array | null = null;
  const numbers = (): Float64Array => (values ??= new Float64Array(memory(), 0, Math.floor(memory().byteLength / 8)));
  return {
    affine(matrix, bias, x, out, rows, columns) {
      const m = numbers();
      let at = matrix >> 3;
      for (let row = 0; row < rows; row++) {
        let sum = 0;
        for (let column = 0; column < columns; column++) sum += m[at++] * m[(x >> 3) + column];
        m[(out >> 3) + row] = sum + m[(bias >> 3) + row];
      }
    },
    transport(y, theta, coefficients, pairs, layers, groups, groupCount, kappa, gamma, clamp, length, scale) {
      const m = numbers();
      let at = coefficients >> 3;
      for (let layer = 0; layer < layers; layer++) {
        for (let pair = 0; pair < pairs; pair++) {
          let width = 0;
          for (let lane = 0; lane < 2; lane++) {
            const ray = 2 * pair + lane;
            const angle = m[(theta >> 3) + ray];
            const position = m[(y >> 3) + ray] + length * angle;
            m[(y >> 3) + ray] = position;
            let field = 0;
            width = 0;
            for (let g = 0; g < groupCount; g++) {
              const anchor = m[(groups >> 3) + 2 * g];
              const count = m[(groups >> 3) + 2 * g + 1];
              const z = Math.min(Math.max((position - anchor) * kappa, -clamp), clamp);
              const power = 2 ** (gamma * z);
              let sum = 0;
              for (let k = count - 1; k >= 0; k--) sum = sum * power + m[at + 2 * (width + k) + lane];
              field += sum * 2 ** -(z * z);
              width += count;
            }
            m[(theta >> 3) + ray] = angle + scale * field;
          }
          at += 2 * width;
        }
      }
    },
  };
}
