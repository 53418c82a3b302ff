// SPDX-License-Identifier: GPL-2.0

//! What the administrator wants of each HCA, by its name. It may be said before the HCA is there.

use crate::params;
use crate::watch::Level;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::Arc;
use proto::cm::watch::{
    Choice,
    Wishes, //
};
use proto::cm::LapTiming;
use rdma::cm::Adapter;
use rdma::sync::NoIoMutex;

/// Whose connections are made on an HCA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Those of ib_cm and of this manager.
    Shared,
    /// Those of this manager: ib_cm is kept off.
    Dedicated,
}

impl Mode {
    /// Dedicated, if `is_dedicated`.
    pub(crate) fn new(is_dedicated: bool) -> Self {
        if is_dedicated {
            Self::Dedicated
        } else {
            Self::Shared
        }
    }

    /// What it is called.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Dedicated => "dedicated",
        }
    }

    /// The one that is called `name`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        [Self::Shared, Self::Dedicated]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

/// A peer that something is said about.
struct Peer {
    /// The GUID of its HCA.
    guid: u64,
    /// The path that is to be its alternate one.
    choice: Option<Choice>,
}

/// What is wanted of one HCA.
pub(crate) struct Wanted {
    /// Counts when the HCA is made.
    pub(crate) mode: Mode,
    /// What is done for connections of ib_cm.
    pub(crate) level: Level,
    /// It is done for those alone whose peers are listed.
    pub(crate) is_listed_only: bool,
    /// How long a peer may take to take a path.
    pub(crate) timing: LapTiming,
    peers: KVec<Peer>,
}

/// What is wanted of one HCA, with its name.
#[pin_data]
pub(crate) struct Policy {
    name: KVec<u8>,
    #[pin]
    wanted: NoIoMutex<Wanted>,
}

impl Policy {
    /// That of the HCA which is, or will be called `name`: what the parameters say, with that mode and level.
    pub(crate) fn new(name: &[u8], mode: Mode, level: Level) -> Result<Arc<Self>> {
        let mut owned = KVec::new();
        owned.extend_from_slice(name, GFP_KERNEL)?;
        let wanted = Wanted {
            mode,
            level,
            is_listed_only: false,
            timing: LapTiming::default(),
            peers: KVec::new(),
        };
        Arc::pin_init(
            pin_init!(Self {
                name: owned,
                wanted <- NoIoMutex::new(new_mutex!(wanted, "Policy::wanted")),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Looks at what is wanted, or changes it.
    pub(crate) fn with<R>(&self, f: impl FnOnce(&mut Wanted) -> R) -> R {
        f(&mut self.wanted.lock())
    }

    /// Lists a peer, by the GUID of its HCA.
    ///
    /// # Errors
    ///
    /// `EEXIST` if it is listed.
    pub(crate) fn list(&self, guid: u64) -> Result {
        let mut wanted = self.wanted.lock();
        if wanted.peers.iter().any(|peer| peer.guid == guid) {
            return Err(EEXIST);
        }
        let choice = None;
        Ok(wanted.peers.push(Peer { guid, choice }, GFP_KERNEL)?)
    }

    pub(crate) fn unlist(&self, guid: u64) {
        self.wanted.lock().peers.retain(|peer| peer.guid != guid);
    }

    /// The alternate path to a peer that was chosen.
    pub(crate) fn choice(&self, guid: u64) -> Option<Choice> {
        let wanted = self.wanted.lock();
        wanted.peer(guid)?.choice
    }

    /// Chooses the alternate path to a peer that is listed.
    pub(crate) fn choose(&self, guid: u64, choice: Option<Choice>) {
        let mut wanted = self.wanted.lock();
        let mut peers = wanted.peers.iter_mut();
        if let Some(peer) = peers.find(|peer| peer.guid == guid) {
            peer.choice = choice;
        }
    }
}

impl Wanted {
    fn peer(&self, guid: u64) -> Option<&Peer> {
        self.peers.iter().find(|peer| peer.guid == guid)
    }
}

/// All that has been said.
#[pin_data]
pub(crate) struct Policies {
    #[pin]
    list: NoIoMutex<KVec<Arc<Policy>>>,
}

impl Policies {
    /// Nothing has been said.
    pub(crate) fn new() -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                list <- NoIoMutex::new(new_mutex!(KVec::new(), "Policies::list")),
            }),
            GFP_KERNEL,
        )
    }

    pub(crate) fn add(&self, policy: Arc<Policy>) -> Result {
        Ok(self.list.lock().push(policy, GFP_KERNEL)?)
    }

    pub(crate) fn remove(&self, policy: &Arc<Policy>) {
        self.list.lock().retain(|known| !Arc::ptr_eq(known, policy));
    }

    fn find(&self, is_it: impl Fn(&[u8]) -> bool) -> Option<Arc<Policy>> {
        let list = self.list.lock();
        list.iter().find(|policy| is_it(policy.name())).cloned()
    }

    fn of(&self, adapter: &Adapter) -> Option<Arc<Policy>> {
        self.find(|name| adapter.is_called(name))
    }

    /// The mode of an HCA that is made now by this name.
    pub(crate) fn mode_of(&self, name: &[u8]) -> Mode {
        let policy = self.find(|known| known == name);
        policy.map_or_else(
            || Mode::new(params::dedicated()),
            |policy| policy.with(|wanted| wanted.mode),
        )
    }

    /// What is done for connections of ib_cm on an HCA that is new.
    pub(crate) fn level_of(&self, adapter: &Adapter) -> Level {
        let policy = self.of(adapter);
        policy.map_or_else(Level::default, |policy| policy.with(|wanted| wanted.level))
    }

    /// Whether connections of ib_cm to this peer, by its GUID, may have alternate paths.
    pub(crate) fn allows(&self, adapter: &Adapter, peer: u64) -> bool {
        self.of(adapter).is_none_or(|policy| {
            policy.with(|wanted| !wanted.is_listed_only || wanted.peer(peer).is_some())
        })
    }

    /// What is wanted of alternate paths to this peer.
    pub(crate) fn wishes(&self, adapter: &Adapter, peer: u64) -> Wishes {
        let policy = self.of(adapter);
        policy.map_or_else(Wishes::default, |policy| {
            policy.with(|wanted| Wishes {
                choice: wanted.peer(peer).and_then(|peer| peer.choice),
                timing: wanted.timing,
            })
        })
    }
}
