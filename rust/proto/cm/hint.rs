// SPDX-License-Identifier: GPL-2.0

//! Paths that begin nowhere at this HCA, and what they could have said instead.
//!
//! Source: IBA "REJ - Reject", "APR - Alternate Path Response": the additional information of both names an
//! acceptable LID or GID.

use super::event::{
    Local,
    PathFault, //
};
use super::{
    is_same,
    Conn, //
};
use wire::mad::cm::{
    reason,
    Path, //
};
use wire::{
    Gid,
    Lid, //
};

/// The additional information of a refusal: a value that would do, or nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hint {
    bytes: [u8; 16],
    len: usize,
}

impl Hint {
    /// As it is in the datagram.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }
}

impl From<Lid> for Hint {
    fn from(lid: Lid) -> Self {
        let mut bytes = [0; 16];
        [bytes[0], bytes[1]] = lid.get().to_be_bytes();
        Self { bytes, len: 2 }
    }
}

impl From<Gid> for Hint {
    fn from(gid: Gid) -> Self {
        Self {
            bytes: gid.get(),
            len: 16,
        }
    }
}

impl Conn {
    /// Whether `path` begins here. If it does not, what is wrong with it, and what would do, but for what makes it the
    /// path in use.
    pub(super) fn place(&self, path: &Path, local: &dyn Local) -> Result<(), (PathFault, Hint)> {
        let pkey = self.pkey();
        let Err(fault) = local.check(path, pkey) else {
            return Ok(());
        };
        let hint = match fault {
            PathFault::Gid => local.substitute(path, pkey, &self.primary).map(Hint::from),
            PathFault::Lid(found) => found
                .filter(|&local_lid| !is_same(&Path { local_lid, ..*path }, &self.primary))
                .map(Hint::from),
            PathFault::PKey => None,
        };
        Err((fault, hint.unwrap_or_default()))
    }

    /// Why the REQ that this connection was made for is refused, if a path in it begins nowhere here: the reason and the
    /// additional information of the REJ.
    ///
    /// There is no reason for a port that is in another partition: as in ib_cm, its GID is the wrong one.
    pub fn stray(&self, local: &dyn Local) -> Option<(u16, Hint)> {
        let primary = (&self.primary, reason::INVALID_GID, reason::INVALID_LID);
        let alternate = self
            .alternate
            .as_ref()
            .map(|path| (path, reason::INVALID_ALT_GID, reason::INVALID_ALT_LID));
        [Some(primary), alternate]
            .into_iter()
            .flatten()
            .find_map(|(path, gid, lid)| match self.place(path, local) {
                Ok(()) => None,
                Err((PathFault::Gid | PathFault::PKey, hint)) => Some((gid, hint)),
                Err((PathFault::Lid(_), hint)) => Some((lid, hint)),
            })
    }
}
