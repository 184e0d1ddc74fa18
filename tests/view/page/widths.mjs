// Whether a page scrolls sideways, at several widths of the window, light and dark.

import { answer, asked, browser } from "./launch.mjs";

const opened = await browser();
const told = {};
for (const colorScheme of ["light", "dark"]) {
  for (const width of asked.widths) {
    const context = await opened.newContext({ viewport: { width, height: 900 }, colorScheme });
    const page = await context.newPage();
    await page.goto(`file://${asked.page}`);
    told[`${width} ${colorScheme}`] = await page.evaluate(() => ({
      wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
      paper: getComputedStyle(document.body).backgroundColor,
    }));
    await context.close();
  }
}
await opened.close();
answer(told);
