// SPDX-License-Identifier: GPL-2.0

//! All that can happen to two connections and their queue pairs on a network that loses, doubles and reorders.
//!
//! The ends are the real machine, and so is the rule by which a queue pair follows its peer. A consumer loads a
//! path into its queue pair in one step and answers in another, and hears of a migration late. Each state that can
//! be reached with a number of LAPs and of datagrams under way is visited once, and looked at: a connection of
//! which one end has migrated and the other never can is lost.
//!
//! The four rules of [`proto::cm`] are all needed: without one of them the same walk finds a lost connection.
//!
//! Some states are left out that lead nowhere else ("thrifty"): datagrams are lost only to make room for others, and those
//! that would be dropped whenever they come are gone at once. And of two paths that nobody has named yet the first is named
//! first.

#[path = "explore/book.rs"]
mod book;
#[path = "explore/queue_pair.rs"]
mod queue_pair;
#[path = "explore/world.rs"]
mod world;

use book::Book;
use std::collections::HashSet;
use wire::mad::cm::Path;
use world::{
    Fault,
    World, //
};

/// Which end.
const A: usize = 0;
const P: usize = 1;

/// The rules that can be left out.
#[derive(Clone, Copy)]
struct Rules {
    /// Older LAPs are dropped.
    monotonic: bool,
    /// An end that has an alternate path offers no other.
    single: bool,
    /// A queue pair in REARM follows.
    follow: bool,
    /// No LAP before the peer has followed.
    settled: bool,
}

const ALL: Rules = Rules {
    monotonic: true,
    single: true,
    follow: true,
    settled: true,
};

#[derive(Clone, Copy)]
struct Bounds {
    rules: Rules,
    /// LAPs, but for their repetitions.
    laps: u8,
    /// Datagrams under way at a time.
    channel: usize,
    /// Consumers act before anything else happens.
    prompt: bool,
    /// They hear of migrations before anything else happens.
    informed: bool,
    /// None of them asks for patience.
    hasty: bool,
    /// Either may end the connection.
    ends: bool,
    /// Datagrams go only when that matters; see above.
    thrifty: bool,
}

/// All that there is, but no end.
const FREE: Bounds = Bounds {
    rules: ALL,
    laps: 2,
    channel: 2,
    prompt: false,
    informed: false,
    hasty: false,
    ends: false,
    thrifty: true,
};

/// Nobody is late.
const QUICK: Bounds = Bounds {
    prompt: true,
    informed: true,
    hasty: true,
    ..FREE
};

fn number_of(path: &Path) -> u8 {
    (path.local_lid.get() & 0xf) as u8
}

/// A walk: the states in the order in which they were come by, each with the place of the one before it.
struct Walk {
    states: Vec<(World, u32)>,
    book: Book,
    bounds: Bounds,
}

impl Walk {
    /// Walks all states, up to the first fault, which is then that of the last one.
    fn new(bounds: Bounds) -> (Self, Option<Fault>) {
        Self::by(Book::new(bounds.rules.monotonic), bounds)
    }

    /// The same with numbers that have been given already.
    fn by(mut book: Book, bounds: Bounds) -> (Self, Option<Fault>) {
        let first = World::new(&mut book);
        let mut seen = HashSet::from([first]);
        let mut walk = Self {
            states: vec![(first, 0)],
            book,
            bounds,
        };
        let mut next = Vec::new();
        let mut at = 0;
        while let Some(&(world, _)) = walk.states.get(at) {
            if let Some(fault) = world.fault(&walk.book, bounds) {
                walk.states.truncate(at + 1);
                return (walk, Some(fault));
            }
            world.successors(&mut walk.book, bounds, &mut next);
            for (_, next) in next.drain(..) {
                if seen.insert(next) {
                    walk.states.push((next, at as u32));
                }
            }
            at += 1;
        }
        (walk, None)
    }

    /// How the last state was come by, in as few steps as can be.
    fn trail(&mut self) -> String {
        let mut places = Vec::new();
        let mut at = self.states.len() - 1;
        while at != 0 {
            places.push(at);
            at = self.states[at].1 as usize;
        }
        let mut steps = Vec::new();
        for at in places.into_iter().rev() {
            let (world, before) = self.states[at];
            let (from, _) = self.states[before as usize];
            let mut next = Vec::new();
            from.successors(&mut self.book, self.bounds, &mut next);
            let found = next.into_iter().find(|(_, next)| *next == world);
            let (cause, _) = found.expect("a state follows from the one before it");
            steps.push(match cause {
                world::Cause::Lost(mad)
                | world::Cause::Doubled(mad)
                | world::Cause::Arrives(_, mad) => {
                    let mad = self.book.mad_of(mad);
                    format!("{cause:?}: {:#x} {:#x}", mad.attr_id(), mad.tid())
                }
                _ => format!("{cause:?}"),
            });
        }
        steps.join("\n")
    }
}

/// Walks all states, which must be without a fault, and many.
fn flawless(what: &str, bounds: Bounds) {
    let (mut walk, fault) = Walk::new(bounds);
    let (laps, channel, states) = (bounds.laps, bounds.channel, walk.states.len());
    println!("{what}: {laps} LAPs, {channel} datagrams under way: {states} states");
    assert_eq!(fault, None, "{}", walk.trail());
    assert!(states > 10_000, "only {states} states");
}

#[test]
fn no_connection_is_lost() {
    let (quick, late) = (Bounds { laps: 4, ..QUICK }, Bounds { laps: 3, ..FREE });
    flawless(
        "quick",
        Bounds {
            channel: 3,
            ..quick
        },
    );
    flawless("all late", late);
}

#[test]
#[ignore = "takes long"]
fn no_connection_is_lost_in_longer_walks() {
    let longest = Bounds {
        laps: 4,
        channel: 3,
        ..FREE
    };
    flawless("all late", longest);
}

/// Nothing is sent, and nobody is told anything, when a connection is over; a LAP under way ends.
#[test]
fn connections_end() {
    let bounds = Bounds {
        ends: true,
        ..QUICK
    };
    flawless("quick, with an end", bounds);
}

#[test]
#[ignore = "takes long"]
fn connections_end_in_longer_walks() {
    let bounds = Bounds { ends: true, ..FREE };
    flawless("all late, with an end", bounds);
}

/// Both ends come to the same if datagrams are lost at any time, and those that will be dropped stay under way.
#[test]
fn what_is_left_out_leads_nowhere() {
    let one = Bounds {
        laps: 1,
        ends: true,
        ..QUICK
    };
    for bounds in [FREE, Bounds { laps: 3, ..QUICK }, one] {
        let ends = |walk: &Walk| -> HashSet<World> {
            walk.states.iter().map(|(world, _)| world.ends()).collect()
        };
        let (thrifty, _) = Walk::new(bounds);
        let (few, some) = (thrifty.states.len(), ends(&thrifty));
        let bounds = Bounds {
            thrifty: false,
            ..bounds
        };
        let (whole, fault) = Walk::by(thrifty.book, bounds);
        println!("{few} states instead of {}", whole.states.len());
        assert_eq!(fault, None);
        assert!(few < whole.states.len());
        assert!(ends(&whole) == some);
    }
}

#[test]
fn each_rule_is_needed() {
    for (name, rules) in [
        (
            "monotonic",
            Rules {
                monotonic: false,
                ..ALL
            },
        ),
        (
            "single",
            Rules {
                single: false,
                ..ALL
            },
        ),
        (
            "follow",
            Rules {
                follow: false,
                ..ALL
            },
        ),
        (
            "settled",
            Rules {
                settled: false,
                ..ALL
            },
        ),
    ] {
        let bounds = Bounds {
            rules,
            laps: 3,
            ..QUICK
        };
        let (mut walk, fault) = Walk::new(bounds);
        let states = walk.states.len();
        println!("{name}: {states} states, {fault:?}\n{}\n", walk.trail());
        assert!(fault.is_some(), "{name} is not needed");
    }
}
