// The computation, off the page's main thread. A newer rollout replaces the one under way.

import { FieldModel } from "./field";
import type { Answer, Load, Look, Request, Roll } from "./messages";
import { Model } from "./model";
import type { Stepper } from "./blocks";

/** A rollout's first answer has so many steps: what a frame shows at least while a start is dragged. */
const FIRST = 50;
/** Later answers come after so long. */
const SLICE_MS = 8;
/** After this long the page hears something, however slow the model. */
const PATIENCE_MS = 400;
/** Behind a first answer the worker waits a moment: during a drag a newer start is on its way. */
const PAUSE_MS = 4;

interface Job {
  roll: Roll;
  window: Float64Array[];
  done: number;
}

let model: Stepper | null = null;
let job: Job | null = null;
let pause: ReturnType<typeof setTimeout> | null = null;
let woken = false;
const wake = new MessageChannel();
wake.port1.onmessage = () => {
  woken = false;
  pump();
};

self.onmessage = (event: MessageEvent<Request>) => {
  const request = event.data;
  if (request.kind === "load") {
    model = opened(request);
    answer({ kind: "ready", simd: model.simd });
  } else if (request.kind === "roll") {
    job = { roll: request, window: split(request.window), done: 0 };
    goOn();
  } else look(request);
};

/** Compute as soon as the messages that are waiting have been read. */
function goOn(): void {
  if (pause !== null) clearTimeout(pause);
  pause = null;
  if (!woken) wake.port2.postMessage(null);
  woken = true;
}

function opened({ frame, parts, plain }: Load): Stepper {
  if (frame.kind === "field") return new FieldModel(frame, parts.find((part) => part.kind === "field") ?? null, plain);
  return new Model(frame, parts.filter((part) => part.kind !== "field"), plain);
}

function pump(): void {
  if (!job || !model) return;
  const { roll } = job;
  const size = model.size;
  const first = job.done;
  const rows: Float64Array[] = [];
  const begin = performance.now();
  const going = (): boolean => {
    if (job === null || job.done >= roll.steps) return false;
    const passed = performance.now() - begin;
    return passed < SLICE_MS || (job.done < FIRST && passed < PATIENCE_MS);
  };
  while (going()) {
    const m = model.inputs;
    const inputs = roll.inputs && m ? roll.inputs.subarray(job.done * m, (job.done + 1) * m) : null;
    const next = model.step(job.window, inputs, roll.switches);
    job.window = [...job.window.slice(1), next];
    rows.push(next);
    job.done++;
  }
  const flat = new Float64Array(rows.length * size);
  rows.forEach((row, k) => flat.set(row, k * size));
  const done = job.done >= roll.steps;
  if (done) job = null;
  answer({ kind: "rows", id: roll.id, first, rows: flat, done }, [flat.buffer]);
  if (done) return;
  if (first === 0) pause = setTimeout(goOn, PAUSE_MS);
  else goOn();
}

function look(request: Look): void {
  const trace = model?.trace(split(request.window), request.inputs, request.switches, request.focus) ?? null;
  answer({ kind: "seen", id: request.id, trace }, trace ? [trace.y.buffer, trace.theta.buffer] : []);
}

function split(window: Float64Array): Float64Array[] {
  const size = model ? model.size : window.length;
  return Array.from({ length: window.length / size }, (_, k) => window.slice(k * size, (k + 1) * size));
}

function answer(message: Answer, moved: Transferable[] = []): void {
  (self as unknown as { postMessage(message: Answer, moved: Transferable[]): void }).postMessage(message, moved);
}
