// SPDX-License-Identifier: GPL-2.0

//! Directed routes at a switch (IBA chapter "Subnet Management", "Directed Route SMP Routing").
//!
//! A route is the list of ports by which to leave each switch; on the way each switch notes by which port it was
//! entered, and the answer goes back by that list. The hop pointer says where on the list the packet is. A route
//! may begin or end with a part that is routed by LID: DrSLID or DrDLID is then not permissive.

use wire::mad::smp::{
    Smp,
    MAX_HOPS, //
};
use wire::{
    Lid,
    PortNum, //
};

/// What becomes of a directed-route packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Leave by this port to whoever is there.
    Leave(PortNum),
    /// The directed part is over: go on by LID.
    ByLid(Lid),
    /// It is for the agent of this switch.
    Agent,
    /// It is for a subnet manager on this switch.
    Manager,
    /// The route is broken.
    Broken,
}

/// Moves a packet one hop on that came in on `in_port`; port 0 is the switch itself.
pub(super) fn step(smp: &mut Smp, in_port: PortNum) -> Step {
    if smp.hop_cnt() > MAX_HOPS {
        return Step::Broken;
    }
    let next = if smp.is_returning() {
        returning(smp, in_port)
    } else {
        outgoing(smp, in_port)
    };
    next.unwrap_or(Step::Broken)
}

fn outgoing(smp: &mut Smp, in_port: PortNum) -> Option<Step> {
    let (pointer, count) = (smp.hop_ptr(), smp.hop_cnt());
    let next = pointer.checked_add(1)?;
    let here = in_port == PortNum::MANAGEMENT;
    if count != 0 && pointer == 0 {
        // The directed part begins here, or after a part routed by LID.
        if !here && smp.dr_slid() == Lid::PERMISSIVE {
            return None;
        }
        smp.set_hop_ptr(next);
        return Some(Step::Leave(smp.initial_path(next)?));
    }
    if pointer < count {
        smp.set_return_path(pointer, in_port)?;
        smp.set_hop_ptr(next);
        return Some(Step::Leave(smp.initial_path(next)?));
    }
    if pointer == count {
        if count != 0 {
            smp.set_return_path(pointer, in_port)?;
        }
        smp.set_hop_ptr(next);
        return Some(match smp.dr_dlid() {
            Lid::PERMISSIVE => Step::Agent,
            dlid => Step::ByLid(dlid),
        });
    }
    // The directed part is over already: the packet came by LID.
    let by_lid = smp.dr_dlid() != Lid::PERMISSIVE;
    (pointer == count.checked_add(1)? && (here || by_lid)).then_some(Step::Agent)
}

fn returning(smp: &mut Smp, in_port: PortNum) -> Option<Step> {
    let (pointer, count) = (smp.hop_ptr(), smp.hop_cnt());
    let here = in_port == PortNum::MANAGEMENT;
    if count != 0 && pointer == count.checked_add(1)? {
        // The directed part of the way back begins here, or after a part routed by LID.
        if !here && smp.dr_dlid() == Lid::PERMISSIVE {
            return None;
        }
        smp.set_hop_ptr(count);
        return Some(Step::Leave(smp.return_path(count)?));
    }
    if pointer >= 2 && pointer <= count {
        let previous = pointer.wrapping_sub(1);
        smp.set_hop_ptr(previous);
        return Some(Step::Leave(smp.return_path(previous)?));
    }
    match pointer {
        1 => {
            smp.set_hop_ptr(0);
            Some(match smp.dr_slid() {
                Lid::PERMISSIVE => Step::Manager,
                slid => Step::ByLid(slid),
            })
        }
        0 => Some(Step::Manager),
        _ => None,
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_directed))]
mod tests {
    use super::*;
    use wire::mad::{
        class,
        MadHeader, //
    };

    const PORT: PortNum = PortNum::new(7);

    fn smp(pointer: u8, count: u8) -> Smp {
        let mut smp = Smp::new(&MadHeader {
            mgmt_class: class::SUBN_DR,
            ..MadHeader::default()
        });
        smp.set_hop_ptr(pointer);
        smp.set_hop_cnt(count);
        for hop in 1..=MAX_HOPS {
            smp.set_initial_path(hop, PortNum::new(hop + 100));
            smp.set_return_path(hop, PortNum::new(hop + 30));
        }
        smp
    }

    #[test]
    fn out_by_the_initial_path() {
        for (pointer, count, want, after) in [
            (1, 3, Step::Leave(PortNum::new(102)), 2),
            (2, 3, Step::Leave(PortNum::new(103)), 3),
            (3, 3, Step::Agent, 4),
            (0, 0, Step::Agent, 1),
            (62, 63, Step::Leave(PortNum::new(163)), 63),
            (63, 63, Step::Agent, 64),
        ] {
            let mut smp = smp(pointer, count);
            assert_eq!(step(&mut smp, PORT), want);
            assert_eq!(smp.hop_ptr(), after);
            if pointer != 0 {
                assert_eq!(smp.return_path(pointer), Some(PORT));
            }
        }
    }

    #[test]
    fn back_by_the_return_path() {
        for (pointer, count, want, after) in [
            (3, 3, Step::Leave(PortNum::new(32)), 2),
            (2, 3, Step::Leave(PortNum::new(31)), 1),
            (1, 3, Step::Manager, 0),
            (0, 3, Step::Manager, 0),
        ] {
            let mut smp = smp(pointer, count);
            smp.set_returning(true);
            assert_eq!(step(&mut smp, PORT), want);
            assert_eq!(smp.hop_ptr(), after);
        }
    }

    #[test]
    fn broken_routes() {
        for (pointer, count, returning) in [
            (0, 3, false),
            (4, 3, false),
            (5, 3, false),
            (255, 3, false),
            (255, 255, false),
            (1, 64, false),
            (4, 3, true),
            (5, 3, true),
            (255, 63, true),
            (255, 255, true),
        ] {
            let mut smp = smp(pointer, count);
            smp.set_returning(returning);
            assert_eq!(step(&mut smp, PORT), Step::Broken);
        }
    }

    #[test]
    fn the_switch_itself_begins() {
        let mut request = smp(0, 2);
        assert_eq!(
            step(&mut request, PortNum::MANAGEMENT),
            Step::Leave(PortNum::new(101))
        );
        let mut answer = smp(3, 2);
        answer.set_returning(true);
        assert_eq!(
            step(&mut answer, PortNum::MANAGEMENT),
            Step::Leave(PortNum::new(32))
        );
        assert_eq!(answer.hop_ptr(), 2);
    }

    #[test]
    fn parts_by_lid() {
        let mut request = smp(0, 2);
        request.set_dr_slid(Lid::new(9));
        assert_eq!(step(&mut request, PORT), Step::Leave(PortNum::new(101)));
        let mut request = smp(2, 2);
        request.set_dr_dlid(Lid::new(9));
        assert_eq!(step(&mut request, PORT), Step::ByLid(Lid::new(9)));
        assert_eq!(step(&mut request, PORT), Step::Agent);
        let mut answer = smp(1, 2);
        answer.set_returning(true);
        answer.set_dr_slid(Lid::new(9));
        assert_eq!(step(&mut answer, PORT), Step::ByLid(Lid::new(9)));
        let mut answer = smp(3, 2);
        answer.set_returning(true);
        answer.set_dr_dlid(Lid::new(9));
        assert_eq!(step(&mut answer, PORT), Step::Leave(PortNum::new(32)));
    }
}
