// The figures' two diverging colour maps (matplotlib's RdBu_r for fields, PuOr_r for errors), 33 colours each.

const FIELD =
  "0530610e41791752901f63a82a71b23480b93f8ec0529dc86bacd184bcd99bc9e0aed3e6c2ddecd4e6f1e0ecf3ecf2f5f7f6f6f9eee7fbe5d8fddcc9fbccb4f8bb9ef5aa89ee9677e48066db6b55d05548c53e3dba2832ab162a930e267c072267001f";
const ERROR =
  "2d004b390c5e4518715225845f3a916d529c7b6aa88a7eb39990bfa9a1cbb7b1d5c3c0ddcfcfe5dadcece4e5f0eeeef3f7f7f6f9efe1fce8cdfee1b9fed59ffdc885fdbc6bf7ac52ee9b39e58a20d97b12cb6e0dbd6109ae55069e4c078d43077f3b08";
export const LEVELS = 256;

/** Packed pixels (little-endian RGBA) for LEVELS values from low to high. */
export const fieldColours = ramp(FIELD);
export const errorColours = ramp(ERROR);

function ramp(hex: string): Uint32Array {
  const stops = hex.length / 6;
  const channel = (stop: number, c: number): number => parseInt(hex.slice(6 * stop + 2 * c, 6 * stop + 2 * c + 2), 16);
  return Uint32Array.from({ length: LEVELS }, (_, level) => {
    const at = (level / (LEVELS - 1)) * (stops - 1);
    const low = Math.min(Math.floor(at), stops - 2);
    const mix = (c: number): number => Math.round(channel(low, c) + (at - low) * (channel(low + 1, c) - channel(low, c)));
    return ((255 << 24) | (mix(2) << 16) | (mix(1) << 8) | mix(0)) >>> 0;
  });
}

/** The colour of `value` on a scale from -most to most. */
export function shade(map: Uint32Array, value: number, most: number): number {
  if (!Number.isFinite(value)) return 0xff808080;
  const level = Math.round((value / most / 2 + 0.5) * (LEVELS - 1));
  return map[Math.min(Math.max(level, 0), LEVELS - 1)];
}

export function css(pixel: number): string {
  return `rgb(${pixel & 255} ${(pixel >> 8) & 255} ${(pixel >> 16) & 255})`;
}
