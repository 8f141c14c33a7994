//! local-fs
