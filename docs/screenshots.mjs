// One picture of a page for the documentation, halfway through its rollout; see screenshots.py.

import { answer, asked, browser, drawn, open } from "../tests/view/page/launch.mjs";

const opened = await browser();
const { page, seen } = await open(opened, asked.page, {
  colorScheme: asked.colorScheme,
  viewport: { width: asked.width ?? 1280, height: 900 },
});
await page.locator("#scrub").fill(String(await page.evaluate(() => Math.round(opticalBench.state.steps * 0.52))));
await page.locator("#scrub").blur();
// Everything that the picture takes must be on the screen, so the screen is made as tall.
const foot = await page.evaluate((until) => document.querySelector(until).getBoundingClientRect().bottom + scrollY, asked.until);
await page.setViewportSize({ width: asked.width ?? 1280, height: Math.ceil(foot) + 8 });
await page.waitForFunction(() => opticalBench.state.upToDate && opticalBench.state.trace);
await drawn(page);
await page.screenshot({ path: asked.out });
await opened.close();
answer(seen);
if (seen.errors.length) throw new Error(seen.errors.join("\n"));
