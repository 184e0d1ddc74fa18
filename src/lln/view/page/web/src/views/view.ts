// What every view is, and helpers for elements and words.

import { short } from "../draw/plot";
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

/** A number of steps in words: time with its unit and, where the exponent is known, Lyapunov times. */
export function span(payload: Payload, steps: number): string {
  const time = steps * payload.dt;
  const unit = payload.timeUnit || (time === 1 ? "time unit" : "time units");
  const many = payload.lyapunov === null ? 0 : +(time * payload.lyapunov).toPrecision(2);
  const times = payload.lyapunov === null ? "" : ` = ${short(many)} Lyapunov ${many === 1 ? "time" : "times"}`;
  return `${short(+time.toPrecision(3))} ${unit}${times}`;
}

/** A moment of the data: a date where there are dates, otherwise a number with its unit. */
export function moment(payload: Payload, time: number): string {
  const day = payload.calendar?.dates[Math.round(time) - payload.calendar.first];
  if (day) return day;
  if (payload.origin !== null) {
    const seconds: Record<string, number> = { seconds: 1, minutes: 60, hours: 3600, days: 86400, years: 31557600 };
    const date = new Date(Date.parse(payload.origin) + 1000 * (seconds[payload.timeUnit] ?? 1) * time);
    if (!Number.isNaN(date.getTime())) return date.toISOString().slice(0, 19).replace("T", " ").replace(" 00:00:00", "");
  }
  return `${short(+time.toPrecision(6))}${payload.timeUnit ? ` ${payload.timeUnit}` : ""}`;
}

/** Words for ticks of time where time has dates; undefined for plain numbers. */
export function dateWords(payload: Payload): ((time: number) => string) | undefined {
  const { calendar, origin } = payload;
  if (calendar) {
    const letters = { years: 4, months: 7, quarters: 7 }[payload.timeUnit] ?? 10;
    return (time) => {
      const date = Number.isInteger(time) ? (calendar.dates[time - calendar.first] ?? "") : "";
      return date.slice(0, letters);
    };
  }
  return origin === null ? undefined : (time) => moment(payload, time).slice(0, 16);
}

/** Title of an axis of time. */
export const timeAxis = (payload: Payload): string =>
  named(payload.timeName, dateWords(payload) ? "" : payload.timeUnit);

export const named = (name: string, unit: string): string => (unit ? `${name} (${unit})` : name);
