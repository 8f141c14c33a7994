//! Our own terminal.

use std::io::stdin;

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

use crate::error::{Context as _, Result};

/// The terminal that is our input, which gives every key as it is while this is there: it is for
/// another terminal to make something of them.
pub(crate) struct RawTerminal(Termios);

impl RawTerminal {
    pub(crate) fn new() -> Result<Self> {
        let before =
            tcgetattr(stdin()).doing(|| "ask for the attributes of the terminal".into())?;
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        tcsetattr(stdin(), SetArg::TCSANOW, &raw)
            .doing(|| "have the terminal give keys as they are".into())?;
        Ok(Self(before))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), SetArg::TCSADRAIN, &self.0);
    }
}

/// Rows and columns of the terminal that is our input.
pub fn terminal_size() -> (u16, u16) {
    let size = rustix::termios::tcgetwinsize(stdin())
        .ok()
        .map(|size| (size.ws_row, size.ws_col));
    // A serial line does not know its size.
    size.filter(|(rows, columns)| *rows > 0 && *columns > 0)
        .unwrap_or((24, 80))
}
