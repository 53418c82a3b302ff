// SPDX-License-Identifier: GPL-2.0

//! The connection manager's machine.

#[path = "cm/attributes.rs"]
mod attributes;
#[path = "cm/diagram.rs"]
mod diagram;
#[path = "cm/ends.rs"]
mod ends;
#[path = "cm/explore.rs"]
mod explore;
#[path = "cm/hostile.rs"]
mod hostile;
#[path = "cm/orders.rs"]
mod orders;
#[path = "cm/pair.rs"]
mod pair;
#[path = "cm/paths.rs"]
mod paths;
#[path = "cm/picture.rs"]
mod picture;
#[path = "cm/setup.rs"]
mod setup;
#[path = "cm/sidr.rs"]
mod sidr;
#[path = "cm/stale.rs"]
mod stale;
#[path = "cm/strays.rs"]
mod strays;
#[path = "cm/timers.rs"]
mod timers;
#[path = "cm/unknown.rs"]
mod unknown;
#[path = "cm/watch.rs"]
mod watch;
