//! A place for clients.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::file::CLIENT;
use crate::ground::{Machine, MachineSpec};
use crate::network::client_address;
use crate::node::{Common, FIRST_LAST_PID};

/// More than one machine serves.
const CLIENTS_MAX: usize = 200;

/// A machine of its own for a client. It sees all nodes, holds no data, and stays while they are
/// killed and started. What runs there is killed when the cluster ends.
pub struct Client {
    machine: Box<dyn Machine>,
    common: Arc<Common>,
    name: String,
    address: Ipv4Addr,
}

impl Client {
    pub(crate) fn new(common: &Arc<Common>, index: usize) -> Result<Self> {
        refuse_too_many(index)?;
        let name = name(index);
        let address = client_address(index as u8);
        common.ground.plug_in(address)?;
        let spec = MachineSpec {
            name: name.clone(),
            data: None,
            unseen: common.unseen(),
            own_temporary: false,
            last_pid: FIRST_LAST_PID,
            hosts: common.hosts(),
        };
        Ok(Self {
            machine: common.ground.boot(address, &spec)?,
            common: Arc::clone(common),
            name,
            address,
        })
    }

    /// Its name in the network.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its address.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// The process that stands for it, which whoever wants to look may enter.
    pub fn pid(&self) -> u32 {
        self.machine.pid()
    }

    /// Its log.
    pub fn log(&self) -> PathBuf {
        self.common.log(&self.name)
    }

    /// What runs a command there, in the folder of the cluster file, with the nodes' addresses in
    /// its environment ([`crate::ADDRESS_VARIABLE`]).
    pub fn command(&self, words: &[String]) -> Command {
        let file = &self.common.file;
        let mut command = self.machine.command(words, &file.folder, None);
        command.envs(file.client_environment());
        command
    }
}

/// What a client is called. No node's name has a dot.
pub(crate) fn name(index: usize) -> String {
    match index {
        0 => CLIENT.into(),
        _ => format!("{CLIENT}.{}", index + 1),
    }
}

/// Fails if there are so many clients that another one would be one too many: addresses have room for it only.
pub(crate) fn refuse_too_many(index: usize) -> Result<()> {
    if index < CLIENTS_MAX {
        return Ok(());
    }
    Err(Error::Command {
        whose: name(index),
        what: format!("is one too many: {CLIENTS_MAX} clients are the most"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_clients_as_there_are_addresses_for_are_the_most() {
        let last = CLIENTS_MAX - 1;
        assert!(refuse_too_many(last).is_ok());
        assert!(u8::try_from(last + 1).is_ok());
        let refused = refuse_too_many(CLIENTS_MAX).expect_err("one too many");
        let expected = "client.201 is one too many: 200 clients are the most";
        assert_eq!(refused.to_string(), expected);
    }
}
