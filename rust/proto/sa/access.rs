// SPDX-License-Identifier: GPL-2.0

//! Who may learn of what is in a partition, and change it: who is in it, too (IBA "Access Restrictions").

use super::{
    Agent,
    Request,
    Storage, //
};
use crate::sm::{
    self,
    Manager, //
};
use wire::PKey;

impl Request {
    /// Where the subnet manager has the port of the requester.
    pub(super) fn port<M: sm::Storage>(&self, manager: &Manager<M>) -> Option<u32> {
        manager.port_of_lid(self.from.lid)
    }

    /// Whether the requester is in the partition of `pkey`, as a full member or a limited one.
    pub(super) fn shares<M: sm::Storage>(&self, manager: &Manager<M>, pkey: PKey) -> bool {
        let port = self.port(manager);
        port.is_some_and(|port| manager.pkey_at(port, pkey).is_some())
    }
}

impl<S: Storage> Agent<S> {
    /// Whether the requester knows the key, by which he learns of all partitions.
    pub(super) fn is_trusted(&self, request: &Request) -> bool {
        self.config.sm_key != 0 && request.sa().sm_key() == self.config.sm_key
    }
}
