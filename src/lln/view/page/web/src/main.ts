// The page: reads its data, starts the worker, and draws when something has changed.

import { Surface } from "./draw/surface";
import { forgetColours } from "./draw/theme";
import { Engine } from "./engine/client";
import type { Switches } from "./engine/blocks";
import { lensOf, type Payload } from "./payload";
import { State } from "./state";
import { BenchView } from "./views/bench";
import { Controls } from "./views/controls";
import { CurveView } from "./views/curve";
import { ErrorView } from "./views/error";
import { FieldView, Grid } from "./views/field";
import { InputsView } from "./views/inputs";
import { showNumbers } from "./views/numbers";
import { PaintView } from "./views/paint";
import { PhaseView } from "./views/phase";
import { SeriesView } from "./views/series";
import { TermsView } from "./views/terms";
import { element, make, type View } from "./views/view";

const FEW = 8;
const REST = 250; // milliseconds without a change after which the pictures out of sight are drawn
const THEMES = ["auto", "light", "dark"] as const;

function start(): void {
  const payload = JSON.parse(element("payload").textContent ?? "") as Payload;
  // `#embed` leaves out titles and notes, for a frame inside another page.
  if (location.hash === "#embed") document.documentElement.dataset.embed = "true";
  // `#plain` does without WebAssembly; the numbers are the same.
  const state = new State(payload, location.hash === "#plain");
  document.title = payload.title;
  element("title").textContent = payload.title;
  element("subtitle").textContent = payload.subtitle;
  element("made").textContent = payload.made;
  for (const note of payload.notes) element("notes").append(make("li", note));
  element("notes").hidden = payload.notes.length === 0;
  showNumbers(payload);
  const controls = new Controls(state);
  const shown = pictures(state);
  const views = [controls, ...shown];
  let wanted = false;
  let drawn = 0;
  let rest = 0;
  const frame = (at: number): void => {
    wanted = false;
    const going = controls.tick(at);
    for (const view of views) view.draw();
    if (state.dragging && state.arrivals > drawn) state.drew(at);
    drawn = state.arrivals;
    if (going || state.playing) want();
    window.clearTimeout(rest);
    rest = window.setTimeout(() => {
      if (!wanted && state.finished && !state.dragging && !state.playing) drawEverything(views);
    }, REST);
  };
  const want = (): void => {
    if (!wanted) requestAnimationFrame(frame);
    wanted = true;
  };
  state.onChange(want);
  themes(want);
  printing(views, want);
  offer(state, shown);
  want(); // the data and the start are drawn before the first step is computed
  state.engine.ready.then(
    () => {
      document.documentElement.dataset.ready = "true";
      state.refresh();
    },
    () => {
      element("status").textContent = "This browser does not let the page start its worker, so nothing can be computed.";
    },
  );
}

function pictures(state: State): View[] {
  const { payload } = state;
  const views: View[] = [];
  const few = !payload.space.length && state.n <= FEW;
  element("few").hidden = !few;
  element("fields").hidden = few;
  if (few) {
    if (state.n >= 2) views.push(new PhaseView(state));
    else element("phase-panel").hidden = true;
    views.push(new SeriesView(state));
  } else {
    const grid = new Grid(state);
    views.push(new FieldView(state, grid), new CurveView(state, grid, !grid.flat));
    if (!grid.flat) {
      views.push(new PaintView(state, grid));
      element("start-how").textContent = "paint on the start state";
      element("knob-word").textContent = "brush: paint on the start state";
    }
    element("paint-panel").hidden = grid.flat;
    element("start-panel").hidden = !grid.flat;
  }
  if (state.hasInputs) views.push(new InputsView(state));
  element("inputs-panel").hidden = !state.hasInputs;
  if (state.hasTruth) views.push(new ErrorView(state));
  else {
    element("error-panel").hidden = true;
    element("baseline-key").hidden = true;
    element("start-else").hidden = true;
    element("truth-key").hidden = state.row === 0;
  }
  const lens = lensOf(payload);
  if (lens) views.push(new BenchView(state, lens));
  else element("bench").hidden = true;
  if (payload.equations) views.push(new TermsView(state, payload.equations));
  element("equations").hidden = !payload.equations;
  return views;
}

/** What is scrolled away, too: nobody should meet an empty picture, or save one. */
function drawEverything(views: View[]): void {
  Surface.everything = true;
  for (const view of views) view.draw();
  Surface.everything = false;
}

/** Paper is white, whatever the screen is, and takes the pictures that are scrolled away, too. */
function printing(views: View[], redraw: () => void): void {
  const { dataset } = document.documentElement;
  let theme = dataset.theme;
  window.addEventListener("beforeprint", () => {
    theme = dataset.theme;
    dataset.theme = "light";
    forgetColours();
    drawEverything(views);
  });
  window.addEventListener("afterprint", () => {
    dataset.theme = theme;
    forgetColours();
    redraw();
  });
}

function themes(redraw: () => void): void {
  const button = element<HTMLButtonElement>("theme");
  let chosen = 0;
  button.addEventListener("click", () => {
    chosen = (chosen + 1) % THEMES.length;
    document.documentElement.dataset.theme = THEMES[chosen];
    button.textContent = `Theme: ${THEMES[chosen]}`;
    forgetColours();
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    forgetColours();
    redraw();
  });
}

/** The model for anybody's script: `await opticalBench.rollout(window, steps)` in the browser's console. */
function offer(state: State, views: View[]): void {
  const all: Switches = { lens: true, angle: true, propagation: true };
  let apart: Engine | null = null; // a worker of its own, so that the page's rollouts go on
  const flat = (rows: number[][] | null): Float64Array | null => rows && Float64Array.from(rows.flat());
  Object.assign(window, {
    opticalBench: {
      state,
      spots: {
        phase: () => views.find((view) => view instanceof PhaseView)?.spot(),
        panels: () => views.find((view) => view instanceof FieldView)?.panelBoxes(),
      },
      rollout: async (start: number[][], steps: number, inputs: number[][] | null = null, switches: Partial<Switches> = {}) => {
        apart ??= new Engine(state.payload, location.hash === "#plain");
        const engine = apart;
        await engine.ready;
        const rows: number[][] = [];
        const window = flat(start) ?? new Float64Array(0);
        return new Promise<number[][]>((resolve) => {
          engine.roll(window, flat(inputs), steps, { ...all, ...switches }, (news) => {
            for (let at = 0; at < news.rows.length; at += state.n) rows.push(Array.from(news.rows.subarray(at, at + state.n)));
            if (news.done) resolve(rows);
          });
        });
      },
    },
  });
}

start();
