// SPDX-License-Identifier: GPL-2.0

//! Fault injection: what happens to a packet that passes a port.
//!
//! An [`Injector`] has a few [`Rule`]s. A rule picks packets by their direction, opcode and queue pair, and
//! strikes some of those: which ones is a function of the rule's seed and of the number of packets that it
//! has picked before, so that the same rule does the same to the same packets whenever it is used. The first
//! rule that strikes decides.
//!
//! Packets of subnet management, for queue pair 0, are spared unless a rule names that queue pair, so that the
//! fabric stays up while data suffer. A cut spares nothing.
//!
//! - [`text`]: rules as people write them.
//! - [`shelf`]: packets that wait.

pub mod shelf;
pub mod text;

use crate::time::Duration;
use wire::header::Header;
use wire::Qpn;

/// The number of rules that an injector can have.
pub const MAX_RULES: usize = 8;

/// What is certain, in parts per million.
pub const CERTAIN: u32 = 1_000_000;

/// Which way a packet passes the port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the adapter to the fabric.
    Out,
    /// From the fabric to the adapter.
    In,
}

/// What a rule does to the packets that it strikes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// They are lost.
    Drop,
    /// They come twice.
    Duplicate,
    /// They come after `distance` packets that follow them, or after `patience` if so many do not follow.
    Reorder {
        /// How many packets overtake; at least 1.
        distance: u8,
        /// How long to wait for those.
        patience: Duration,
    },
    /// They come late.
    Delay {
        /// At least by this much.
        time: Duration,
        /// At most by this much more.
        jitter: Duration,
    },
    /// One bit of them is wrong.
    Corrupt,
    /// The first one that is struck is lost, and so is everything that follows it the same way.
    Cut,
}

/// Which packets a rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Filter {
    /// The direction.
    pub direction: Direction,
    /// The value of those bits of the BTH's opcode that the mask has.
    pub opcode: (u8, u8),
    /// The destination queue pair; all but queue pair 0 without.
    pub qp: Option<Qpn>,
}

impl Filter {
    fn picks(&self, packet: &Packet) -> bool {
        let (value, mask) = self.opcode;
        let qp = match self.qp {
            Some(qp) => packet.qp == qp,
            None => packet.qp != Qpn::SMI,
        };
        self.direction == packet.direction && packet.opcode & mask == value & mask && qp
    }
}

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What it does.
    pub action: Action,
    /// What it looks at.
    pub filter: Filter,
    /// How likely it strikes, in parts per million.
    pub probability: u32,
    /// The number of packets, of those that it looks at, that it lets pass first.
    pub after: u64,
    /// The number of packets that it strikes at most, or that a cut loses; without end if there is none.
    pub count: Option<u64>,
    /// What makes it strike others than an equal rule.
    pub seed: u64,
}

/// A packet as rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Which way it goes.
    pub direction: Direction,
    /// Its opcode in the BTH.
    pub opcode: u8,
    /// Its destination queue pair.
    pub qp: Qpn,
}

impl Packet {
    /// The packet with these headers.
    pub fn new(direction: Direction, header: &Header) -> Self {
        Self {
            direction,
            opcode: header.bth.opcode.byte(),
            qp: header.bth.dest_qp,
        }
    }
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing happens to it.
    Pass,
    /// It is lost.
    Drop,
    /// It comes twice.
    Duplicate,
    /// It comes after so many that follow it, or after so long.
    Reorder(u8, Duration),
    /// It comes so much later.
    Delay(Duration),
    /// A bit of it is wrong; the number, which may be any, says which one.
    Corrupt(u32),
}

/// A rule and what it has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The rule.
    pub rule: Rule,
    /// The number of packets that it has looked at.
    pub seen: u64,
    /// The number of packets that it has struck.
    pub struck: u64,
}

impl Record {
    const fn new(rule: Rule) -> Self {
        Self {
            rule,
            seen: 0,
            struck: 0,
        }
    }

    fn is_spent(&self) -> bool {
        self.rule.count.is_some_and(|count| self.struck >= count)
    }

    /// Looks at a packet, and says whether it is struck.
    fn strikes(&mut self, packet: &Packet) -> bool {
        let rule = &self.rule;
        let cuts = rule.action == Action::Cut && self.struck > 0;
        if self.is_spent() || packet.direction != rule.filter.direction {
            return false;
        }
        if !cuts && !rule.filter.picks(packet) {
            return false;
        }
        let number = self.seen;
        self.seen = self.seen.wrapping_add(1);
        let struck = cuts || number >= rule.after && chance(rule.seed, number) < rule.probability;
        if struck {
            self.struck = self.struck.wrapping_add(1);
        }
        struck
    }

    /// What happens to the packet that was struck last.
    fn fate(&self) -> Fate {
        let roll = mix(!self.rule.seed, self.seen);
        match self.rule.action {
            Action::Drop | Action::Cut => Fate::Drop,
            Action::Duplicate => Fate::Duplicate,
            Action::Reorder { distance, patience } => Fate::Reorder(distance, patience),
            Action::Delay { time, jitter } => {
                let part = scale(roll, jitter.nanos().saturating_add(1));
                Fate::Delay(Duration::from_nanos(time.nanos().saturating_add(part)))
            }
            Action::Corrupt => Fate::Corrupt(roll as u32),
        }
    }
}

/// The increment of Weyl's sequence in SplitMix64: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The `n`th output of the generator SplitMix64 with this seed (Steele, Lea, Flood: "Fast splittable
/// pseudorandom number generators").
const fn mix(seed: u64, n: u64) -> u64 {
    let z = seed.wrapping_add(GOLDEN.wrapping_mul(n.wrapping_add(1)));
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// A number below `bound` for a random one.
const fn scale(random: u64, bound: u64) -> u64 {
    ((random as u128).wrapping_mul(bound as u128) >> 64) as u64
}

/// A number below [`CERTAIN`] for the `n`th packet.
const fn chance(seed: u64, n: u64) -> u32 {
    scale(mix(seed, n), CERTAIN as u64) as u32
}

/// The rules of a port.
#[derive(Clone, Copy, Debug, Default)]
pub struct Injector {
    records: [Option<Record>; MAX_RULES],
}

impl Injector {
    /// Without rules: everything passes.
    pub const fn new() -> Self {
        Self {
            records: [None; MAX_RULES],
        }
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules().next().is_none()
    }

    /// Adds a rule, behind the others; `false` if there are as many as there can be.
    pub fn add(&mut self, rule: Rule) -> bool {
        match self.records.iter_mut().find(|record| record.is_none()) {
            Some(free) => {
                *free = Some(Record::new(rule));
                true
            }
            None => false,
        }
    }

    /// The rules, in the order in which they are asked.
    pub fn rules(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().flatten()
    }

    /// Decides on a packet.
    pub fn decide(&mut self, packet: &Packet) -> Fate {
        for record in self.records.iter_mut().flatten() {
            if record.strikes(packet) {
                return record.fate();
            }
        }
        Fate::Pass
    }
}

#[cfg(any(test, CONFIG_KUNIT = "y"))]
#[cfg_attr(CONFIG_KUNIT = "y", kernel::macros::kunit_tests(sib_proto_fault))]
mod tests {
    use super::*;

    const DATA: Packet = Packet {
        direction: Direction::Out,
        opcode: 0x04,
        qp: Qpn::new(0x12),
    };
    const MANAGEMENT: Packet = Packet {
        qp: Qpn::SMI,
        ..DATA
    };

    fn rule(action: Action, probability: u32) -> Rule {
        Rule {
            action,
            filter: Filter {
                direction: Direction::Out,
                opcode: (0, 0),
                qp: None,
            },
            probability,
            after: 0,
            count: None,
            seed: 1,
        }
    }

    fn with(rule: Rule) -> Injector {
        let mut injector = Injector::new();
        assert!(injector.add(rule));
        injector
    }

    #[test]
    fn nothing_happens_without_rules() {
        let mut injector = Injector::new();
        assert!(injector.is_empty());
        assert_eq!(injector.decide(&DATA), Fate::Pass);
    }

    #[test]
    fn the_seed_decides() {
        let one = rule(Action::Drop, CERTAIN / 20);
        let other = Rule { seed: 2, ..one };
        let (mut first, mut second, mut third) = (with(one), with(one), with(other));
        let mut differ = false;
        for _ in 0..10_000 {
            let fate = first.decide(&DATA);
            assert_eq!(fate, second.decide(&DATA));
            differ |= fate != third.decide(&DATA);
        }
        assert!(differ);
    }

    #[test]
    fn as_often_as_it_says() {
        for percent in [0, 1, 5, 50, 100] {
            let mut injector = with(rule(Action::Drop, CERTAIN / 100 * percent));
            let mut struck = 0;
            for _ in 0..100_000 {
                struck += u32::from(injector.decide(&DATA) == Fate::Drop);
            }
            let expected = 1000 * percent;
            assert!(struck.abs_diff(expected) <= expected / 10);
        }
    }

    #[test]
    fn what_is_filtered_out_changes_nothing() {
        let one = Rule {
            filter: Filter {
                direction: Direction::Out,
                opcode: (0x04, 0xff),
                qp: Some(Qpn::new(0x12)),
            },
            ..rule(Action::Drop, CERTAIN / 2)
        };
        let others = [
            Packet {
                direction: Direction::In,
                ..DATA
            },
            Packet {
                opcode: 0x64,
                ..DATA
            },
            Packet {
                qp: Qpn::new(0x13),
                ..DATA
            },
            MANAGEMENT,
        ];
        let (mut alone, mut mixed) = (with(one), with(one));
        for _ in 0..1000 {
            for other in &others {
                assert_eq!(mixed.decide(other), Fate::Pass);
            }
            assert_eq!(alone.decide(&DATA), mixed.decide(&DATA));
        }
        assert_eq!(mixed.rules().next().map(|record| record.seen), Some(1000));
    }

    #[test]
    fn a_mask_picks_a_class_of_opcodes() {
        let mut injector = with(Rule {
            filter: Filter {
                direction: Direction::Out,
                opcode: (0x60, 0xe0),
                qp: None,
            },
            ..rule(Action::Drop, CERTAIN)
        });
        assert_eq!(injector.decide(&DATA), Fate::Pass);
        let datagram = Packet {
            opcode: 0x64,
            ..DATA
        };
        assert_eq!(injector.decide(&datagram), Fate::Drop);
    }

    #[test]
    fn management_is_spared_unless_named() {
        let mut injector = with(rule(Action::Drop, CERTAIN));
        assert_eq!(injector.decide(&MANAGEMENT), Fate::Pass);
        assert!(injector.add(Rule {
            filter: Filter {
                direction: Direction::Out,
                opcode: (0, 0),
                qp: Some(Qpn::SMI),
            },
            ..rule(Action::Duplicate, CERTAIN)
        }));
        assert_eq!(injector.decide(&MANAGEMENT), Fate::Duplicate);
        assert_eq!(injector.decide(&DATA), Fate::Drop);
    }

    #[test]
    fn counts_end_it() {
        let mut injector = with(Rule {
            after: 3,
            count: Some(2),
            ..rule(Action::Drop, CERTAIN)
        });
        let mut fates = [Fate::Pass; 7];
        for fate in &mut fates {
            *fate = injector.decide(&DATA);
        }
        let (drop, pass) = (Fate::Drop, Fate::Pass);
        assert_eq!(fates, [pass, pass, pass, drop, drop, pass, pass]);
    }

    #[test]
    fn a_cut_takes_all_that_follow_one_way() {
        let mut injector = with(Rule {
            after: 1,
            count: Some(3),
            ..rule(Action::Cut, CERTAIN)
        });
        let answer = Packet {
            direction: Direction::In,
            ..DATA
        };
        assert_eq!(injector.decide(&MANAGEMENT), Fate::Pass);
        assert_eq!(injector.decide(&DATA), Fate::Pass);
        assert_eq!(injector.decide(&DATA), Fate::Drop);
        assert_eq!(injector.decide(&answer), Fate::Pass);
        assert_eq!(injector.decide(&MANAGEMENT), Fate::Drop);
        assert_eq!(injector.decide(&DATA), Fate::Drop);
        assert_eq!(injector.decide(&DATA), Fate::Pass);
    }

    #[test]
    fn delays_stay_within_their_bounds() {
        let (time, jitter) = (Duration::from_nanos(1000), Duration::from_nanos(50));
        let mut injector = with(rule(Action::Delay { time, jitter }, CERTAIN));
        let (mut least, mut most) = (u64::MAX, 0);
        for _ in 0..10_000 {
            if let Fate::Delay(delay) = injector.decide(&DATA) {
                least = least.min(delay.nanos());
                most = most.max(delay.nanos());
            }
        }
        assert_eq!((least, most), (1000, 1050));
    }

    #[test]
    fn the_first_that_strikes_decides() {
        let mut injector = with(Rule {
            count: Some(1),
            ..rule(Action::Corrupt, CERTAIN)
        });
        assert!(injector.add(rule(Action::Duplicate, CERTAIN)));
        assert!(matches!(injector.decide(&DATA), Fate::Corrupt(_)));
        assert_eq!(injector.decide(&DATA), Fate::Duplicate);
        for _ in 2..MAX_RULES {
            assert!(injector.add(rule(Action::Drop, 0)));
        }
        assert!(!injector.add(rule(Action::Drop, 0)));
    }
}
