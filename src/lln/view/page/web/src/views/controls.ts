// Play, scrub, speed, switches, start: everything that is not a picture.

import { short } from "../draw/plot";
import type { Switches } from "../engine/parts";
import type { State } from "../state";
import { element, fillSelect, make, named, type View } from "./view";

const STEPS_PER_SECOND = 60;
const FEW = 8;
const MOST_LISTED = 2000;

export class Controls implements View {
  private before = 0;
  private readonly scrub = element<HTMLInputElement>("scrub");
  private readonly play = element<HTMLButtonElement>("play");

  constructor(private readonly state: State) {
    this.scrub.max = String(state.steps);
    this.scrub.addEventListener("input", () => this.seek(Number(this.scrub.value)));
    this.play.addEventListener("click", () => this.toggle());
    element("back").addEventListener("click", () => this.seek(Math.ceil(state.now) - 1));
    element("forward").addEventListener("click", () => this.seek(Math.floor(state.now) + 1));
    element<HTMLSelectElement>("speed").addEventListener("change", (event) => {
      state.speed = Number((event.target as HTMLSelectElement).value);
    });
    element("reset").addEventListener("click", () => state.reset());
    document.addEventListener("keydown", (event) => this.key(event));
    this.switches();
    this.starts();
  }

  draw(): void {
    const { state } = this;
    const { payload } = state;
    const step = Math.floor(state.now);
    this.scrub.value = String(step);
    const time = `${short(+(state.startTime + step * payload.dt).toPrecision(6))}${payload.timeUnit ? ` ${payload.timeUnit}` : ""}`;
    this.scrub.setAttribute("aria-valuetext", `step ${step} of ${state.steps}, ${payload.timeName} ${time}`);
    write("clock", `${payload.timeName} ${time} · step ${step} of ${state.steps}`);
    this.play.setAttribute("aria-pressed", String(state.playing));
    write("play-word", state.playing ? "Pause" : "Play");
    element<HTMLButtonElement>("reset").disabled = !state.moved;
    if (state.dragging) write("status", "The start is being moved, and its future follows.");
    else if (state.finished) write("status", this.status());
  }

  /** One tick of the clock while playing. */
  tick(at: number): boolean {
    const { state } = this;
    const passed = this.before ? Math.min(at - this.before, 100) : 0;
    this.before = state.playing ? at : 0;
    if (!state.playing) return false;
    const next = state.now + (passed / 1000) * STEPS_PER_SECOND * state.speed;
    if (next >= state.steps) {
      state.playing = false;
      this.before = 0;
    }
    state.seek(next);
    return true;
  }

  private status(): string {
    const { state } = this;
    const { payload } = state;
    const unit = payload.timeUnit ? ` ${payload.timeUnit}` : "";
    const parts: string[] = [];
    if (state.hasTruth && state.valid !== null) {
      const whole = state.valid >= state.known;
      const span = `${short(state.valid * payload.dt)}${unit} (${state.valid} of ${state.known} steps)`;
      if (state.moved && whole) parts.push("The start has been moved; its future stays near the original truth throughout.");
      else if (state.moved && state.limit === null) parts.push("The start has been moved away from the truth, which stays as it was.");
      else if (state.moved) parts.push(`The start has been moved; its future leaves the original truth after ${span}.`);
      else parts.push(whole ? `The prediction is valid throughout: ${span}.` : `The prediction is valid for ${span}.`);
      parts.push(`The last error is ${short(state.errors[state.known])} standard deviations.`);
    }
    if (state.diverged !== null) parts.push(`It diverged at step ${state.diverged}.`);
    else if (state.left !== null) parts.push(`It left the region that training covered at step ${state.left}.`);
    return parts.join(" ") || `${state.steps} steps predicted.`;
  }

  private seek(step: number): void {
    this.state.playing = false;
    this.state.seek(step);
  }

  private toggle(): void {
    const { state } = this;
    state.playing = !state.playing;
    if (state.playing && state.now >= state.steps) state.now = 0;
    state.changed();
  }

  private key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.matches("input, select") || (event.key === " " && target !== document.body)) return;
    if (event.key === " " || event.key === "k") this.toggle();
    else if (event.key === ",") this.seek(Math.ceil(this.state.now) - 1);
    else if (event.key === ".") this.seek(Math.floor(this.state.now) + 1);
    else return;
    event.preventDefault();
  }

  /** Parts of the network that can be taken out while one looks. */
  private switches(): void {
    const { state } = this;
    const { network } = state.payload;
    const none = !network || network.kind === "perceptron";
    element("switches").hidden = none;
    if (none) return;
    const missing: Record<keyof Switches, boolean> = {
      lens: network.scale === 0,
      angle: network.kind === "lens" ? !network.arrays.angle_weight : !network.angle,
      propagation: network.length === 0,
    };
    for (const part of ["lens", "angle", "propagation"] as const) {
      const box = element<HTMLInputElement>(`switch-${part}`);
      box.checked = !missing[part];
      box.disabled = missing[part];
      box.addEventListener("change", () => {
        state.switches[part] = box.checked;
        state.refresh();
        state.changed();
      });
    }
  }

  /** Where the rollout starts: which data, which row, and the numbers themselves. */
  private starts(): void {
    const { state } = this;
    const select = element<HTMLSelectElement>("which-series");
    const row = element<HTMLInputElement>("start-row");
    fillSelect(select, state.series.map((one) => one.name), 0);
    element("series-field").hidden = state.series.length < 2;
    element("row-of-start").hidden = !state.hasTruth;
    const bounds = (): void => {
      row.min = String(state.history - 1);
      row.max = String(Math.max(state.history - 1, state.data.rows - 2));
      row.value = String(state.row);
    };
    bounds();
    select.addEventListener("change", () => {
      state.choose(Number(select.value), state.history - 1);
      bounds();
    });
    row.addEventListener("change", () => {
      state.choose(state.chosen, Number(row.value));
      bounds();
    });
    if (state.n <= FEW) for (let i = 0; i < state.n; i++) this.number(i);
    else this.anyNumber();
  }

  private number(i: number): void {
    const { state } = this;
    const label = make("label", "", "field");
    const input = make("input");
    input.type = "number";
    input.step = "any";
    label.append(make("span", `Start of ${named(state.payload.names[i], state.payload.units[i])}`), input);
    element("start-numbers").append(label);
    this.bind(input, () => i);
  }

  private anyNumber(): void {
    const { state } = this;
    const which = make("label", "", "field");
    const select = make("select");
    fillSelect(select, state.payload.names.slice(0, MOST_LISTED), 0);
    which.append(make("span", "Coordinate"), select);
    const label = make("label", "", "field");
    const input = make("input");
    input.type = "number";
    input.step = "any";
    label.append(make("span", "Its start"), input);
    element("start-numbers").append(which, label);
    this.bind(input, () => Number(select.value));
    select.addEventListener("change", () => state.changed());
  }

  private bind(input: HTMLInputElement, which: () => number): void {
    const { state } = this;
    input.addEventListener("change", () => {
      const value = Number(input.value);
      if (!Number.isFinite(value) || input.value === "") return;
      state.shift(which(), value - state.predicted(0, which()));
      state.refresh();
    });
    state.onChange(() => {
      const text = String(+state.predicted(0, which()).toPrecision(7));
      if (document.activeElement !== input && input.value !== text) input.value = text;
    });
  }
}

function write(id: string, text: string): void {
  const target = element(id);
  if (target.textContent !== text) target.textContent = text;
}
