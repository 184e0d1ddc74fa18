// What every script here starts with: the question, a browser, and a page that may not reach anything.

import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

export const asked = JSON.parse(readFileSync(process.argv[2], "utf8"));
const require = createRequire(`${asked.web}/package.json`);
const { chromium } = require("playwright-core");
export const axe = require.resolve("axe-core/axe.min.js");

export function answer(value) {
  writeFileSync(process.argv[3], JSON.stringify(value));
}

// What is waited for comes; on a busy machine it may come late.
const PATIENCE = 180_000;

export async function browser() {
  return chromium.launch({ executablePath: asked.chromium, args: ["--no-sandbox"], timeout: PATIENCE });
}

/** Open a file in a fresh context; everything that goes wrong or out is written down. */
export async function open(opened, file, { hash = "", ...options } = {}) {
  // Without motion a scroll is over when it has been asked for, and places read after it are where they were read.
  const context = await opened.newContext({ viewport: { width: 1280, height: 900 }, reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const seen = { requests: [], errors: [] };
  page.on("request", (request) => seen.requests.push(request.url().slice(0, 200)));
  page.on("pageerror", (error) => seen.errors.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") seen.errors.push(message.text());
  });
  page.on("dialog", (dialog) => {
    seen.errors.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await page.goto(`file://${file}${hash}`);
  await page.waitForSelector("html[data-ready=true]", { state: "attached" });
  await page.waitForFunction(() => opticalBench.state.finished);
  await drawn(page);
  return { context, page, seen };
}

/** A change is on the screen after the next frame; what comes into sight is seen in one, drawn in the next. */
export async function drawn(page) {
  for (let frame = 0; frame < 3; frame++) {
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => done(null))));
  }
}
