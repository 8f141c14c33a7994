//! The version that wrote a directory of results.

use std::path::Path;

use serde_json::Value;

use crate::error::{Error, Result};

/// The version of this program, as manifests have it.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Refuses the manifest in a file unless this version of the program wrote it, with this format of
/// the directory.
///
/// # Errors
/// If it did not.
pub fn check_version(path: &Path, manifest: &Value, format: u64) -> Result<()> {
    let version = manifest["version"].as_str().unwrap_or("unknown");
    // The first format had no such field.
    let written = manifest["format"].as_u64().unwrap_or(1);
    if version != VERSION || written != format {
        return Err(Error::Version {
            path: path.into(),
            version: version.to_owned(),
            written,
            format,
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_this_version_wrote_is_read() {
        let check = |manifest: Value| {
            let checked = check_version(Path::new("out/manifest.json"), &manifest, 2);
            checked.map_err(|error| error.to_string())
        };
        assert_eq!(check(json!({ "version": VERSION, "format": 2 })), Ok(()));
        let words = |version, format| {
            format!(
                "out/manifest.json was written by Crashpoint {version} (format {format} of its \
                 results), and this is {VERSION} (format 2): use that version, or begin anew with \
                 another directory for --out"
            )
        };
        for (manifest, version, format) in [
            (json!({ "version": "0.0.1", "format": 2 }), "0.0.1", 2),
            (json!({ "version": VERSION, "format": 3 }), VERSION, 3),
            (json!({ "version": VERSION }), VERSION, 1),
            (json!({}), "unknown", 1),
        ] {
            assert_eq!(check(manifest), Err(words(version, format)));
        }
    }
}
