// The equations of a small model without networks, and what each term contributes at the present step.

import { linear, segment, short } from "../draw/plot";
import { Surface } from "../draw/surface";
import { colours } from "../draw/theme";
import type { Equations, Named, Term } from "../payload";
import type { State } from "../state";
import { element, make, type View } from "./view";

const ROW = 20;
const GAP = 34;
const MOST = 10; // bars for one coordinate
const RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹";

export class TermsView implements View {
  private readonly surface: Surface;
  /** what a bar of full length means for each coordinate; it only grows, so that bars can be compared over time */
  private readonly most: number[];
  /** terms in words, and the room that they take in a picture of this width */
  private labels = { width: 0, room: 0, words: [] as string[][] };

  constructor(
    private readonly state: State,
    private readonly equations: Equations,
  ) {
    this.most = equations.rows.map(() => 0);
    const names = factorNames(equations, [...state.payload.names, ...state.payload.inputNames]);
    for (const [i, terms] of equations.rows.entries()) {
      const line = make("p", `${left(equations.kind, names[i])} = ${sum(terms, names)}`, "equation");
      element("equations-list").append(line);
    }
    if (equations.functions.some((one) => one.kind === "clip")) {
      element("equations-list").append(make("p", "clip(a) is a, but −1 below −1 and 1 above 1.", "note"));
    }
    const bars = equations.rows.reduce((count, terms) => count + Math.min(terms.length, MOST), 0);
    const canvas = element<HTMLCanvasElement>("terms");
    canvas.style.height = `${bars * ROW + equations.rows.length * GAP + 10}px`;
    this.surface = new Surface(canvas, () => state.changed());
  }

  draw(): void {
    const { state, surface, equations } = this;
    if (!surface.begin()) return;
    const c = colours();
    const { context } = surface;
    const names = factorNames(equations, [...state.payload.names, ...state.payload.inputNames]);
    const step = Math.min(Math.floor(state.now), state.fresh);
    const present = [...state.payload.names.map((_, i) => state.predicted(step, i)), ...state.inputsAt(step)];
    const now = [...present, ...equations.functions.map((one) => valueOf(one, present))];
    if (this.labels.width !== surface.width) this.labels = this.fitted(surface.width);
    const { room: label, words } = this.labels;
    let top = 6;
    equations.rows.forEach((terms, i) => {
      const shown = terms.slice(0, MOST);
      const values = shown.map((term) => contribution(term, now));
      this.most[i] = Math.max(this.most[i], ...values.map(Math.abs), 1e-300);
      const x = linear(-this.most[i], this.most[i], label, surface.width - 96);
      context.textBaseline = "middle";
      context.textAlign = "left";
      context.fillStyle = c.ink;
      context.fillText(`${left(equations.kind, names[i])} = ${short(+terms.reduce((all, term) => all + contribution(term, now), 0).toPrecision(3))}`, 4, top + 10);
      top += GAP - 12;
      context.strokeStyle = c.rule;
      context.lineWidth = 1;
      segment(context, x(0), top, x(0), top + shown.length * ROW);
      shown.forEach((_, k) => {
        const middle = top + (k + 0.5) * ROW;
        const end = x(values[k]);
        context.fillStyle = values[k] < 0 ? c.highlight : c.forecast;
        context.fillRect(Math.min(end, x(0)), middle - 6, Math.max(Math.abs(end - x(0)), 1), 12);
        context.fillStyle = c["soft-ink"];
        context.textAlign = "right";
        context.fillText(words[i][k], label - 10, middle);
        context.fillText(short(+values[k].toPrecision(3)), surface.width - 8, middle);
      });
      top += shown.length * ROW + 12;
    });
  }

  /** The terms with names that are cut in the middle until the longest takes at most half of the width. */
  private fitted(width: number): { width: number; room: number; words: string[][] } {
    const { equations, state, surface } = this;
    const whole = [...state.payload.names, ...state.payload.inputNames];
    for (let letters = Math.max(...whole.map((name) => name.length)); ; letters--) {
      const tail = Math.floor(letters / 3);
      const cut = whole.map((name) => (name.length > letters ? `${name.slice(0, letters - tail - 1)}…${name.slice(-tail)}` : name));
      const names = factorNames(equations, cut);
      const words = equations.rows.map((terms) => terms.slice(0, MOST).map((term) => monomial(term.powers, names) || "1"));
      const room = 14 + Math.max(0, ...words.flat().map((text) => surface.context.measureText(text).width));
      if (room <= width / 2 || letters <= 4) return { width, room: Math.max(room, Math.min(170, width * 0.3)), words };
    }
  }
}

function contribution(term: Term, factors: number[]): number {
  return term.powers.reduce((product, power, i) => product * factors[i] ** power, term.weight);
}

const VALUES: Record<Named["kind"], (a: number) => number> = {
  gauss: (a) => Math.exp(-0.5 * a * a),
  sin: Math.sin,
  cos: Math.cos,
  abs: Math.abs,
  tanh: Math.tanh,
  exp: Math.exp,
  reciprocal: (a) => 1 / a,
  clip: (a) => Math.max(-1, Math.min(1, a)),
};

function valueOf(one: Named, state: number[]): number {
  return VALUES[one.kind](one.slope * state[one.coordinate] + one.shift);
}

/** What terms are products of: the coordinates, the known inputs, and functions of them. */
function factorNames(equations: Equations, names: string[]): string[] {
  const functions = equations.functions.map(({ kind, coordinate, slope, shift }) => {
    const turned = short(Math.abs(slope)) === "1" ? names[coordinate] : `${short(Math.abs(slope))} ${names[coordinate]}`;
    const moved = shift ? ` ${shift < 0 ? "−" : "+"} ${short(Math.abs(shift))}` : "";
    const argument = `${slope < 0 ? "−" : ""}${turned}${moved}`;
    if (kind === "abs") return `|${argument}|`;
    if (kind === "reciprocal") return `1/(${argument})`;
    return kind === "gauss" ? `exp(−(${argument})²/2)` : `${kind}(${argument})`;
  });
  return [...names, ...functions];
}

function left(kind: Equations["kind"], name: string): string {
  return kind === "flow" ? `d${name.length > 1 ? "\u00a0" : ""}${name}/dt` : `change of ${name} in a step`;
}

function sum(terms: Term[], names: string[]): string {
  if (!terms.length) return "0";
  return terms
    .map(({ weight, powers }, k) => {
      const sign = `${weight < 0 ? "−" : k ? "+" : ""}${k ? " " : ""}`; // the first one belongs to its number
      const [size, factors] = [short(Math.abs(weight)), monomial(powers, names)];
      const term = factors && size === "1" ? factors : `${size} ${factors}`.trim();
      return sign + term.replace(/ (· )?1\/\(/g, "/(");
    })
    .join(" ");
}

function monomial(powers: number[], names: string[]): string {
  const raised = (power: number): string => (power > 1 ? String(power).replace(/\d/g, (digit) => RAISED[Number(digit)]) : "");
  // Names of several words need a sign between them.
  const times = names.some((name) => /\p{L} [\p{L}([]/u.test(name)) ? " · " : " ";
  return powers.map((power, i) => (power ? `${names[i]}${raised(power)}` : "")).filter(Boolean).join(times);
}
