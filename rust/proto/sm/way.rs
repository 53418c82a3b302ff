// SPDX-License-Identifier: GPL-2.0

//! Ways to nodes, along the tree of their discovery.
//!
//! A directed route has 63 hops at most. What is farther away is reached by LID as far as a switch whose LID
//! the tables lead to already, an *anchor*, and from there on by ports (IBA "Directed Route SMP Routing", DrSLID).

use super::topology::{
    Topology,
    NONE, //
};
use super::Storage;
use crate::fabric::switch::Lrh;
use wire::mad::smp::{
    Smp,
    MAX_HOPS, //
};
use wire::mad::{
    class,
    MadHeader, //
};
use wire::{
    Lid,
    PortNum, //
};

/// A way to a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Way {
    /// The ports by which to leave, the last one first.
    hops: [PortNum; MAX_HOPS as usize],
    count: u8,
    /// Where the directed part begins; [`Lid::PERMISSIVE`] if at the subnet manager.
    anchor: Lid,
}

/// The way is too long: no anchor is near enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooFar;

impl Way {
    /// The way to the subnet manager's own node.
    pub(super) const HERE: Self = Self {
        hops: [PortNum::MANAGEMENT; MAX_HOPS as usize],
        count: 0,
        anchor: Lid::PERMISSIVE,
    };

    /// The way to the node of `port`; if `beyond`, to whoever is at the other end of the cable of `port`.
    pub(super) fn find<S: Storage>(
        topology: &Topology<S>,
        port: u32,
        beyond: bool,
    ) -> Result<Self, TooFar> {
        let mut way = Self::HERE;
        let mut anchored: Option<(Lid, u8)> = None;
        let mut at = port;
        if beyond {
            let number = topology.port(port).ok_or(TooFar)?.number;
            way.push(number)?;
        }
        loop {
            let node = topology.node_of(at).ok_or(TooFar)?;
            if anchored.is_none() && node.is_switch() && node.anchored == topology.sweep {
                let lid = topology.port(node.first).ok_or(TooFar)?.lid;
                anchored = Some((lid, way.count));
            }
            at = topology.upstream(at).ok_or(TooFar)?;
            if at == NONE {
                return Ok(way);
            }
            let number = topology.port(at).ok_or(TooFar)?.number;
            if way.push(number).is_err() {
                let (lid, count) = anchored.ok_or(TooFar)?;
                way.anchor = lid;
                way.count = count;
                return Ok(way);
            }
        }
    }

    fn push(&mut self, port: PortNum) -> Result<(), TooFar> {
        let place = self.hops.get_mut(usize::from(self.count)).ok_or(TooFar)?;
        *place = port;
        self.count = self.count.saturating_add(1);
        Ok(())
    }

    /// A packet with `header` along this way from the LID `own`, and its addresses on the first link.
    pub(super) fn packet(&self, header: &MadHeader, own: Lid) -> (Lrh, Smp) {
        let by_lid = self.anchor != Lid::PERMISSIVE;
        let whole = by_lid && self.count == 0;
        let mut smp = Smp::new(&MadHeader {
            mgmt_class: if whole {
                class::SUBN_LID
            } else {
                class::SUBN_DR
            },
            ..*header
        });
        let lrh = if by_lid {
            Lrh {
                slid: own,
                dlid: self.anchor,
            }
        } else {
            Lrh {
                slid: Lid::PERMISSIVE,
                dlid: Lid::PERMISSIVE,
            }
        };
        if whole {
            return (lrh, smp);
        }
        if by_lid {
            smp.set_dr_slid(own);
        }
        smp.set_hop_cnt(self.count);
        let hops = self.hops.get(..usize::from(self.count));
        let hops = hops.unwrap_or_default().iter().rev();
        for (hop, port) in (1..=MAX_HOPS).zip(hops) {
            // A path has room for all hops that there may be.
            let _ = smp.set_initial_path(hop, *port);
        }
        (lrh, smp)
    }
}
