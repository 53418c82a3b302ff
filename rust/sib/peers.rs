// SPDX-License-Identifier: GPL-2.0

//! Cables by the parameter `peers` of the module: a list of words `NETDEV/ADDRESS` or `NETDEV/ADDRESS:PORT`.
//!
//! Each is plugged in as soon as a network device of that name is in the initial network namespace, and again when
//! one has come back after it went away. It is such a cable as [`config`] plugs, with the fabric key
//! of all cables.

use crate::config::{
    self,
    NAME_SIZE, //
};
use crate::fabric::{
    refusal,
    Origin, //
};
use crate::registry::{
    self,
    Lease,
    User, //
};
use core::net::SocketAddr;
use kernel::new_mutex;
use kernel::prelude::*;
use kernel::sync::{
    Arc,
    Mutex, //
};
use rdma::errno;
use rdma::module;
use rdma::net::NetDevice;
use rdma::new_work;
use rdma::sync::{
    Cx,
    Sleepable,
    Unlocked, //
};
use rdma::work::{
    Queue,
    Run,
    Work, //
};
use wire::PortNum;

/// A word of the parameter.
struct Peer {
    netdev: &'static str,
    remote: SocketAddr,
    /// The cable, in that port of its switch.
    plugged: Option<(Lease, PortNum)>,
    /// What the log says is in its way.
    told: Option<Error>,
}

struct State {
    peers: KVec<Peer>,
    /// The cables may be plugged in.
    open: bool,
}

#[pin_data]
struct List {
    #[pin]
    state: Mutex<State>,
    #[pin]
    work: Work<List>,
}

/// The cables that the parameter asks for. [`Self::end`] has to follow [`Self::begin`].
pub(crate) struct Peers {
    /// It is emptied before the list may go.
    queue: Queue,
    list: Arc<List>,
}

impl Peer {
    /// Reads `NETDEV/REMOTE`.
    fn new(word: &'static CStr) -> Result<Self> {
        let word = word.to_str().map_err(|_| EINVAL)?;
        let (netdev, remote) = word.split_once('/').ok_or(EINVAL)?;
        if netdev.is_empty() || netdev.len() >= NAME_SIZE {
            return Err(EINVAL);
        }
        Ok(Self {
            netdev,
            remote: config::remote(remote)?,
            plugged: None,
            told: None,
        })
    }

    /// Plugs the cable in if that can be done, and gives a switch back whose underlay is gone.
    fn tend(&mut self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        if let Some((lease, _)) = &self.plugged {
            if registry::is_alive(&lease.fabric) {
                return;
            }
            self.pull(cx, sleepable);
        }
        let Ok(underlay) = NetDevice::by_initial_name(self.netdev.as_bytes()) else {
            self.told = None;
            return;
        };
        let error = self.plug(cx, sleepable, &underlay).err();
        // One that is about to go, or has just come, is heard of again.
        let error = error.filter(|error| *error != ENODEV);
        if let Some(error) = error.filter(|_| self.told != error) {
            self.tell(error);
        }
        self.told = error;
    }

    fn plug(
        &mut self,
        cx: &mut Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        underlay: &NetDevice,
    ) -> Result {
        let lease = registry::acquire(cx, sleepable, underlay, User::Cable)?;
        let (remote, origin) = (self.remote, Origin::Configured);
        let plugged = lease
            .fabric
            .plug(cx, sleepable, underlay, remote, origin, None);
        let port = plugged.inspect_err(|_| {
            registry::release(cx, sleepable, &lease.fabric, lease.ticket);
        })?;
        self.plugged = Some((lease, port));
        Ok(())
    }

    /// Has the log say why there is no cable.
    fn tell(&self, error: Error) {
        let (netdev, remote) = (self.netdev, self.remote);
        match refusal(error) {
            // The list may be that of all hosts.
            Some(why) if error == errno::address_not_available() => pr_info!(
                "{}\n",
                core::format_args!("peers: no cable from {netdev} to {remote}: {why}")
            ),
            Some(why) => pr_err!(
                "{}\n",
                core::format_args!("peers: no cable from {netdev} to {remote}: {why}")
            ),
            None => pr_err!(
                "{}\n",
                core::format_args!("peers: no cable from {netdev} to {remote}: {error:?}")
            ),
        }
    }

    fn pull(&mut self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        if let Some((lease, port)) = self.plugged.take() {
            lease.fabric.unplug(cx, sleepable.irqs_on(), port);
            registry::release(cx, sleepable, &lease.fabric, lease.ticket);
        }
    }
}

impl Peers {
    /// Reads the parameter.
    ///
    /// # Errors
    ///
    /// `EINVAL` for what cannot be, with a line in the log; `ENOMEM`.
    pub(crate) fn new(sleepable: Sleepable<'_>) -> Result<Self> {
        let mut peers = KVec::<Peer>::new();
        for word in module::peers() {
            let peer = Peer::new(word).inspect_err(|_| {
                pr_err!("parameter peers: {word:?} is not NETDEV/ADDRESS or NETDEV/ADDRESS:PORT\n");
            })?;
            let mut others = peers.iter();
            if others.any(|other| other.netdev == peer.netdev && other.remote == peer.remote) {
                pr_err!("parameter peers: {word:?} is there twice\n");
                return Err(EINVAL);
            }
            peers.push(peer, GFP_KERNEL)?;
        }
        let state = State { peers, open: false };
        Ok(Self {
            // The same as that of configured cables.
            queue: Queue::slow(c"sib_peers", sleepable)?,
            list: Arc::pin_init(
                pin_init!(List {
                    state <- new_mutex!(state, "peers::List::state"),
                    work <- new_work!("peers::List::work"),
                }),
                GFP_KERNEL,
            )?,
        })
    }

    /// Has the cables plugged in, now and whenever [`Self::stir`] is called.
    pub(crate) fn begin(&self) {
        self.list.state.lock().open = true;
        self.stir();
    }

    /// Has somebody look for network devices that have come or gone. The caller may hold the RTNL mutex.
    pub(crate) fn stir(&self) {
        // One that is queued already sees what it is wanted for.
        let _ = self.queue.enqueue(&self.list.work, self.list.clone());
    }

    /// Pulls all cables out, for good.
    pub(crate) fn end(&self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        let mut state = self.list.state.lock();
        state.open = false;
        for peer in &mut state.peers {
            peer.pull(cx, sleepable);
        }
    }
}

impl Run for List {
    type Pointer = Arc<Self>;

    fn run(this: Arc<Self>, mut cx: Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        let mut state = this.state.lock();
        if !state.open {
            return;
        }
        for peer in &mut state.peers {
            peer.tend(&mut cx, sleepable);
        }
    }
}
