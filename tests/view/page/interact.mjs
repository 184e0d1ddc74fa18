// Everything a reader can do with a page, done; what came of it is told to Python, which judges.

import { readFileSync } from "node:fs";
import { answer, asked, axe, browser, drawn, open } from "./launch.mjs";

const opened = await browser();
const axeSource = readFileSync(axe, "utf8");
const told = {};

const settled = (page) => page.waitForFunction(() => opticalBench.state.finished && !opticalBench.state.dragging);
const view = (page) =>
  page.evaluate(() => {
    const { state } = opticalBench;
    const row = (step) => Array.from({ length: state.n }, (_, i) => state.predicted(step, i));
    return { start: row(0), end: row(state.steps), now: state.now, moved: state.moved, playing: state.playing };
  });

async function changed(page, act) {
  await page.evaluate(() => (opticalBench.state.finished = false)); // `act` has it computed anew
  await act();
  await settled(page);
  return view(page);
}

async function drag(page, selector, from, to) {
  const canvas = page.locator(selector);
  await canvas.scrollIntoViewIfNeeded();
  await drawn(page);
  const box = await canvas.boundingBox();
  const at = ([x, y]) => [box.x + x * (x <= 1 ? box.width : 1), box.y + y * (y <= 1 ? box.height : 1)];
  await page.mouse.move(...at(from));
  await page.mouse.down();
  await page.mouse.move(...at(to), { steps: 8 });
  await page.mouse.up();
}

async function violations(page) {
  await page.evaluate(axeSource);
  const { violations: found } = await page.evaluate(() => axe.run());
  return found.map(({ id, nodes }) => `${id}: ${nodes.map((node) => `${node.target} ${node.failureSummary}`).join("; ")}`);
}

// A small system by mouse and keyboard.
{
  const { page, seen, context } = await open(opened, asked.few);
  told.first = await view(page);
  told.inputsShown = await page.locator("#inputs-panel").isVisible();
  // Pictures out of sight are drawn while there is nothing else to do: rays, too.
  await page.waitForFunction(() => {
    const canvas = document.querySelector("#bench-canvas");
    return canvas.width > 300 && canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.some(Boolean);
  });
  told.scrolled = await page.evaluate(() => window.scrollY);
  await page.locator("#phase-z").selectOption("0");
  await page.locator("#phase").scrollIntoViewIfNeeded();
  await drawn(page);
  const box = await page.locator("#phase").boundingBox();
  const spot = await page.evaluate(() => opticalBench.spots.phase());
  told.dragged = await changed(page, () => drag(page, "#phase", spot, [spot[0] + 30, spot[1] - 20]));
  await drawn(page);
  told.draggedStatus = await page.locator("#status").textContent();
  told.spotInside = spot[0] > 0 && spot[0] < box.width && spot[1] > 0 && spot[1] < box.height;
  told.reset = await changed(page, () => page.locator("#reset").click());
  await page.locator("#scrub").fill("123");
  await drawn(page);
  told.scrubbed = { ...(await view(page)), clock: await page.locator("#clock").textContent() };
  // Slowly and from the beginning, so that the end is far when the second click comes.
  await page.locator("#scrub").fill("3");
  await page.locator("#speed").selectOption("0.25");
  await page.locator("#play").click();
  await page.waitForFunction(() => opticalBench.state.now > 5);
  told.playing = await view(page);
  await page.locator("#play").click();
  told.paused = await view(page);
  told.switches = {};
  for (const part of ["lens", "angle", "propagation"]) {
    const off = await changed(page, () => page.locator(`#switch-${part}`).uncheck());
    const on = await changed(page, () => page.locator(`#switch-${part}`).check());
    told.switches[part] = { off, on };
  }
  // By keys alone.
  await page.locator("#phase").focus();
  told.arrow = await changed(page, () => page.keyboard.press("ArrowRight"));
  await page.keyboard.press("k");
  told.keyPlay = await view(page);
  await page.keyboard.press("k");
  await page.locator("#bench-canvas").focus();
  const facts = () => page.locator("#facts").textContent();
  await page.waitForFunction(() => document.querySelector("#facts").textContent.startsWith("Lens"));
  const lens = page.locator("#layer");
  await lens.fill("2");
  await page.waitForFunction(() => document.querySelector("#facts").textContent.startsWith("Lens 2,"));
  await page.locator("#bench-canvas").focus();
  await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() => document.querySelector("#facts").textContent.startsWith("Lens 3,"));
  told.factsRight = await facts();
  await page.keyboard.press("ArrowUp");
  // The numbers of the same ray may change as well, so wait for another ray.
  await page.waitForFunction(
    (old) => /^Lens 3, ray \d+/.exec(document.querySelector("#facts").textContent)?.[0] !== /^Lens 3, ray \d+/.exec(old)[0],
    told.factsRight,
  );
  told.factsUp = await facts();
  await page.locator("#bench-canvas").scrollIntoViewIfNeeded();
  await drawn(page);
  const bench = await page.locator("#bench-canvas").boundingBox();
  await page.mouse.move(bench.x + bench.width * 0.9, bench.y + bench.height * 0.3);
  await page.waitForFunction(() => /^Lens [45],/.test(document.querySelector("#facts").textContent));
  told.factsHover = await facts();
  const number = page.locator("#start-numbers input").first();
  await page.locator("summary").click();
  told.typed = await changed(page, async () => {
    await number.fill("1.5");
    await number.press("Enter");
  });
  await page.locator("summary").click();
  told.fewAxe = await violations(page);
  told.theme = [];
  for (let k = 0; k < 3; k++) {
    await page.locator("#theme").click();
    told.theme.push(
      await page.evaluate(() => [document.documentElement.dataset.theme, getComputedStyle(document.body).backgroundColor]),
    );
  }
  await page.emulateMedia({ media: "print" });
  told.print = {
    toolbar: await page.locator(".toolbar").isVisible(),
    size: (await page.pdf({ format: "A4" })).length,
  };
  told.fewSeen = seen;
  await context.close();
}

// A field in the dark.
{
  const { page, seen, context } = await open(opened, asked.field, { colorScheme: "dark" });
  told.fieldFirst = await view(page);
  told.dark = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  told.fieldPair = await page.evaluate(() =>
    ["#start-curve", "#present-curve"].map((one) => document.querySelector(one).getBoundingClientRect().left));
  told.fieldDragged = await changed(page, () => drag(page, "#start-curve", [0.5, 0.5], [0.5, 0.3]));
  told.fieldReset = await changed(page, () => page.locator("#reset").click());
  await page.locator("#start-curve").focus();
  told.fieldKey = await changed(page, () => page.keyboard.press("ArrowUp"));
  await drag(page, "#field", [0.2, 0.4], [0.3, 0.4]);
  told.fieldScrub = await view(page);
  told.fieldAxe = await violations(page);
  told.fieldSeen = seen;
  await context.close();
}

// A phone: narrow, and fingers instead of a mouse.
{
  const { page, seen, context } = await open(opened, asked.few, { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true });
  told.narrow = await page.evaluate(() => document.scrollingElement.scrollWidth);
  told.narrowAxe = await violations(page);
  await page.locator("#phase-z").selectOption("0");
  await page.locator("#phase").scrollIntoViewIfNeeded();
  await drawn(page);
  const box = await page.locator("#phase").boundingBox();
  const spot = await page.evaluate(() => opticalBench.spots.phase());
  const finger = await context.newCDPSession(page);
  const touch = (type, dx, dy) =>
    finger.send("Input.dispatchTouchEvent", {
      type, touchPoints: type === "touchEnd" ? [] : [{ x: box.x + spot[0] + dx, y: box.y + spot[1] + dy }],
    });
  told.touchBefore = await view(page);
  told.touched = await changed(page, async () => {
    await touch("touchStart", 0, 0);
    for (let k = 1; k <= 6; k++) await touch("touchMove", 4 * k, -3 * k);
    await touch("touchEnd", 0, 0);
  });
  told.narrowSeen = seen;
  await context.close();
}

// A known system, and the choice of a start.
{
  const { page, seen, context } = await open(opened, asked.known);
  const known = {};
  known.slider = await page.evaluate(() => ["min", "max", "value"].map((name) => document.querySelector("#start-slider")[name]));
  known.note = await page.locator("#start-note").textContent();
  known.notes = await page.locator("#notes li").allTextContents();
  await page.locator("#phase").focus();
  known.moved = await changed(page, () => page.keyboard.press("ArrowRight"));
  await drawn(page);
  known.status = await page.locator("#status").textContent();
  known.key = await page.locator("#truth-word").textContent();
  known.truth = await page.evaluate(() => Array.from({ length: 3 }, (_, i) => opticalBench.state.truth(100, i)));
  known.chosen = await changed(page, () => page.locator("#start-slider").fill("2100"));
  known.chosenNote = await page.locator("#start-note").textContent();
  known.keyed = await changed(page, async () => {
    await page.locator("#start-slider").focus();
    await page.keyboard.press("ArrowRight");
  });
  known.keyedRow = await page.locator("#start-row").inputValue();
  await page.locator("#start-row").fill("5000");
  await page.locator("#start-row").press("Enter");
  known.refused = await page.locator("#start-note").textContent();
  known.after = await view(page);
  await changed(page, () => page.locator("#start-slider").fill("2998"));
  await drawn(page);
  known.last = await page.locator("#status").textContent();
  told.known = known;
  told.knownSeen = seen;
  await context.close();
}

// A field in the plane, painted on.
{
  const { page, seen, context } = await open(opened, asked.plane);
  const plane = { first: await view(page) };
  plane.words = [await page.locator("#rollout > .note").textContent(), await page.locator(".key").textContent()].join(" ");
  await page.locator("#field").scrollIntoViewIfNeeded();
  await drawn(page);
  plane.box = await page.evaluate(() => {
    const [box] = opticalBench.spots.panels();
    return [box.right - box.left, box.bottom - box.top];
  });
  plane.drawn = await page.evaluate(() => {
    const [box] = opticalBench.spots.panels();
    const canvas = document.querySelector("#field");
    const dense = canvas.width / canvas.getBoundingClientRect().width;
    const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2].map((at) => Math.round(at * dense));
    return canvas.getContext("2d").getImageData(x, y, 1, 1).data[3] === 255;
  });
  plane.painted = await changed(page, () => drag(page, "#paint", [0.5, 0.5], [0.55, 0.5]));
  await page.locator("#paint").focus();
  await page.keyboard.press("ArrowUp");
  plane.keyed = await changed(page, () => page.keyboard.press("Enter"));
  plane.axe = await violations(page);
  told.plane = plane;
  told.planeSeen = seen;
  await context.close();
}

// Known inputs are drawn along the forecast, and say where they end.
{
  const { page, seen, context } = await open(opened, asked.forced, { viewport: { width: 390, height: 800 } });
  const forced = { few: await page.locator("#inputs-panel figcaption").textContent() };
  await page.locator("#inputs").scrollIntoViewIfNeeded();
  await drawn(page);
  const ink = () =>
    page.evaluate(() => {
      const canvas = document.querySelector("#inputs");
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return data.reduce((sum, value) => sum + value, 0);
    });
  forced.first = await ink();
  await drag(page, "#inputs", [0.7, 0.3], [0.8, 0.3]);
  await drawn(page);
  forced.later = await ink();
  forced.now = (await view(page)).now;
  forced.axe = await violations(page);
  told.forced = forced;
  told.forcedSeen = seen;
  await context.close();
}

// Names that would like to be elements and scripts.
{
  const { page, seen, context } = await open(opened, asked.hostile);
  await page.locator("summary").click();
  told.hostile = await page.evaluate(() => ({
    images: document.querySelectorAll("img, iframe, object, embed, svg").length,
    scripts: document.querySelectorAll("script").length,
    links: document.querySelectorAll("a").length,
    heading: document.querySelector("#title").textContent,
    options: Array.from(document.querySelectorAll("#phase-x option"), (option) => option.textContent),
    cells: Array.from(document.querySelectorAll("td, th"), (cell) => cell.textContent),
    ran: Boolean(window.pwned),
  }));
  told.hostileSeen = seen;
  await context.close();
}
await opened.close();
answer(told);
