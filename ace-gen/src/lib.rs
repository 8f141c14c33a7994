//! ace-gen
