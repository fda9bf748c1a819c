"""The shopping view on engines in Rust: DBSP and differential dataflow, each with one worker."""
