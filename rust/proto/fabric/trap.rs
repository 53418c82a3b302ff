// SPDX-License-Identifier: GPL-2.0

//! Traps: notices that an agent sends to the subnet manager until that represses them (IBA chapter "Subnet
//! Management", "Notices and Traps").

mod notice;

pub use notice::BadKey;
pub(super) use notice::{
    BadMKey,
    Event, //
};

use super::port::{
    PortAttrs,
    PortKind, //
};
use super::Mad;
use crate::time::{
    Duration,
    Instant, //
};
use wire::{
    Guid,
    Lid,
    Sl, //
};

/// A trap for the subnet manager: a LID-routed subnet management packet to QP0 of `dlid`, on VL15.
#[derive(Clone, Copy, Debug)]
pub struct TrapOut {
    /// The datagram.
    pub mad: Mad,
    /// LRH:SLID.
    pub slid: Lid,
    /// LRH:DLID.
    pub dlid: Lid,
    /// The service level for it.
    pub sl: Sl,
}

/// Who sends traps, and to whom.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    /// Whether a switch sends; else a channel adapter.
    pub(super) switch: bool,
    /// LID of the sender.
    pub(super) lid: Lid,
    /// LID of the subnet manager.
    pub(super) sm_lid: Lid,
    /// Service level for it.
    pub(super) sm_sl: Sl,
}

impl Sender {
    /// Who `port` is, and which subnet manager it knows.
    pub(super) const fn new(port: &PortAttrs) -> Self {
        Self {
            switch: matches!(port.kind(), PortKind::SwitchManagement),
            lid: port.lid(),
            sm_lid: port.sm_lid(),
            sm_sl: port.sm_sl(),
        }
    }

    /// Whether both ends have LIDs.
    const fn has_manager(&self) -> bool {
        self.lid.is_unicast() && self.sm_lid.is_unicast()
    }
}

/// Time between two sendings of a trap that nobody represses.
const REPEAT: Duration = Duration::from_millis(2_000);

/// Shortest time between two traps of one kind: a link that flaps does not flood the subnet manager.
const SPACING: Duration = Duration::from_millis(200);

/// How often a trap is sent before it is given up.
const SENDINGS: u8 = 10;

/// The number of kinds of traps, each of which has a slot.
const KINDS: usize = 5;

/// One kind of trap of a node or port.
#[derive(Clone, Copy, Debug)]
struct Slot {
    /// The newest event of this kind.
    event: Event,
    /// How often it is still to be sent; 0 when it is repressed or given up.
    left: u8,
    /// When to send it.
    due: Instant,
    /// The transaction it is sent under.
    tid: u64,
    /// When this kind may be sent again.
    quiet_until: Instant,
}

impl Slot {
    const EMPTY: Self = Self {
        event: Event::LinkStateChange,
        left: 0,
        due: Instant::from_nanos(0),
        tid: 0,
        quiet_until: Instant::from_nanos(0),
    };
}

/// The traps of a node or port: the newest event of each kind is sent until it is repressed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traps {
    slots: [Slot; KINDS],
    /// Upper half of the transaction identifiers, so that two senders do not meet in a trace.
    tid_high: u32,
    tid_low: u32,
    /// Somebody has asked the agent something.
    asked: bool,
}

impl Traps {
    /// No traps, for the sender named `guid`.
    pub(super) const fn new(guid: Guid) -> Self {
        Self {
            slots: [Slot::EMPTY; KINDS],
            tid_high: guid.get() as u32,
            tid_low: 0,
            asked: false,
        }
    }

    /// Somebody asks the agent something: a subnet manager, perhaps, that does not tell who it is before it has
    /// seen all.
    pub(super) fn on_request(&mut self) {
        self.asked = true;
    }

    /// Something happened. It is forgotten if there is no subnet manager that could have seen how it was before;
    /// if there may be one, it waits until that makes itself known.
    pub(super) fn raise(&mut self, sender: &Sender, event: Event, now: Instant) {
        if !sender.has_manager() && !self.asked {
            return;
        }
        let tid = self.next_tid();
        let Some(slot) = self.slots.get_mut(event.kind()) else {
            return;
        };
        slot.event = if slot.left == 0 {
            event
        } else {
            event.after(&slot.event)
        };
        slot.left = SENDINGS;
        slot.tid = tid;
        slot.due = now.max(slot.quiet_until);
    }

    /// The subnet manager has seen the trap of transaction `tid`. The lower half tells: some management stacks
    /// put a number of their own into the upper one.
    pub(super) fn repress(&mut self, tid: u64) {
        for slot in &mut self.slots {
            if slot.tid as u32 == tid as u32 {
                slot.left = 0;
            }
        }
    }

    /// A trap to send now.
    pub(super) fn poll(&mut self, sender: &Sender, now: Instant) -> Option<TrapOut> {
        if !sender.has_manager() {
            return None;
        }
        let slot = self
            .slots
            .iter_mut()
            .find(|slot| slot.left != 0 && slot.due <= now)?;
        slot.left = slot.left.wrapping_sub(1);
        slot.due = now.after(REPEAT);
        slot.quiet_until = now.after(SPACING);
        Some(TrapOut {
            mad: slot.event.trap(sender, slot.tid),
            slid: sender.lid,
            dlid: sender.sm_lid,
            sl: sender.sm_sl,
        })
    }

    /// When [`Self::poll`] will next have something.
    pub(super) fn next(&self, sender: &Sender) -> Option<Instant> {
        if !sender.has_manager() {
            return None;
        }
        self.slots
            .iter()
            .filter(|slot| slot.left != 0)
            .map(|slot| slot.due)
            .min()
    }

    fn next_tid(&mut self) -> u64 {
        self.tid_low = self.tid_low.wrapping_add(1);
        (u64::from(self.tid_high) << 32) | u64::from(self.tid_low)
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_trap))]
mod tests {
    use super::*;
    use wire::mad::smp::trap;
    use wire::mad::smp::Smp;
    use wire::mad::Notice;

    const SENDER: Sender = Sender {
        switch: true,
        lid: Lid::new(5),
        sm_lid: Lid::new(1),
        sm_sl: Sl::new(2),
    };

    fn at(millis: u64) -> Instant {
        Instant::from_nanos(0).after(Duration::from_millis(millis))
    }

    #[test]
    fn link_trap_as_the_iba_has_it() {
        let mut traps = Traps::new(Guid::new(0x1234_5678));
        traps.raise(&SENDER, Event::LinkStateChange, at(0));
        let sent = traps.poll(&SENDER, at(0));
        assert!(sent.is_some());
        if let Some(sent) = sent {
            assert_eq!(
                (sent.slid, sent.dlid, sent.sl),
                (Lid::new(5), Lid::new(1), Sl::new(2))
            );
            assert_eq!(sent.mad[..4], [1, 1, 1, 5][..]);
            assert_eq!(sent.mad[8..12], [0x12, 0x34, 0x56, 0x78][..]);
            // Generic urgent notice of a switch, number 128, from LID 5, about LID 5.
            let notice = [0x81, 0, 0, 2, 0, 128, 0, 5, 0, 0, 0, 5];
            assert_eq!(sent.mad[64..76], notice[..]);
        }
    }

    #[test]
    fn repeats_until_repressed() {
        let mut traps = Traps::new(Guid::new(1));
        traps.raise(&SENDER, Event::LinkStateChange, at(0));
        let tid = traps
            .poll(&SENDER, at(0))
            .map(|sent| Smp::from_bytes(&sent.mad).header().tid);
        assert!(traps.poll(&SENDER, at(0)).is_none());
        assert_eq!(traps.next(&SENDER), Some(at(2000)));
        assert!(traps.poll(&SENDER, at(2000)).is_some());
        traps.repress(tid.unwrap_or_default() & 0xffff_ffff);
        assert_eq!(traps.next(&SENDER), None);
        assert!(traps.poll(&SENDER, at(60_000)).is_none());
    }

    #[test]
    fn gives_up() {
        let mut traps = Traps::new(Guid::new(1));
        traps.raise(&SENDER, Event::LinkStateChange, at(0));
        let mut sent = 0;
        for second in 0..100 {
            if traps.poll(&SENDER, at(second * 1000)).is_some() {
                sent += 1;
            }
        }
        assert_eq!(sent, SENDINGS);
    }

    #[test]
    fn flapping_is_spaced() {
        let mut traps = Traps::new(Guid::new(1));
        let mut sent = 0;
        for millis in 0..1000 {
            traps.raise(&SENDER, Event::LinkStateChange, at(millis));
            if traps.poll(&SENDER, at(millis)).is_some() {
                sent += 1;
            }
        }
        assert_eq!(sent, 5);
    }

    #[test]
    fn nobody_to_tell() {
        let mut traps = Traps::new(Guid::new(1));
        let alone = Sender {
            sm_lid: Lid::NONE,
            ..SENDER
        };
        traps.raise(&alone, Event::LinkStateChange, at(0));
        assert!(traps.poll(&SENDER, at(0)).is_none());
    }

    #[test]
    fn waits_for_a_manager_that_looks_around() {
        let mut traps = Traps::new(Guid::new(1));
        let alone = Sender {
            sm_lid: Lid::NONE,
            ..SENDER
        };
        traps.on_request();
        traps.raise(&alone, Event::LinkStateChange, at(0));
        assert_eq!(traps.next(&alone), None);
        assert!(traps.poll(&alone, at(0)).is_none());
        assert_eq!(traps.next(&SENDER), Some(at(0)));
        assert!(traps.poll(&SENDER, at(100)).is_some());
    }

    #[test]
    fn local_changes_add_up() {
        let mut traps = Traps::new(Guid::new(1));
        let description = trap::CapabilityChange::NODE_DESCRIPTION;
        for flags in [description, 0] {
            let change = Event::LocalChange { cap_mask: 7, flags };
            traps.raise(&SENDER, change, at(0));
        }
        let notice = traps
            .poll(&SENDER, at(0))
            .map(|sent| Smp::from_bytes(&sent.mad).attribute::<Notice>());
        let details = notice.map(|notice| notice.details).unwrap_or([0; 54]);
        assert_eq!(details[5], 1);
        assert_eq!(details[6..12], [0, 0, 0, 7, 0, 1][..]);
    }
}
