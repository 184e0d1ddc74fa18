// Play, scrub, speed, switches, start: all controls that are not pictures.

import { short } from "../draw/plot";
import type { Switches } from "../engine/blocks";
import { lensOf } from "../payload";
import type { State } from "../state";
import { counted, element, fillSelect, make, moment, named, span, type View } from "./view";

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
    const time = moment(payload, state.startTime + step * payload.dt);
    this.scrub.setAttribute("aria-valuetext", `step ${step} of ${state.steps}, ${payload.timeName} ${time}`);
    write("clock", `${payload.timeName} ${time} · step ${step} of ${state.steps}`);
    this.play.setAttribute("aria-pressed", String(state.playing));
    write("play-word", state.playing ? "Pause" : "Play");
    element<HTMLButtonElement>("reset").disabled = !state.moved;
    const words = { data: "truth", none: "data before the start" };
    write("truth-word", state.reference.kind in words ? words[state.reference.kind as keyof typeof words] : state.reference.name);
    if (state.dragging) write("status", "The start is being moved; the rollout follows.");
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
    const { payload, reference } = state;
    const parts: string[] = [];
    if (state.valid !== null && state.known > 0) {
      const whole = state.valid >= state.known;
      const steps = `${state.valid.toLocaleString("en")} of ${counted(state.known)}`;
      const time = `${span(payload, state.valid)} (${steps})`;
      const against: Record<string, string> = {
        data: "The forecast", simulation: "The start was moved; against the simulated truth the forecast",
      };
      if (reference.kind === "analog") {
        parts.push(`The start was moved; its true future is unknown. Shown is the ${reference.name}, ${deviations(reference.distance)} away.`);
      } else {
        parts.push(whole ? `${against[reference.kind]} is valid throughout: ${time}.` : `${against[reference.kind]} is valid for ${time}.`);
        parts.push(`The last error is ${deviations(state.errors[state.known])}; that of persistence is ${short(+state.baseline[state.known].toPrecision(2))}.`);
        if (state.known < state.steps) parts.push(`The truth ends after ${counted(state.known)}.`);
      }
    } else if (state.moved) parts.push("The start was moved.");
    if (payload.frame.inputs && state.known < state.steps) {
      parts.push(state.known ? "After the data, known inputs keep their last values." : "Known inputs keep one value.");
    }
    if (state.diverged !== null) parts.push(`The forecast diverged at step ${state.diverged}.`);
    else if (state.left !== null) parts.push(`The forecast left the region that training covered at step ${state.left}.`);
    return parts.join(" ") || `${counted(state.steps)} of forecast.`;
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
    const network = lensOf(state.payload);
    element("switches").hidden = !network;
    if (!network) return;
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
    const slider = element<HTMLInputElement>("start-slider");
    const row = element<HTMLInputElement>("start-row");
    fillSelect(select, state.series.map((one) => one.name), 0);
    element("series-field").hidden = state.series.length < 2;
    element("start-bar").hidden = !state.hasTruth;
    const show = (): void => {
      const { firstRow } = state.data;
      const [first, last] = state.startRows.map((k) => firstRow + k);
      for (const input of [slider, row]) {
        input.min = String(first);
        input.max = String(last);
        input.value = String(firstRow + state.row);
      }
      this.markRows(first, last);
      this.sayRow();
    };
    const choose = (series: number, at: number): void => {
      if (!state.choose(series, at)) {
        const [first, last] = state.startRows.map((k) => (state.data.firstRow + k).toLocaleString("en"));
        row.setCustomValidity(`rows ${first} to ${last} can be a start`);
        row.setAttribute("aria-invalid", "true");
        write("start-note", `Row ${row.value || "?"} cannot be a start: rows ${first} to ${last} can. The start stays at row ${(state.data.firstRow + state.row).toLocaleString("en")}.`);
        return;
      }
      row.setCustomValidity("");
      row.removeAttribute("aria-invalid");
      state.now = 0;
      show();
    };
    show();
    select.addEventListener("change", () => choose(Number(select.value), state.series[Number(select.value)].begin));
    slider.addEventListener("input", () => choose(state.chosen, Number(slider.value) - state.data.firstRow));
    row.addEventListener("change", () => choose(state.chosen, row.value === "" ? NaN : Number(row.value) - state.data.firstRow));
    if (state.n <= FEW) for (let i = 0; i < state.n; i++) this.number(i);
    else this.anyNumber();
  }

  /** Colour the slider's track by what the model did with each row. */
  private markRows(first: number, last: number): void {
    const { state } = this;
    const { marks, firstRow } = state.data;
    const at = (row: number): string => `${(100 * Math.min(Math.max((row + firstRow - first) / Math.max(last - first, 1), 0), 1)).toFixed(2)}%`;
    const stops = marks.map(([a, b, kind]) => `var(--${kind}) ${at(a)} ${at(b)}`);
    element("start-track").style.background = stops.length ? `linear-gradient(to right, ${stops.join(", ")})` : "none";
    const kinds = new Set(marks.map(([, , kind]) => kind));
    for (const kind of ["unseen", "chose", "trained"] as const) element(`rows-${kind}`).hidden = !kinds.has(kind);
  }

  private sayRow(): void {
    const { state } = this;
    const kind = state.kindOf(Math.min(state.row + 1, state.data.rows - 1));
    const words = { unseen: "not seen by the model", chose: "helped to choose the model", trained: "trained the model" };
    const what = kind === null ? "" : `: the rows after it ${kind === "unseen" ? `were ${words.unseen}` : words[kind]}`;
    write("start-note", `Row ${(state.data.firstRow + state.row).toLocaleString("en")}, counted from 0${what}.`);
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

/** A distance in words. */
function deviations(value: number): string {
  const text = short(+value.toPrecision(2));
  return `${text} standard ${text === "1" ? "deviation" : "deviations"}`;
}

function write(id: string, text: string): void {
  const target = element(id);
  if (target.textContent !== text) target.textContent = text;
}
