// What every view is, and helpers for elements and words.

import { short, ticks } from "../draw/plot";
import type { Payload } from "../payload";

export interface View {
  draw(): void;
}

export function element<T extends HTMLElement = HTMLElement>(id: string): T {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found as T;
}

/** A new element with text; text only, whatever a file has put into it. */
export function make<K extends keyof HTMLElementTagNameMap>(tag: K, text = "", kind = ""): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  if (text) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

export function fillSelect(select: HTMLSelectElement, labels: string[], chosen: number): void {
  select.replaceChildren(
    ...labels.map((label, index) => {
      const option = make("option", label);
      option.value = String(index);
      option.selected = index === chosen;
      return option;
    }),
  );
}

/** A number of steps, as a count. */
export function counted(steps: number): string {
  return `${steps.toLocaleString("en")} ${steps === 1 ? "step" : "steps"}`;
}

/** Units in the plural that lose their last letter in the singular; others may be symbols, as s. */
const UNITS = new Set([
  "time units", "seconds", "minutes", "hours", "days", "business days", "weeks", "months", "quarters", "years",
]);

/** A number of steps in words: time with its unit, which may stand in its name, as in "time [s]", and, where the exponent is known, Lyapunov times. */
export function span(payload: Payload, steps: number): string {
  const time = steps * payload.dt;
  const units = payload.timeUnit || (/\[([^[\]]+)\]$/.exec(payload.timeName)?.[1] ?? "time units");
  const unit = time === 1 && UNITS.has(units) ? units.slice(0, -1) : units;
  const many = payload.lyapunov === null ? 0 : +(time * payload.lyapunov).toPrecision(2);
  const times = payload.lyapunov === null ? "" : ` = ${short(many)} Lyapunov ${many === 1 ? "time" : "times"}`;
  return `${short(+time.toPrecision(3))} ${unit}${times}`;
}

const SECONDS_IN: Record<string, number> = { seconds: 1, minutes: 60, hours: 3600, days: 86400, years: 31557600 };

/** Letters of a date that name a step of the calendar; days need all of them. */
const LETTERS: Record<string, number | undefined> = { years: 4, months: 7, quarters: 7 };

/** A moment of the data: a date where there are dates, otherwise a number with its unit. */
export function moment(payload: Payload, time: number): string {
  const day = payload.calendar?.dates[Math.round(time) - payload.calendar.first];
  if (day) return day.slice(0, LETTERS[payload.timeUnit]);
  if (payload.origin !== null) {
    const date = new Date(Math.round(Date.parse(payload.origin) + 1000 * (SECONDS_IN[payload.timeUnit] ?? 1) * time));
    if (!Number.isNaN(date.getTime())) return date.toISOString().slice(0, 19).replace("T", " ").replace(/ 00:00:00$|:00$/, "");
  }
  return `${short(+time.toPrecision(6))}${payload.timeUnit ? ` ${payload.timeUnit}` : ""}`;
}

/** Words for times that are dates, and the times that ticks stand at: whole days, months or years. */
export interface Dates {
  (time: number): string;
  ticks(low: number, high: number, count: number): number[];
}

const SECONDS = [
  ...[1, 2, 5, 10, 15, 30], ...[1, 2, 5, 10, 15, 30].map((k) => 60 * k), ...[1, 2, 3, 6, 12].map((k) => 3600 * k),
  ...[1, 2, 7, 14].map((k) => 86400 * k),
];
const MONTHS = [1, 2, 3, 6, 12, 24, 36, 48, 60, 120, 240, 600, 1200];
const whole = (low: number, high: number): number[] => {
  const first = Math.ceil(low - 1e-6);
  return Array.from({ length: Math.max(0, Math.floor(high + 1e-6) - first + 1) }, (_, k) => first + k);
};
const choose = (steps: number[], rough: number): number => steps.find((step) => step >= rough) ?? 0;

/** Times of round dates, in seconds since 1970. */
function roundDates(low: number, high: number, count: number): number[] {
  const rough = (high - low) / Math.max(count, 1);
  const step = choose(SECONDS, rough);
  if (step) return whole(low / step, high / step).map((k) => k * step);
  const months = choose(MONTHS, rough / 2629800) || 1200;
  const start = new Date(1000 * low);
  const found = [];
  for (let k = Math.floor((12 * start.getUTCFullYear() + start.getUTCMonth()) / months) * months; ; k += months) {
    const at = Date.UTC(Math.floor(k / 12), k % 12) / 1000;
    if (at > high) return found;
    if (at >= low) found.push(at);
  }
}

/** Words and ticks of time where time has dates; undefined for plain numbers. */
export function dateWords(payload: Payload): Dates | undefined {
  const { calendar, origin } = payload;
  if (calendar) {
    const unit = { years: 12, months: 1, quarters: 3 }[payload.timeUnit];
    const day = (time: number) => (Number.isInteger(time) ? (calendar.dates[time - calendar.first] ?? "") : "");
    return Object.assign((time: number) => day(time).slice(0, LETTERS[payload.timeUnit]), {
      ticks(low: number, high: number, count: number) {
        if (!unit) return ticks(low, high, count);
        const months = choose(MONTHS, ((high - low) * unit) / Math.max(count, 1)) || 1200;
        return whole(low, high).filter((time) => {
          const [year, month] = day(time).split("-").map(Number);
          return (Math.floor((12 * year + month - 1) / unit) * unit) % months === 0;
        });
      },
    });
  }
  if (origin === null) return undefined;
  const first = Date.parse(origin) / 1000;
  const unit = SECONDS_IN[payload.timeUnit] ?? 1;
  return Object.assign((time: number) => moment(payload, time).slice(0, 16), {
    ticks: (low: number, high: number, count: number) =>
      roundDates(first + unit * low, first + unit * high, count).map((at) => (at - first) / unit),
  });
}

/** Title of an axis of time. */
export const timeAxis = (payload: Payload): string =>
  named(payload.timeName, dateWords(payload) ? "" : payload.timeUnit);

export const named = (name: string, unit: string): string => (unit ? `${name} (${unit})` : name);
