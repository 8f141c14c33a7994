//! What a page says in a browser without a network.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::said;

/// Only ends what would hang.
const PATIENCE: Duration = Duration::from_secs(900);

/// Runs in the page when everything is there, and says what is.
const LOOK: &str = r##"
function luminance(colour) {
  const parts = colour.match(/[\d.]+/g).slice(0, 3).map(part => part / 255);
  const [r, g, b] = parts.map(part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
function background(element) {
  for (; element; element = element.parentElement) {
    const colour = getComputedStyle(element).backgroundColor;
    if (!/, 0\)$/.test(colour)) return colour;
  }
}
function contrast(element) {
  const [one, other] = [getComputedStyle(element).color, background(element)].map(luminance);
  return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
}
function look() {
  const texts = document.querySelectorAll("h1, p, th, td, label, summary, dt, dd, .crash, .tag, .count, code");
  const all = [...document.querySelectorAll("*")];
  const pictures = [...document.querySelectorAll("svg")];
  return {
    title: document.title,
    rows: document.querySelectorAll("#summary tbody tr").length,
    status: document.getElementById("status").textContent,
    groups: document.querySelectorAll(".group").length,
    pictures: pictures.length,
    named: pictures.filter(svg => svg.querySelector("title").textContent && svg.querySelector("desc").textContent).length,
    first: pictures.length === 0 ? "" : pictures[0].querySelector("desc").textContent,
    lost: document.querySelectorAll("svg .lost").length,
    underWay: document.querySelectorAll("svg .under-way").length,
    elements: all.length,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    fetched: performance.getEntriesByType("resource").length,
    dark: matchMedia("(prefers-color-scheme: dark)").matches,
    paper: luminance(getComputedStyle(document.body).backgroundColor),
    contrast: Math.min(...[...texts].filter(text => text.textContent && text.offsetParent).map(contrast)),
    unlabelled: [...document.querySelectorAll("input, select")].filter(input => input.labels.length === 0).length,
    text: document.getElementById("groups").textContent,
  };
}
function tell(what) {
  const told = document.createElement("pre");
  told.id = "told";
  told.textContent = encodeURIComponent(JSON.stringify(what));
  document.body.append(told);
}
"##;

/// What `script`, which calls `tell`, says in a page that a browser shows without any network.
///
/// # Panics
/// If the browser does not run, or the page says nothing.
pub fn page_told(page: &Path, size: (u32, u32), dark: bool, script: &str) -> Value {
    let text = std::fs::read_to_string(page).expect("read");
    let shown = page.with_extension("shown.html");
    let end = "</body>";
    assert_eq!(text.matches(end).count(), 1, "what is in the page ends it");
    let script =
        format!("<script>{LOOK}addEventListener('load', () => {{ {script} }});</script>{end}");
    std::fs::write(&shown, text.replace(end, &script)).expect("written");
    let profile = tempfile::tempdir().expect("a directory");
    let mut browser = browser(profile.path(), size, dark);
    browser.arg(format!("file://{}", shown.display()));
    let output = browser.output().expect("it runs");
    let dom = String::from_utf8_lossy(&output.stdout);
    let told = dom
        .split_once("<pre id=\"told\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"));
    let (told, _) = told.unwrap_or_else(|| panic!("{}: {}", output.status, said(&output)));
    serde_json::from_slice(&percent_decoded(told)).expect("JSON")
}

/// A browser that shows a page without any network, and prints what came of it.
fn browser(profile: &Path, size: (u32, u32), dark: bool) -> Command {
    let mut command = Command::new("timeout");
    command.arg(PATIENCE.as_secs().to_string()).args([
        "unshare",
        "--net",
        "chromium",
        "--headless",
        "--no-sandbox",
    ]);
    command.args([
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
    ]);
    command.args([
        "--disable-component-update",
        "--disable-sync",
        "--virtual-time-budget=5000",
        "--dump-dom",
    ]);
    command.arg(format!("--user-data-dir={}", profile.display()));
    command.arg(format!(
        "--blink-settings=preferredColorScheme={}",
        u8::from(!dark)
    ));
    command.arg(format!("--window-size={},{}", size.0, size.1));
    // What it keeps besides its profile goes with that, and is not the user's.
    for name in ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "TMPDIR"] {
        command.env(name, profile);
    }
    command
}

fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = text.bytes();
    let mut decoded = Vec::new();
    while let Some(byte) = bytes.next() {
        let mut digit = || {
            bytes
                .next()
                .and_then(|digit| (digit as char).to_digit(16))
                .expect("a digit") as u8
        };
        decoded.push(if byte == b'%' {
            digit() << 4 | digit()
        } else {
            byte
        });
    }
    decoded
}
