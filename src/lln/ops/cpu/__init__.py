"""The CPU kernels: LLVM code emitted through llvmlite."""
