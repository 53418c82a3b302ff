// SPDX-License-Identifier: GPL-2.0

//! Rails: ports of an HCA that hang on another switch than the HCA's own.
//!
//! An HCA has its place on the switch of the underlay that it was made with: its GUIDs come from there, and when
//! that underlay goes, so does the HCA. Each of its ports can be moved to the switch of another underlay, as if
//! its cable were pulled and plugged in there. The port where it was stays reserved for its return.
//!
//! Who sends a packet has a [`Place`], which keeps the switch as long as the packet is on its way: a switch that a
//! port has left may be the last use of its fabric.

use crate::fabric::Fabric;
use crate::hca::{
    Hca,
    HcaState, //
};
use crate::registry::{
    self,
    Lease,
    Ticket, //
};
use kernel::prelude::*;
use kernel::sync::atomic::Relaxed;
use kernel::sync::Arc;
use rdma::sync::{
    Cx,
    Held,
    Sleepable,
    Tracked,
    Unlocked, //
};
use wire::PortNum;

/// The place of a port that has been moved.
pub(crate) struct Rail {
    fabric: Arc<Fabric>,
    /// The lease of the fabric.
    ticket: Ticket,
    /// The port of the switch.
    cable: PortNum,
}

/// Ends a rail, where nothing hangs any more, when all packets have passed. Returns its fabric.
fn retire(cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>, rail: Tracked<Rail>) -> Arc<Fabric> {
    rail.close(cx, sleepable);
    rail.fabric.leave_port(cx, rail.cable);
    rail.fabric.clone()
}

/// The rails of an HCA.
pub(crate) struct Rails {
    moved: KVec<(PortNum, Tracked<Rail>)>,
    /// The HCA is going away.
    ended: bool,
}

impl Rails {
    /// All ports are where they belong.
    pub(crate) const fn new() -> Self {
        Self {
            moved: KVec::new(),
            ended: false,
        }
    }

    /// The index of the rail of `port`.
    fn position(&self, port: PortNum) -> Option<usize> {
        self.moved.iter().position(|(other, _)| *other == port)
    }
}

/// Where a port hangs.
pub(crate) enum Place<'a> {
    /// On the switch of its HCA.
    Home(&'a Fabric, PortNum),
    /// On another one.
    Away(Held<Rail>),
}

impl Place<'_> {
    /// The fabric.
    pub(crate) fn fabric(&self) -> &Fabric {
        match self {
            Self::Home(fabric, _) => fabric,
            Self::Away(rail) => &rail.fabric,
        }
    }

    /// The port of the switch.
    pub(crate) fn cable(&self) -> PortNum {
        match self {
            Self::Home(_, cable) => *cable,
            Self::Away(rail) => rail.cable,
        }
    }
}

/// The index of `port` in a table of all ports.
fn index(port: PortNum) -> usize {
    usize::from(port.get()).wrapping_sub(1)
}

/// The bit of `port` in [`Hca::away`].
fn bit(port: PortNum) -> u32 {
    1u32.wrapping_shl(u32::from(port.get()))
}

impl Hca {
    /// Where `port` hangs; `None` if there is no such port. A port that is being moved may be found where it was.
    pub(crate) fn place(&self, cx: &mut Cx<'_, Unlocked>, port: PortNum) -> Option<Place<'_>> {
        if self.away.load(Relaxed) & bit(port) != 0 {
            return self.place_now(&cx.lock(&self.state), port);
        }
        Some(Place::Home(&self.fabric, self.berth.cable(port)?))
    }

    /// The same for who has locked the state.
    pub(crate) fn place_now(&self, state: &HcaState, port: PortNum) -> Option<Place<'_>> {
        let cable = self.berth.cable(port)?;
        match state.rails.get(index(port)) {
            Some(Some(rail)) => Some(Place::Away(rail.try_clone()?)),
            _ => Some(Place::Home(&self.fabric, cable)),
        }
    }

    /// The fabric of `port`.
    pub(crate) fn fabric_of<'a>(&'a self, state: &'a HcaState, port: PortNum) -> &'a Fabric {
        match state.rails.get(index(port)) {
            Some(Some(rail)) => &rail.fabric,
            _ => &self.fabric,
        }
    }

    /// Does what management has ordered for the link of `port`.
    pub(crate) fn settle(&self, cx: &mut Cx<'_, Unlocked>, port: PortNum) {
        if let Some(place) = self.place(cx, port) {
            place.fabric().settle_hca(cx, self, port, place.cable());
        }
    }

    /// Notes that `port`, which hangs nowhere now, belongs on `rail`, or on the switch of the HCA. Who has found it
    /// elsewhere looks again.
    fn assign(&self, cx: &mut Cx<'_, Unlocked>, port: PortNum, rail: Option<Held<Rail>>) {
        let old = {
            let mut guard = cx.lock(&self.state);
            let state = &mut *guard;
            let away = self.away.load(Relaxed);
            self.away.store(
                match rail {
                    Some(_) => away | bit(port),
                    None => away & !bit(port),
                },
                Relaxed,
            );
            self.fabric_of(state, port).new_generation();
            match state.rails.get_mut(index(port)) {
                Some(slot) => core::mem::replace(slot, rail),
                None => rail,
            }
        };
        drop(old);
    }

    /// Plugs `port`, which belongs there now, into a port of a switch.
    fn plug_in(
        this: &Held<Self>,
        cx: &mut Cx<'_, Unlocked>,
        port: PortNum,
        (fabric, cable): (&Fabric, PortNum),
    ) -> Result {
        fabric.hang(cx, this, port, cable)?;
        // An order that came due while the port was on its way has been left undone.
        fabric.settle_hca(cx, this, port, cable);
        fabric.stir(cx);
        Ok(())
    }

    /// Moves `port` to the fabric of `lease`, which is given back when the port returns.
    ///
    /// # Errors
    ///
    /// `EINVAL` if there is no such port; `EBUSY` if it has been moved already; `ENOSPC` if the switch has no free
    /// port; `ENODEV` if the HCA or the underlay goes away; `ENOMEM`.
    pub(crate) fn move_port(
        this: &Held<Self>,
        cx: &mut Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        port: PortNum,
        lease: Lease,
    ) -> Result<Ticket> {
        let Lease { fabric, ticket, .. } = lease;
        let moved = this
            .rails
            .lock()
            .depart(this, cx, sleepable, port, (&fabric, ticket));
        if moved.is_err() {
            registry::release(cx, sleepable, &fabric, ticket);
        }
        moved.map(|()| ticket)
    }

    /// Moves `port` back to the switch of the HCA if it has been moved with the lease `ticket`, which ends.
    pub(crate) fn return_port(
        this: &Held<Self>,
        cx: &mut Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        port: PortNum,
        ticket: Ticket,
    ) {
        let fabric = this
            .rails
            .lock()
            .bring_home(this, cx, sleepable, port, ticket);
        if let Some(fabric) = fabric {
            registry::release(cx, sleepable, &fabric, ticket);
        }
    }

    /// Whether `port` is where it was moved with the lease `ticket`.
    pub(crate) fn is_moved(&self, port: PortNum, ticket: Ticket) -> bool {
        let rails = self.rails.lock();
        let mut moved = rails.moved.iter();
        moved.any(|(other, rail)| *other == port && rail.ticket == ticket)
    }

    /// Unplugs all ports that have been moved, for good. ib_core does not know the HCA any more.
    pub(crate) fn end_rails(&self, cx: &mut Cx<'_, Unlocked>, sleepable: Sleepable<'_>) {
        let moved = {
            let mut rails = self.rails.lock();
            rails.ended = true;
            core::mem::take(&mut rails.moved)
        };
        for (port, rail) in moved {
            rail.fabric.unhang(cx, rail.cable);
            self.assign(cx, port, None);
            let ticket = rail.ticket;
            let fabric = retire(cx, sleepable, rail);
            registry::release(cx, sleepable, &fabric, ticket);
        }
    }
}

impl Rails {
    /// Moves `port` of `hca` from the switch of the HCA to that of `fabric`.
    fn depart(
        &mut self,
        hca: &Held<Hca>,
        cx: &mut Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        port: PortNum,
        (fabric, ticket): (&Arc<Fabric>, Ticket),
    ) -> Result {
        if self.ended {
            return Err(ENODEV);
        }
        let home = hca.berth.cable(port).ok_or(EINVAL)?;
        if self.position(port).is_some() {
            return Err(EBUSY);
        }
        self.moved.reserve(1, GFP_KERNEL)?;
        let cable = fabric.reserve_port(cx)?;
        let rail = Rail {
            fabric: fabric.clone(),
            ticket,
            cable,
        };
        let made = Tracked::new(rail).and_then(|rail| {
            let held = rail.hold().ok_or(ENODEV)?;
            Ok((rail, held))
        });
        let (rail, held) = made.inspect_err(|_| fabric.leave_port(cx, cable))?;
        // There is room for it.
        self.moved.push((port, rail), GFP_KERNEL)?;
        hca.fabric.unhang(cx, home);
        hca.assign(cx, port, Some(held));
        let plugged = Hca::plug_in(hca, cx, port, (fabric, cable)).and_then(|()| {
            // One that went away before has not found the port.
            registry::is_alive(fabric).then_some(()).ok_or(ENODEV)
        });
        if plugged.is_err() {
            self.bring_home(hca, cx, sleepable, port, ticket);
        }
        plugged
    }

    /// Moves `port` of `hca` back. Returns the fabric where it was.
    fn bring_home(
        &mut self,
        hca: &Held<Hca>,
        cx: &mut Cx<'_, Unlocked>,
        sleepable: Sleepable<'_>,
        port: PortNum,
        ticket: Ticket,
    ) -> Option<Arc<Fabric>> {
        let at = self.position(port)?;
        if self.moved.get(at)?.1.ticket != ticket {
            return None;
        }
        let (_, rail) = self.moved.remove(at).ok()?;
        rail.fabric.unhang(cx, rail.cable);
        hca.assign(cx, port, None);
        if let Some(home) = hca.berth.cable(port) {
            // It fails when the HCA has too many holders to count, and the port stays down.
            let _ = Hca::plug_in(hca, cx, port, (&hca.fabric, home));
        }
        Some(retire(cx, sleepable, rail))
    }
}
