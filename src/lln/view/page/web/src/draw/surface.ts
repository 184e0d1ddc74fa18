// A canvas that knows its size in CSS pixels and stays sharp on every screen.

import { FONT } from "./theme";

export class Surface {
  readonly context: CanvasRenderingContext2D;
  /** Draw what is off the screen, too: for paper, and while there is nothing else to do. */
  static everything = false;
  width = 0;
  height = 0;
  private near = true;

  constructor(readonly canvas: HTMLCanvasElement, onChange: () => void) {
    const context = canvas.getContext("2d");
    if (!context) throw new Error("this browser has no canvas");
    this.context = context;
    new ResizeObserver(() => {
      this.width = 0;
      onChange();
    }).observe(canvas);
    new IntersectionObserver((entries) => {
      this.near = entries[entries.length - 1].isIntersecting;
      if (this.near) onChange();
    }).observe(canvas);
  }

  /** Whether drawing it would show. */
  get visible(): boolean {
    return this.near || Surface.everything;
  }

  /** Clean, scaled and ready to draw; false while the canvas is not on screen. */
  begin(): boolean {
    if (!this.visible) return false;
    if (this.width === 0) {
      const box = this.canvas.getBoundingClientRect();
      const dense = Math.min(window.devicePixelRatio || 1, 2);
      this.width = Math.round(box.width);
      this.height = Math.round(box.height);
      this.canvas.width = Math.round(this.width * dense);
      this.canvas.height = Math.round(this.height * dense);
    }
    if (this.width === 0 || this.height === 0) return false;
    const dense = this.canvas.width / this.width;
    this.context.setTransform(dense, 0, 0, dense, 0, 0);
    this.context.clearRect(0, 0, this.width, this.height);
    this.context.font = `12px ${FONT}`;
    this.context.lineJoin = "round";
    return true;
  }

  /** Where a pointer is, in CSS pixels of the canvas. */
  at(event: PointerEvent): [number, number] {
    const box = this.canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }
}

/**
 * Follow a pointer from press to release, whatever kind it is.
 *
 * `press` says whether the pointer took hold of something; then `move` is called until `release`.
 */
export function grab(
  surface: Surface,
  press: (x: number, y: number) => boolean,
  move: (x: number, y: number) => void,
  release: () => void,
): void {
  const { canvas } = surface;
  let held: number | null = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (held !== null || event.button > 0 || !press(...surface.at(event))) return;
    held = event.pointerId;
    canvas.setPointerCapture(held);
    event.preventDefault();
    canvas.focus({ preventScroll: true });
  });
  canvas.addEventListener("pointermove", (event) => {
    if (event.pointerId === held) move(...surface.at(event));
  });
  const end = (event: PointerEvent): void => {
    if (event.pointerId !== held) return;
    held = null;
    release();
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
}
