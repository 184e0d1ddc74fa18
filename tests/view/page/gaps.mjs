// What a page shows of values that were filled in: the truth has gaps there, and they count in no error.

import { answer, asked, browser, open } from "./launch.mjs";

const opened = await browser();
const { page, seen } = await open(opened, asked.page);
const told = await page.evaluate(() => {
  const { state } = opticalBench;
  const list = (values) => Array.from(values, (value) => (Number.isNaN(value) ? null : value));
  return {
    truth: Array.from({ length: state.known + 1 }, (_, k) => state.truth(k, 0)).map((value) => (Number.isNaN(value) ? null : value)),
    errors: list(state.errors.subarray(0, state.known + 1)),
    row: state.row,
    valid: state.valid,
    status: document.querySelector("#status").textContent,
  };
});
await opened.close();
answer({ ...told, faults: seen.errors });
