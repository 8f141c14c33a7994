//! block-dev
