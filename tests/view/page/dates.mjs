// Where the ticks of an axis of dates stand, what they say, the ends of a colour bar, and numbers in words.

import { createRequire } from "node:module";
import { join } from "node:path";
import { answer, asked } from "./launch.mjs";

const esbuild = createRequire(`${asked.web}/package.json`)("esbuild");
const contents = 'export { dateWords, moment } from "./view"; export { pair } from "./field"; export { short } from "../draw/plot";';
const { outputFiles } = await esbuild.build({
  stdin: { contents, resolveDir: join(asked.web, "src/views") }, bundle: true, format: "esm", write: false,
});
const { dateWords, moment, pair, short } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0].text).toString("base64")}`);
answer({
  axes: asked.axes.map(({ payload, low, high, count }) => {
    const words = dateWords(payload);
    return words.ticks(low, high, count).map(words);
  }),
  bars: asked.bars.map(([low, high]) => pair(low, high)),
  numbers: asked.numbers.map(short),
  moments: asked.moments.map(({ payload, time }) => moment(payload, time)),
});
