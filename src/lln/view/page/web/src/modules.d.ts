declare module "kernel:wasm" {
  const bytes: Uint8Array;
  export default bytes;
}
declare module "worker:source" {
  const source: string;
  export default source;
}
