// Rollouts as the page computes them: one answer for each page and start.

import { answer, asked, browser, open } from "./launch.mjs";

const opened = await browser();
const answers = [];
for (const { file, hash, rolls } of asked.pages) {
  const { context, page, seen } = await open(opened, file, { hash });
  const simd = await page.evaluate(() => opticalBench.state.engine.simd);
  const states = [];
  for (const roll of rolls) {
    states.push(
      await page.evaluate(({ window, steps, inputs, switches }) => opticalBench.rollout(window, steps, inputs, switches), roll),
    );
  }
  const equations = await page.$$eval("#equations-list p", (lines) => lines.map((line) => line.textContent));
  answers.push({ simd, states, equations, errors: seen.errors });
  await context.close();
}
await opened.close();
answer(answers);
