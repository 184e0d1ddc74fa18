// How fast the page follows a drag: the drawn frames with new futures in them, and the time to all steps after release.

import { answer, asked, browser, open } from "./launch.mjs";

const opened = await browser();
const { page, seen } = await open(opened, asked.file);
const curve = page.locator("#start-curve");
await curve.scrollIntoViewIfNeeded();
const box = await curve.boundingBox();
await page.mouse.move(box.x + box.width * 0.55, box.y + box.height * 0.45);
await page.mouse.down();
await page.evaluate(() => (opticalBench.state.frames.length = 0));
// Real pointer events arrive with the screen's refresh; these do, too, and none is skipped by a slow driver.
await page.evaluate(
  ({ seconds, x, y, tall }) =>
    new Promise((done) => {
      const canvas = document.querySelector("#start-curve");
      const begin = performance.now();
      const move = () => {
        const passed = (performance.now() - begin) / 1000;
        const clientY = y + tall * 0.2 * Math.sin(4 * passed);
        canvas.dispatchEvent(new PointerEvent("pointermove", { pointerId: 1, clientX: x, clientY, bubbles: true }));
        if (passed < seconds) requestAnimationFrame(move);
        else done();
      };
      move();
    }),
  { seconds: asked.seconds, x: box.x + box.width * 0.55, y: box.y + box.height * 0.45, tall: box.height },
);
const frames = await page.evaluate(() => opticalBench.state.frames.slice());
const release = await page.evaluate(
  () =>
    new Promise((done) => {
      const { state } = opticalBench;
      state.finished = false;
      state.refresh(); // the newest start, as the last move asked for it
      const begin = performance.now();
      const wait = () => (state.finished && state.fresh === state.steps ? done(performance.now() - begin) : setTimeout(wait, 1));
      wait();
    }),
);
await page.mouse.up();
const told = await page.evaluate(() => ({ simd: opticalBench.state.engine.simd, agent: navigator.userAgent }));
await opened.close();
answer({ frames, release, errors: seen.errors, ...told });
