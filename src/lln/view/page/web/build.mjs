// Builds ../bundle.js: kernel to WebAssembly, worker with the kernel inside, page with the worker inside.
// `node build.mjs --out FILE` writes elsewhere, which is how the tests compare.

import { writeFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";
import * as esbuild from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const flag = process.argv.indexOf("--out");
const out = flag < 0 ? resolve(here, "../bundle.js") : resolve(process.argv[flag + 1]);

async function kernel() {
  let bytes = null;
  const { error, stderr } = await asc.main(
    ["kernel/kernel.ts", "--outFile", "kernel.wasm", "-O3", "--noAssert", "--runtime", "stub", "--enable", "simd",
     "--importMemory", "--noExportMemory", "--baseDir", here],
    { writeFile: (name, data) => { if (name.endsWith(".wasm")) bytes = data; } },
  );
  if (error || !bytes) throw new Error(`kernel: ${stderr.toString() || error}`);
  return bytes;
}

/** A module whose content was made here rather than read from a file. */
function virtual(name, contents, loader) {
  return {
    name,
    setup(build) {
      const filter = new RegExp(`^${name}$`);
      build.onResolve({ filter }, (args) => ({ path: args.path, namespace: "made" }));
      build.onLoad({ filter, namespace: "made" }, () => ({ contents, loader }));
    },
  };
}

const common = { bundle: true, minify: true, format: "iife", target: "es2022", write: false, charset: "ascii",
  legalComments: "none", absWorkingDir: here, logLevel: "warning" };

const worker = await esbuild.build({
  ...common, entryPoints: ["src/engine/worker.ts"], plugins: [virtual("kernel:wasm", await kernel(), "binary")],
});
const page = await esbuild.build({
  ...common, entryPoints: ["src/main.ts"], plugins: [virtual("worker:source", worker.outputFiles[0].text, "text")],
});
await writeFile(out, page.outputFiles[0].text);
