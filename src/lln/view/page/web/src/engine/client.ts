// The page's side of the worker. The newest request counts; answers to older ones are dropped.

import source from "worker:source";
import type { Payload } from "../payload";
import type { Answer, Request, Rows } from "./messages";
import type { Focus, Switches, Trace } from "./blocks";

export class Engine {
  /** Whether the fast loops serve; known once `ready` resolves. */
  simd = false;
  readonly ready: Promise<void>;
  private readonly worker: Worker;
  private last = 0;
  private readonly rolls = new Map<number, (rows: Rows) => void>();
  private readonly looks = new Map<number, (trace: Trace | null) => void>();
  private current = 0;

  constructor(payload: Payload, plain: boolean) {
    // A page opened from disk may not load a second file, so the worker comes out of a blob.
    const address = URL.createObjectURL(new Blob([source], { type: "text/javascript" }));
    this.worker = new Worker(address);
    this.ready = new Promise((resolve, reject) => {
      this.worker.onerror = (event) => reject(new Error(event.message));
      this.worker.onmessage = (event: MessageEvent<Answer>) => {
        const answer = event.data;
        if (answer.kind === "ready") {
          this.simd = answer.simd;
          URL.revokeObjectURL(address);
          resolve();
        } else if (answer.kind === "rows") {
          this.rolls.get(answer.id)?.(answer);
          if (answer.done) this.rolls.delete(answer.id);
        } else {
          this.looks.get(answer.id)?.(answer.trace);
          this.looks.delete(answer.id);
        }
      };
    });
    this.send({ kind: "load", frame: payload.frame, parts: payload.parts, plain });
  }

  /** Start a rollout; `heard` gets its rows in order, until a newer rollout takes over. */
  roll(window: Float64Array, inputs: Float64Array | null, steps: number, switches: Switches, heard: (rows: Rows) => void): void {
    this.rolls.delete(this.current);
    this.current = ++this.last;
    this.rolls.set(this.current, heard);
    this.send({ kind: "roll", id: this.current, window, inputs, steps, switches });
  }

  look(window: Float64Array, inputs: Float64Array | null, switches: Switches, focus: Focus): Promise<Trace | null> {
    const id = ++this.last;
    return new Promise((resolve) => {
      this.looks.set(id, resolve);
      this.send({ kind: "look", id, window, inputs, switches, focus });
    });
  }

  private send(request: Request): void {
    this.worker.postMessage(request);
  }
}
